"""Boxes that are no sum of heads, or of too many."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.heads.one_by_one.learn import learn_multi_head
from glasshead._oracles.boundary import Budgeted
from tests.helpers import IMPOSTORS, Impostors

from .layers import changed, errors, layer, learned

OTHERS = [name for name in IMPOSTORS if name not in ("two_heads", "nearly_one_head")]


@pytest.mark.parametrize("name", OTHERS)
def test_no_sum_of_heads(name):
    with pytest.raises(gh.TargetMismatch) as caught:
        learned(getattr(Impostors(8), name), dim=8)
    assert caught.value.evidence is not None


def test_a_transformer_is_no_sum_of_heads():
    with pytest.raises(gh.TargetMismatch, match=r"half circle|linear"):
        learned(gh.Transformer.random(8, 16, seed=0))


@pytest.mark.parametrize("heads", [15, 16, 20])
def test_more_heads_than_can_be_isolated(heads):
    with pytest.raises(gh.NotConverged, match=rf"{heads} heads in dimension 16"):
        learned(layer(16, heads, 1))


def test_nothing_to_see():
    with pytest.raises(gh.NotIdentifiable, match="v = 0"):
        learned(lambda X: np.full(len(X), 0.3), dim=8)
    with pytest.raises(gh.NotConverged, match="dimension 1"):
        learned(gh.Attention([[1.0]], [1.0]))


def test_tokens_too_short_to_saturate():
    with pytest.raises(gh.NotConverged, match="max_norm = 10"):
        learned(layer(16, 3, 4), max_norm=10.0)


@pytest.mark.parametrize("max_norm", [3e4, 1e6])
def test_tokens_never_exceed_max_norm(max_norm):
    target = layer(16, 3, 4)
    found, _ = learned(target, max_norm=max_norm)  # the oracle itself refuses longer ones
    assert max(errors(found.model, target).values()) <= 1e-9


def test_vector_answers_and_half_precision_are_somebody_elses():
    wide = gh.MultiHead([gh.Attention(np.eye(4), np.eye(4)), gh.Attention(-np.eye(4), np.eye(4))])
    with pytest.raises(ValueError, match="one number per answer"):
        learned(wide)


@pytest.mark.parametrize("budget", [5, 60, 300, 600])
def test_what_is_known_when_the_budget_is_spent(budget):
    target = layer(16, 3, 4)
    oracle = Budgeted(gh.ValueOracle(target), budget)
    with pytest.raises(gh.BudgetExceeded) as caught:
        learn_multi_head(oracle, np.random.default_rng(0))
    assert oracle.queries <= budget
    assert ("v_sum" in caught.value.known) == (budget > 17)
    assert ("v" in caught.value.known) == (budget >= 300)


@pytest.mark.parametrize("family", ["multi-head", "auto"])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_what_is_still_needed_is_never_too_much(family, mean):
    target = layer(10, 3, 3)
    target = gh.MultiHead([*target.heads, gh.Attention(np.zeros((10, 10)), np.full(10, mean))], bias=target.bias)
    truth = gh.recover(gh.ValueOracle(target), family=family).queries
    told = []
    for budget in range(50, truth, 100):
        with pytest.raises(gh.BudgetExceeded) as caught:
            gh.recover(gh.ValueOracle(target), family=family, budget=budget)
        assert 0 < caught.value.needed <= truth - budget
        told.append(budget + caught.value.needed)
        if "heads" in caught.value.known:
            assert told[-1] >= 3 * (2 * 10 + 10)  # three heads of rank 1 at least
    assert told[-1] >= 0.7 * truth


@pytest.mark.parametrize("factor", [2.0, -1.0])
def test_errors_have_their_public_names(factor):
    target = layer(16, 3, 4)
    first = target.heads[0]
    target = changed(target, 1, W=factor * first.W, key_bias=factor * first.key_bias)
    with pytest.raises((gh.TargetMismatch, gh.NotConverged)) as caught:
        learned(target)
    assert type(caught.value) in (gh.TargetMismatch, gh.NotConverged)


def test_a_box_that_is_less_accurate_than_promised():
    noisy = gh.defences.gaussian(layer(16, 3, 4), 1e-5)
    with pytest.raises(gh.GlassheadError):
        learned(noisy, dim=16)
