"""Position vectors in front of one head alone, where they are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import glasshead as gh

D = 6
HEADS = {
    "one number": gh.Attention.random(D, seed=1),
    "low rank": gh.Attention.random(D, rank=2, seed=1),
}
TABLE = 0.3 * np.random.default_rng(5).standard_normal((70, D))


def placed(head):
    return lambda X: head(X + TABLE[: X.shape[1]])


@pytest.mark.parametrize("kind", ["one number", "low rank"])
def test_vectors_in_front_of_a_head_are_found_where_asked_for(kind):
    box = placed(HEADS[kind])
    found = gh.recover(gh.ValueOracle(box, D), places=66)
    assert (found.family, found.bound) == ("attention", None)
    assert found.model.positions.shape == (66, D)
    assert not found.model.positions[0].any()
    assert "which nothing bounds; a model that is wrong on one query in four would pass in 0.0% of" in found.reason
    if kind == "one number":
        assert np.abs(found.model.positions - (TABLE - TABLE[0])[:66]).max() < 1e-9
        assert np.abs(found.model.model.W - HEADS[kind].W).max() < 1e-9
        assert gh.distance(found.model, gh.Placed(HEADS[kind], TABLE)) < 1e-9
    X = np.random.default_rng(0).standard_normal((3, 66, D))
    for n in (1, 2, 7, 66):
        np.testing.assert_allclose(found.model(X[:, :n]), box(X[:, :n]), atol=1e-9)


OTHERS = {
    "two heads": lambda X: HEADS["one number"](X + TABLE[: X.shape[1]]) + HEADS["low rank"](X + TABLE[: X.shape[1]]),
    "times": lambda X: HEADS["one number"](X * (1 + TABLE[: X.shape[1]])),
    "from the end": lambda X: HEADS["one number"](X + TABLE[: X.shape[1]][::-1]),
    "of keys": lambda X: HEADS["one number"](np.concatenate([placed(lambda Y: Y)(X[:, :-1]), X[:, -1:]], axis=1)),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_positions_are_refused_with_two_sequences_that_show_them(kind):
    with pytest.raises(gh.TargetMismatch, match="positions") as refused:
        gh.recover(gh.ValueOracle(OTHERS[kind], D), places=64)
    one, other = refused.value.known["orders"]
    assert np.abs(OTHERS[kind](one[None]) - OTHERS[kind](other[None])).max() > 1e-3


def test_unless_they_are_asked_for_the_refusal_is_early_and_names_positions():
    oracle = gh.ValueOracle(placed(HEADS["one number"]), D)
    with pytest.raises(gh.TargetMismatch, match="positions") as refused:
        gh.recover(oracle)
    assert oracle.queries < 100
    assert len(refused.value.known["orders"]) == 2


def test_as_many_places_as_the_judge_asks_about():
    with pytest.raises(ValueError, match=">= 64"):
        gh.recover(gh.ValueOracle(placed(HEADS["one number"]), D), places=8)


class Capped:
    """A head with two outputs whose scores are capped softly, on tokens with vectors of that size."""

    def __init__(self, d, rank, size, seed, cap=np.inf):
        rng = np.random.default_rng(seed)
        full = rank == d
        self.W = rng.normal(size=(d, d)) / d if full else rng.normal(size=(d, rank)) @ rng.normal(size=(rank, d)) / d
        self.v, self.key_bias = rng.normal(size=(d, 2)), 0.3 * rng.normal(size=d)
        self.table, self.cap = size * rng.normal(size=(70, d)), cap

    def __call__(self, X):
        Z = X + self.table[: X.shape[1]]
        scores = np.einsum("bnd,bd->bn", Z, Z[:, -1] @ self.W.T + self.key_bias)
        scores = scores if self.cap == np.inf else self.cap * np.tanh(scores / self.cap)
        return np.einsum("bn,bnd->bd", softmax(scores, axis=1), Z) @ self.v + 0.5


@pytest.mark.parametrize("seed", [1, 2])
def test_a_head_that_is_refused_without_vectors_is_refused_with_them(seed):
    box = Capped(4, 4, 3.0, seed)
    found = gh.recover(gh.ValueOracle(box, 4), places=64)
    assert np.abs(found.model.model.W - box.W).max() < 1e-9
    for cap in (2000, 100_000):
        with pytest.raises(gh.TargetMismatch, match="without them copies of a token are answered"):
            gh.recover(gh.ValueOracle(Capped(4, 4, 3.0, seed, cap), 4), places=64)


def test_one_head_has_to_predict_half_of_the_digits():
    with pytest.raises(gh.TargetMismatch, match=r"one head predicts answers to [0-9.]+(e-\d+)? of the largest only"):
        gh.recover(gh.ValueOracle(Capped(12, 2, 0.3, 1, 2000), 12), places=64)


@pytest.mark.parametrize("longest", [0.5, 2.0, 10.0, 100.0])
def test_tokens_that_are_too_short_are_named(longest):
    oracle = gh.ValueOracle(placed(HEADS["one number"]), D, max_norm=longest)
    with pytest.raises(gh.TargetMismatch, match=r"no vectors in front were found: .*too short"):
        gh.recover(oracle, places=64)
