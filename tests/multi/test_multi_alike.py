"""Parameters that no answer can tell apart: what is found is the canonical form."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.heads import check_held_out_heads
from glasshead._learners.heads.one_by_one.learn import learn_multi_head

from .layers import changed, errors, layer, learned


def test_two_pairs_share_a_W_and_one_head_is_silent():
    target = layer(32, 6, 4, seed=3)
    for h, other in ((1, 0), (3, 2)):
        target = changed(target, h, W=target.heads[other].W, key_bias=target.heads[other].key_bias)
    target = changed(target, 4, v=np.zeros(32))
    found, _ = learned(target)
    assert len(found.rank) == 3
    assert gh.equivalent(found.model, target, tol=1e-8)
    assert max(errors(found.model, gh.canonical(target)).values()) <= 1e-10


def test_equal_W_with_different_key_biases_are_two_heads():
    target = layer(24, 3, 4)
    target = changed(target, 1, W=target.heads[0].W)
    found, _ = learned(target)
    assert max(errors(found.model, target).values()) <= 1e-9


def test_heads_nearly_alike_are_merged_and_that_is_said():
    target = layer(24, 3, 4)
    twin, other = target.heads[0], target.heads[2]
    target = changed(target, 1, W=twin.W + 1e-9 * other.W, key_bias=twin.key_bias)
    oracle = gh.ValueOracle(target)
    rng = np.random.default_rng(0)
    found = learn_multi_head(oracle, rng)
    check = check_held_out_heads(oracle, found, rng)
    assert len(found.rank) == 2
    assert check.residual <= 1e-7
    assert check.evidence is None
    assert "merged within a tolerance of" in check.words


def test_values_nearly_parallel():
    target = layer(32, 4, 4)
    target = changed(target, 1, v=target.heads[0].v + 1e-3 * target.heads[1].v)
    found, _ = learned(target)
    assert max(errors(found.model, target).values()) <= 1e-7


@pytest.mark.parametrize("factor", [2.0, 1.001, -1.0])
def test_proportional_W_is_refused(factor):
    target = layer(16, 3, 4)
    first = target.heads[0]
    target = changed(target, 1, W=factor * first.W, key_bias=factor * first.key_bias)
    with pytest.raises((gh.TargetMismatch, gh.NotConverged), match=r"hide behind|told apart"):
        learned(target)


@pytest.mark.parametrize("sign", [1, -1])
def test_parallel_values_are_refused(sign):
    target = layer(16, 3, 4)
    with pytest.raises(gh.NotConverged, match="parallel"):
        learned(changed(target, 1, v=sign * target.heads[0].v))
