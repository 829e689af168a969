"""One head with k outputs: a query reads as many scores as the value map has rank."""

from __future__ import annotations

import numpy as np
import pytest

from glasshead._learners.heads.vector.learn import learn_vector, learn_vector_attention

from .boxes import head, learned


@pytest.mark.parametrize("biases", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_k_equal_d(seed, biases):
    """Issue 7: all of W and v to 1e-9 in 3 d + 104 queries."""
    found, error, queries = learned(head(64, 64, key_bias=biases, bias=biases, seed=seed), learn_vector_attention)
    assert error <= 1e-9
    assert queries <= 3 * 64 + 104
    assert found.rank == (64,)


CASES = [
    ((32, 8), {}, 32),
    ((32, 8), {"key_bias": 1.0, "bias": 1.0}, 32),
    ((32, 8), {"rank": 3}, 3),
    ((32, 8), {"rank": 3, "key_bias": 1.0}, 3),
    ((32, 32), {"value_rank": 5, "key_bias": 1.0, "bias": 1.0}, 32),
    ((32, 32), {"value_rank": 1}, 32),
    ((32, 2), {}, 32),
    ((16, 40), {"key_bias": 10.0, "bias": 10.0}, 16),
    ((16, 16), {"key_bias": 1e-4}, 16),
    ((3, 2), {"bias": 1.0}, 3),
    ((2, 2), {}, 2),
    ((1, 2), {}, 1),
]


@pytest.mark.parametrize(("shape", "options", "rank"), CASES)
def test_any_shape(shape, options, rank):
    found, error, _ = learned(head(*shape, **options), learn_vector_attention)
    assert error <= 1e-9
    assert found.rank == (rank,)


def scaled(W, v):
    box = head(16, 16, key_bias=1.0, bias=1.0)
    return type(box)(W * box.W, v * box.v, key_bias=W * box.key_bias, bias=box.bias)


@pytest.mark.parametrize(("W", "v"), [(1e-4, 1.0), (1e2, 1.0), (1e-3, 1e6)])
def test_any_scale(W, v):
    _, error, _ = learned(scaled(W, v), learn_vector_attention)
    assert error <= 1e-8


@pytest.mark.parametrize(("W", "v"), [(1.0, 1e-6), (1e4, 1e4)])
def test_lost_digits_are_owned_up_to(W, v):
    """A bias, or a last token, that drowns what other tokens add: fewer digits, and the estimate says so."""
    found, error, _ = learned(scaled(W, v), learn_vector_attention)
    assert 1e-8 < error <= found.error <= 1e-3


def test_queries_with_few_outputs():
    """Each query reads k scores: d^2 / k queries for W, d for v, and some eighty more."""
    _, _, queries = learned(head(64, 16), learn_vector_attention)
    assert queries <= 64 * 64 / 16 + 64 / 16 + 104 + 84


def test_low_rank_saves_queries():
    _, _, full = learned(head(64, 8), learn_vector_attention)
    _, _, few = learned(head(64, 8, rank=4), learn_vector_attention)
    assert few < full / 2


def test_a_layer_of_one_head():
    found, error, _ = learned(head(24, 24, key_bias=1.0, bias=1.0), learn_vector)
    assert error <= 1e-9
    assert len(found.rank) == 1


@pytest.mark.parametrize("key_bias", [0.0, 1.0])
def test_no_W(key_bias):
    box = head(8, 8, key_bias=key_bias, bias=1.0)
    found, _, _ = learned(type(box)(0 * box.W, box.v, key_bias=box.key_bias, bias=box.bias), learn_vector_attention)
    assert found.rank == (0,)
    assert np.linalg.norm(found.model.key_bias - box.key_bias) <= 1e-9


def test_short_tokens_only():
    box = head(16, 16, key_bias=1.0, bias=1.0)
    _, error, _ = learned(box, learn_vector_attention, max_norm=4.0)
    assert error <= 1e-9


def test_the_error_is_no_wish():
    """The estimate from fresh queries is at least the true error, within a factor of two, in nearly every run."""
    pairs = [learned(head(16, 16, key_bias=1.0, seed=seed), learn_vector_attention)[:2] for seed in range(20)]
    assert sum(error > 2 * found.error for found, error in pairs) <= 1


def test_same_seed_same_queries():
    asked = []

    def watched(X):
        asked.append(X.copy())
        return box(X)

    box = head(8, 8, key_bias=1.0)
    for _ in range(2):
        learned_from(watched, box)
    half = len(asked) // 2
    assert all(np.array_equal(a, b) for a, b in zip(asked[:half], asked[half:], strict=True))


def learned_from(f, box):
    import glasshead as gh

    return learn_vector_attention(gh.ValueOracle(f, dim=box.dim), np.random.default_rng(5))
