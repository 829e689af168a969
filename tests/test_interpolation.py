"""The baseline: rational interpolation over repetitions. It finds few heads, and says when there were too many."""

import numpy as np
import pytest
from bench.blocks_cases import head_errors

import glasshead as gh
from glasshead.baselines.rational_interpolation import pairs, spread_ratios


@pytest.mark.parametrize(("dim", "heads", "tolerance"), [(1, 1, 1e-9), (8, 1, 1e-9), (8, 2, 1e-9), (8, 3, 1e-6)])
def test_recovers(dim, heads, tolerance):
    target = gh.MultiHead.random(dim, heads, seed=1)
    oracle = gh.ValueOracle(target)
    found = gh.baselines.rational_interpolation(oracle, heads)
    assert head_errors(found.model, target)[-1] <= tolerance
    asked = 2 * heads * (2 * dim**2 - dim) + dim
    assert found.queries == oracle.queries == asked + 48 * 2 * heads + 16
    assert asked <= 4 * heads * dim**2 - 2 * heads + 1
    assert found.residual is not None
    assert found.residual <= 1e-3


@pytest.mark.parametrize("heads", [6, 8])
def test_double_precision_ends_before_six_heads(heads):
    target = gh.MultiHead.random(12, heads, seed=0)
    with pytest.raises(gh.NotConverged, match=f"lost the poles of {heads} heads in double precision") as caught:
        gh.baselines.rational_interpolation(target, heads)
    assert caught.value.best.heads == heads
    assert head_errors(caught.value.best.model, target)[-1] > 1e-3


def test_poles_from_values():
    r = np.array([ratio.p / ratio.k for ratio in spread_ratios(8, 32)])
    s, c = np.array([-2.0, 0.5, 3.0]), np.array([1.0, -2.0, 0.5])
    y = (c * r[:, None] / (r[:, None] + np.exp(-s))).sum(axis=1)
    found, values = pairs(r, y[None], np.array([c.sum()]), 3)
    order = np.argsort(found[0])
    assert np.allclose(found[0][order], s, atol=1e-9)
    assert np.allclose(values[0][order], c, atol=1e-9)


def test_ratios_are_spread_and_distinct():
    ratios = spread_ratios(10, 8)
    assert ratios[0] == (1, 8)
    assert ratios[-1] == (8, 1)
    assert len(set(ratios)) == 10


WRONG = {
    "heads": ({"heads": 0}, "expected heads to be an integer >= 1, got 0"),
    "samples": ({"heads": 2, "samples": 3}, "expected samples to be an integer >= 4, got 3"),
    "copies": ({"heads": 4, "copies": 3}, "expected at most 5 samples for copies=3, got 8; allow more copies"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments(case):
    arguments, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        gh.baselines.rational_interpolation(gh.MultiHead.random(4, 2), **arguments)
