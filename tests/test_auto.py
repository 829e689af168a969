"""`family="auto"`: several heads are noticed before W is read, and one head is never taken for several."""

import contextlib

import numpy as np
import pytest

import glasshead as gh
from glasshead._errors import ANY_RANK
from glasshead._meters import value
from glasshead._oracles import law_token, read_first_answers
from glasshead._recognise.rules import find_several

from .helpers import head
from .multi.layers import layer

SIZES = [(8, 2, 2), (16, 3, 4), (32, 4, 8), (16, 2, 16), (16, 5, 1)]


@pytest.mark.parametrize(("dim", "heads", "rank"), SIZES)
@pytest.mark.parametrize("biases", [False, True])
def test_several_heads_are_noticed_before_W_is_read(dim, heads, rank, biases):
    target = layer(dim, heads, rank, seed=2, biases=biases)
    several = gh.recover(gh.ValueOracle(target), family="multi-head")
    found = gh.recover(gh.ValueOracle(target))
    assert found.heads == heads
    assert found.queries <= several.queries + dim + 56
    assert "one head does not explain it" in found.reason


@pytest.mark.parametrize("seed", range(12))
def test_the_evidence_is_about_one_query_token(seed):
    target = layer(12, 2, 3, seed=seed, biases=seed % 2 == 0)
    oracle = gh.ValueOracle(target)
    with pytest.raises(gh.TargetMismatch) as caught:
        gh.recover(oracle, family="attention", seed=seed)
    assert caught.value.evidence is not None
    assert caught.value.evidence.law in ANY_RANK
    assert oracle.queries <= 2 * 12 + 48


@pytest.mark.parametrize("rank", [4, 6])
def test_a_rank_may_be_that_of_several_heads(rank):
    target = layer(16, 3, 4, seed=1)
    found = gh.recover(gh.ValueOracle(target), rank=rank)
    assert found.rank == (4, 4, 4)
    assert gh.distance(found.model, target) < 1e-9


@pytest.mark.parametrize("key_bias", [None, 1.0])
def test_one_head_of_a_higher_rank_is_not_taken_for_several(key_bias):
    target = head(16, key_bias=key_bias)
    oracle = gh.ValueOracle(target)
    with pytest.raises(gh.TargetMismatch, match="or its rank is above rank=3") as caught:
        gh.recover(oracle, rank=3)
    assert oracle.queries <= gh.plan(16, rank=3, biases=True) + 48
    assert 'family="multi-head"' in caught.value.__notes__[0]


def test_several_heads_of_a_higher_rank_are_refused_as_such():
    with pytest.raises(gh.TargetMismatch, match=r"not a sum of attention heads.* rank is above rank=1") as caught:
        gh.recover(gh.ValueOracle(layer(12, 2, 4)), rank=1)
    assert not any('family="multi-head"' in note for note in caught.value.__notes__)  # it was tried
    assert isinstance(caught.value.best, gh.Recovery)


def cancelling(gap: float, bias: float = 0.0) -> gh.MultiHead:
    """Three heads whose values add up to nothing but that gap: one token alone says next to nothing."""
    first, second, third = layer(6, 3, 2, biases=False).heads
    v = gap * third.v - first.v - second.v
    return gh.MultiHead([first, second, gh.Attention(third.W, v)], bias=bias)


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-6, 1e-2])
def test_values_that_cancel_in_one_token_show_in_two(gap, bias):
    target = cancelling(gap, bias)
    found = gh.recover(gh.ValueOracle(target))
    assert found.heads == 3
    assert gh.distance(found.model, target) <= 1e-8


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_what_never_depends_on_tokens_is_still_not_identifiable(bias):
    oracle = gh.ValueOracle(gh.Attention(np.eye(6), np.zeros(6), bias=bias))
    with pytest.raises(gh.NotIdentifiable, match="v = 0"):
        gh.recover(oracle)
    assert oracle.queries <= 6 + 32


PROMISES = {
    "exact": lambda f, d: gh.ValueOracle(f),
    "tolerance": lambda f, d: gh.ValueOracle(gh.defences.noisy(f, 1e-4), dim=d, tolerance=1e-4),
    "rounded": lambda f, d: gh.ValueOracle(gh.defences.rounded(f, 3), dim=d, tolerance=0.5e-3),
    "rtol": lambda f, d: gh.ValueOracle(lambda X: f(X) * (1 + 1e-3 * np.sin(1e6 * f(X))), dim=d, rtol=1e-3),
    "float32": lambda f, d: gh.ValueOracle(lambda X: f(X).astype(np.float32), dim=d),
    "float16": lambda f, d: gh.ValueOracle(gh.defences.half(f), dim=d),
    "bfloat16": lambda f, d: gh.ValueOracle(gh.defences.bfloat16(f), dim=d),
    "max_norm": lambda f, d: gh.ValueOracle(f, max_norm=3.0),
}


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("W", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("key_bias", [None, 1.0])
def test_one_head_never_looks_like_several(promise, W, key_bias, monkeypatch):
    monkeypatch.setattr(value, "LOOSE_LOGIT", 0.0)  # so that the intervals alone decide
    for seed in range(1 if promise == "bfloat16" else 3):
        target = head(5 + 2 * seed, W=W, key_bias=key_bias, bias=0.1, seed=seed)
        with contextlib.suppress(gh.AccuracyUnreachable, gh.OracleError):  # W is not determined, or answers overflow
            found = gh.recover(PROMISES[promise](target, target.dim), seed=seed)
            assert found.heads == 1


@pytest.mark.parametrize("seed", range(5))
def test_several_heads_are_told_by_typical_answers(seed):
    """A float32 box that answers the first token with rounding alone, which depends on the batch."""
    token = law_token(gh.ValueOracle(lambda X: X[:, -1, 0], dim=6), np.random.default_rng(seed))
    heads = gh.MultiHead.random(6, 2, rank=2, seed=seed).heads
    first = heads[0].v - (heads[0].v + heads[1].v) @ token * token
    box = gh.MultiHead([gh.Attention(heads[0].W, first), heads[1]])
    calls = []

    def answer(X):
        calls.append(len(X))
        size = 2.0**-23 * np.linalg.norm(X, axis=2).max(axis=1) * (-1) ** len(calls)
        return (box(X) + size).astype(np.float32)

    oracle = gh.ValueOracle(answer, dim=6, dtype="float32")
    opening = read_first_answers(oracle, np.random.default_rng(seed + 100))
    assert find_several(oracle, np.random.default_rng(seed), opening).families == ("multi-head",)
