"""What is said of heads that could not be told apart is true."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.family_laws import check_sum_laws, read_largest_change
from tests.multi.layers import changed, layer

from .layers import hidden


def nearly_opposite(gap: float) -> gh.MultiHead:
    """Two heads that cancel but for a small difference of their scores."""
    first, second = layer(5, 2, 3, biases=False).heads
    return gh.MultiHead([first, gh.Attention(first.W + gap * second.W, -first.v)])


@pytest.mark.parametrize("family", ["multi-head", "auto"])
@pytest.mark.parametrize("gap", [1e-5, 1e-9])
def test_heads_that_nearly_cancel_are_not_called_silent(gap, family):
    target = nearly_opposite(gap)
    try:
        found = gh.recover(gh.ValueOracle(target), family=family)
    except gh.NotConverged:
        return
    assert gh.distance(found.model, target) <= 1e-3


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_only_what_depends_on_tokens_changes(bias):
    rng = np.random.default_rng(0)
    assert read_largest_change(gh.ValueOracle(lambda X: np.full(len(X), bias), dim=5), rng) == 0
    near = gh.MultiHead(list(nearly_opposite(1e-5).heads), bias=bias)
    assert read_largest_change(gh.ValueOracle(near), rng) > 0


def test_heads_too_alike_may_be_heads():
    target = layer(6, 3, 6)
    target = changed(target, 1, W=target.heads[0].W + 1e-5 * target.heads[2].W, key_bias=target.heads[0].key_bias)
    oracle = gh.ValueOracle(target)
    assert check_sum_laws(oracle, np.random.default_rng(0))
    with pytest.raises((gh.TargetMismatch, gh.NotConverged)) as caught:
        gh.recover(oracle, family="multi-head")
    if isinstance(caught.value, gh.TargetMismatch):
        assert "too alike" in str(caught.value)
        assert isinstance(caught.value.best, gh.Recovery | None)


def test_a_key_that_never_changes_has_no_scores_at_all():
    found = gh.recover(gh.ValueOracle(hidden("a key that never changes", (6, 4, 6))), family="multi-head")
    W = [head.W for head, rank in zip(found.model.heads, found.rank, strict=True) if rank == 0]
    assert len(W) == 1
    assert not W[0].any()


@pytest.mark.parametrize("budget", [200, 400, 600])
def test_what_is_known_when_the_budget_ends(budget):
    target = hidden("equal values", (6, 4, 6))
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(gh.ValueOracle(target), family="multi-head", budget=budget)
    assert np.abs(caught.value.known["v_sum"] - target.v.sum(axis=0)).max() <= 1e-9
