"""What is no two-layer network is refused, with what was seen; so are wrong arguments and spent budgets."""

from __future__ import annotations

import numpy as np
import pytest
from bench.network_boxes import DIM, RIGHT_ON_SPHERES, WRONG, wrong_box

import glasshead as gh


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("sphere", [False, True])
def test_wrong_networks_are_refused(name, sphere):
    """The benchmark has three hundred of them."""
    if sphere and name in RIGHT_ON_SPHERES:
        pytest.skip("a network, as far as this sphere shows")
    with pytest.raises(gh.GlassheadError) as refusal:
        gh.recover_network(wrong_box(name, 100), DIM, sphere=sphere)
    assert "inside glasshead failed" not in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "is_one"), [("gelu", "silu"), ("silu", "gelu"), ("gelu", "gelu-tanh"), ("geglu", "silu")]
)
def test_another_activation_than_named_is_refused(asked, is_one):
    with pytest.raises(gh.GlassheadError, match="activation"):
        gh.recover_network(gh.TwoLayer.random(8, 10, activation=is_one, seed=1), activation=asked)


def test_a_gate_that_was_not_named_is_refused():
    with pytest.raises(gh.TargetMismatch, match="span 20 dimensions"):
        gh.recover_network(gh.TwoLayer.random(8, 10, activation="silu", gated=True), activation="silu")


@pytest.mark.parametrize("name", ["something else far out", "noise of 1e-3"])
def test_the_best_of_a_refusal_is_what_is_handed_back_else(name):
    """A network, once there is one of all outputs; the ReLU network of one of their combinations is none."""
    box = wrong_box(name, 100)
    with pytest.raises((gh.TargetMismatch, gh.NotConverged)) as refusal:
        gh.recover_network(box, DIM)
    best = refusal.value.best
    if name.startswith("noise"):
        assert best is None
        return
    x = np.random.default_rng(0).standard_normal((3, DIM))
    np.testing.assert_allclose(best(x), box(x), rtol=1e-6)
    assert (best.confidence, best.checked, best.bound) == (0.0, None, None)
    assert best.queries > best.width * DIM
    assert "refused: a fresh input is answered off by" in str(best)


def test_more_neurons_than_second_derivatives_tell_apart():
    with pytest.raises(gh.NotConverged, match="fill the 10 dimensions of symmetric matrices"):
        gh.recover_network(gh.TwoLayer.random(4, 16, seed=1))


def test_more_neurons_than_were_to_be_looked_for():
    with pytest.raises(gh.NotConverged, match="wider"):
        gh.recover_network(gh.TwoLayer.random(16, 60, seed=1), widest=10)


def test_a_spent_budget_says_what_is_known():
    with pytest.raises(gh.BudgetExceeded) as spent:
        gh.recover_network(gh.TwoLayer.random(8, 10, seed=1), budget=3150)
    assert spent.value.known == {"dimensions": 10}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation": "tanh"}, "expected activation to be one of"),
        ({"radius": -1.0}, "expected radius to be a positive number"),
        ({"budget": 0}, "expected budget to be an integer >= 1"),
        ({"widest": 1.5}, "expected widest to be an integer >= 1"),
        ({"seed": -1}, "expected seed to be an integer >= 0"),
        ({"dim": 9}, "expected dim=8"),
    ],
)
def test_wrong_arguments(settings, words):
    with pytest.raises(ValueError, match=words):
        gh.recover_network(gh.TwoLayer.random(8, 10), **settings)


@pytest.mark.parametrize(
    ("settings", "words"), [({"sphere": 1}, "expected sphere"), ({"progress": "bar"}, "expected progress")]
)
def test_arguments_of_the_wrong_type(settings, words):
    with pytest.raises(TypeError, match=words):
        gh.recover_network(gh.TwoLayer.random(8, 10), **settings)


def test_a_box_must_say_its_dimension():
    with pytest.raises(ValueError, match=r"call recover_network\(f, dim\)"):
        gh.recover_network(lambda x: x)
    with pytest.raises(TypeError, match="expected a callable box"):
        gh.recover_network(3, 4)


def test_affine_boxes_have_no_neurons():
    A = np.random.default_rng(0).standard_normal((3, 5))
    found = gh.recover_network(lambda x: x @ A.T + 1, 5)
    x = np.random.default_rng(1).standard_normal((50, 5))
    assert np.abs(found(x) - x @ A.T - 1).max() < 1e-9
