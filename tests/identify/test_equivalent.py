"""Same function or not, decided from the parameters; and where not, an input that shows it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from ..helpers import head, sequences
from .models import changed, disguised, nearby, random_model, two_pairs_and_a_silent_one

seeds = st.integers(0, 2**16)
shapes = (st.integers(1, 6), st.integers(1, 5), st.sampled_from([None, 1, 3]), st.booleans(), st.booleans(), seeds)


def differs_clearly(a, b, X):
    """By much more than rounding: the two answers and the tokens are all there is to round."""
    largest = np.abs(X).max() * (np.abs(a.v).sum() + np.abs(b.v).sum()) + np.abs(a.bias).max()
    return np.abs(a(X) - b(X)).max() > 20 * np.finfo(float).eps * largest


@settings(max_examples=25, deadline=None)
@given(*shapes)
def test_disguises_are_equivalent(dim, heads, outputs, key_bias, bias, seed):
    rng = np.random.default_rng(seed)
    model = random_model(dim, heads, rng, outputs=outputs, key_bias=key_bias, bias=bias)
    other = disguised(model, rng)
    assert gh.equivalent(model, other)
    assert gh.equivalent(other, model)
    assert gh.separating_input(model, other) is None
    for X in sequences(dim, [1, 2, 5]):
        np.testing.assert_allclose(model(X), other(X), rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(*shapes, st.sampled_from(["W", "v", "key_bias", "bias"]), st.sampled_from([1e-6, 1e-3, 1.0]))
def test_neighbours_are_told_apart(dim, heads, outputs, key_bias, bias, seed, what, size):
    rng = np.random.default_rng(seed)
    model = random_model(dim, heads, rng, outputs=outputs, key_bias=key_bias, bias=bias)
    other = disguised(nearby(model, what, size, rng), rng)
    assert not gh.equivalent(model, other)
    X = gh.separating_input(model, other)
    assert X.shape[1] == dim
    assert differs_clearly(model, other, X)
    assert differs_clearly(other, model, gh.separating_input(other, model))


def test_two_pairs_and_a_silent_one():
    model, disguise = two_pairs_and_a_silent_one(np.random.default_rng(0))
    assert gh.equivalent(model, disguise)
    assert gh.separating_input(model, disguise) is None


def test_one_head_is_one_head():
    one = head(4, bias=1.0, key_bias=1.0)
    assert gh.equivalent(one, gh.MultiHead([one]))
    assert gh.equivalent(one, gh.Attention(one.W, one.v[:, None], key_bias=one.key_bias, bias=[one.bias]))
    assert not gh.equivalent(one, gh.MultiHead([one, head(4, seed=5)]))
    factored = gh.Attention.random(5, rank=2)
    assert gh.equivalent(factored, gh.Attention(factored.W, factored.v))


@pytest.mark.parametrize("outputs", [None, 2])
def test_two_rows_do_not_suffice(outputs):
    """(W, v) and (-W, v) together answer two tokens like twice the mean; three tokens tell."""
    one = random_model(4, 1, np.random.default_rng(0), outputs=outputs, key_bias=True).heads[0]
    mirror = changed(one, W=-one.W, key_bias=-one.key_bias)
    pair, mean = gh.MultiHead([one, mirror]), gh.Attention(0 * one.W, 2 * one.v)
    for X in sequences(4, [1, 2]):
        np.testing.assert_allclose(pair(X), mean(X), atol=1e-12)
    assert not gh.equivalent(pair, mean)
    X = gh.separating_input(pair, mean)
    assert X.shape == (3, 4)
    assert np.abs(pair(X) - mean(X)).max() > 1e-3
    turned = gh.MultiHead([changed(mirror, v=-one.v), mean])
    assert len(gh.separating_input(one, turned)) == 3


@pytest.mark.parametrize(
    ("rows", "other"), [(1, {"v": 2.0}), (2, {"W": 2.0}), (2, {"W": -1.0}), (2, {"key_bias": 2.0})]
)
def test_inputs_are_as_short_as_they_can_be(rows, other):
    one = head(5, key_bias=1.0)
    (name, factor), *_ = other.items()
    assert len(gh.separating_input(one, changed(one, **{name: factor * getattr(one, name)}))) == rows


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("what", ["W", "v", "key_bias"])
def test_units_of_length_do_not_matter(unit, what):
    rng = np.random.default_rng(0)
    model = random_model(4, 3, rng, key_bias=True)
    model = gh.MultiHead([changed(h, W=h.W / unit**2, key_bias=h.key_bias / unit, v=h.v / unit) for h in model.heads])
    other = nearby(model, what, 1e-6, rng)
    assert gh.equivalent(model, disguised(model, rng))
    assert not gh.equivalent(model, other)
    X = gh.separating_input(model, other)
    assert 1e-3 * unit < np.abs(X).max() < 1e5 * unit


def test_heads_of_all_sizes():
    """Each head perturbed in turn, where W spans ten orders of magnitude."""
    rng = np.random.default_rng(0)
    model = gh.MultiHead([head(5, W=10.0**k, seed=k + 5) for k in range(-5, 6)])
    for h, one in enumerate(model.heads):
        heads = list(model.heads)
        heads[h] = nearby(gh.MultiHead([one]), "W", 1e-6, rng).heads[0]
        other = gh.MultiHead(heads)
        assert differs_clearly(model, other, gh.separating_input(model, other))


def test_a_realistic_size():
    rng = np.random.default_rng(0)
    model = gh.MultiHead.random(96, heads=12, rank=8)
    for what in ("W", "v", "key_bias"):
        other = nearby(model, what, 1e-6, rng)
        assert not gh.equivalent(model, other)
        assert differs_clearly(model, other, gh.separating_input(model, other))
        assert gh.equivalent(model, nearby(model, what, 1e-12, rng))


def test_tolerance_is_the_callers():
    one = head(3)
    other = changed(one, W=one.W * (1 + 1e-5))
    assert not gh.equivalent(one, other)
    assert gh.equivalent(one, other, tol=1e-4)
    assert gh.separating_input(one, other, tol=1e-4) is None


def test_biases_count():
    one = head(3)
    assert not gh.equivalent(one, gh.Attention(one.W, one.v, bias=1e-6))
    assert gh.equivalent(one, gh.Attention(one.W, one.v, bias=1e-16))
    silent = [gh.Attention(head(3, seed=k).W, np.zeros(3), bias=bias) for k, bias in ((1, 2.0), (2, 2.0), (2, 3.0))]
    assert gh.equivalent(silent[0], silent[1])
    assert gh.separating_input(silent[0], silent[2]).tolist() == [[0.0, 0.0, 0.0]]


def test_the_same_question_gets_the_same_answer():
    one, two = gh.MultiHead.random(4, heads=2, seed=1), gh.MultiHead.random(4, heads=2, seed=2)
    assert np.array_equal(gh.separating_input(one, two), gh.separating_input(one, two))


def test_other_shapes():
    assert not gh.equivalent(head(3), head(4))
    assert not gh.equivalent(head(3), gh.Attention(np.eye(3), np.eye(3)))
    with pytest.raises(ValueError, match="the same inputs and outputs, got Attention"):
        gh.separating_input(head(3), head(4))
    with pytest.raises(TypeError, match=r"expected a gh.Attention or a gh.MultiHead, got str"):
        gh.equivalent(head(3), "head")


def test_differences_that_float64_hides_are_said_to_be():
    """Three heads 1e-8 apart whose first differences cancel too: what is left is 1e-16."""
    one = head(3)
    heads = [changed(one, W=one.W * (1 + k * 1e-8), v=c * one.v) for k, c in ((-1, 1.0), (0, -2.0), (1, 1.0))]
    with pytest.raises(gh.NotIdentifiable, match="call it with a larger tol"):
        gh.separating_input(gh.MultiHead(heads), gh.Attention(one.W, np.zeros(3)))
