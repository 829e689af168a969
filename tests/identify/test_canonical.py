import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from ..helpers import head, sequences
from .models import changed, disguised, random_model, two_pairs_and_a_silent_one

seeds = st.integers(0, 2**16)


def same_parameters(a, b, tolerance=1e-12):
    for name in ("W", "v", "key_bias", "bias"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.sampled_from([None, 1, 3]), st.booleans(), seeds)
def test_disguises_fall(dim, heads, outputs, biased, seed):
    rng = np.random.default_rng(seed)
    model = random_model(dim, heads, rng, outputs=outputs, key_bias=biased, bias=biased)
    same_parameters(gh.canonical(disguised(model, rng)), gh.canonical(model), 1e-9)


def test_what_it_does_to_heads():
    one, two = head(3, seed=1), head(3, seed=2)
    quiet = changed(two, v=np.zeros(3))
    form = gh.canonical(gh.MultiHead([quiet, changed(one, v=0.5 * one.v), two, changed(one, v=2.0 * one.v)], bias=4.0))
    longest_first = sorted((changed(one, v=2.5 * one.v), two), key=lambda h: -np.linalg.norm(h.v))
    same_parameters(form, gh.MultiHead(longest_first, bias=4.0))


def test_two_pairs_and_a_silent_one():
    model, disguise = two_pairs_and_a_silent_one(np.random.default_rng(0))
    form = gh.canonical(disguise)
    assert len(form.heads) == 3
    assert gh.distance(form, model) < 1e-14
    assert gh.equivalent(disguise, model)


def test_a_key_bias_keeps_heads_apart():
    one = head(3, key_bias=1.0)
    assert len(gh.canonical(gh.MultiHead([one, changed(one, key_bias=-one.key_bias)])).heads) == 2


@pytest.mark.parametrize("apart", [1e-13, 1e-11, 1e-7])
@pytest.mark.parametrize("name", ["W", "key_bias"])
def test_the_tolerance_is_relative(apart, name):
    """In every unit of length: with tokens s times as long, W is s^2 times smaller and a key bias s times."""
    for s in (1e-6, 1.0, 1e6):
        one = head(4, W=s**2, key_bias=0.1 / s)
        pair = gh.MultiHead([one, changed(one, **{name: getattr(one, name) * (1 + apart)})])
        assert len(gh.canonical(pair).heads) == (1 if apart < 1e-9 else 2)
        assert len(gh.canonical(pair, tol=1e-6).heads) == 1


def test_a_quiet_head_is_not_silent():
    loud = head(4, seed=1)
    for size, heads in ((1e-6, 2), (1e-12, 1)):
        assert len(gh.canonical(gh.MultiHead([loud, head(4, v=size, seed=2)])).heads) == heads


def test_after_a_large_cancellation_the_rest_still_counts():
    one, two = head(4, seed=1), head(4, seed=2)
    model = gh.MultiHead([changed(one, v=1e12 * one.v), changed(one, v=-1e12 * one.v), two])
    assert gh.equivalent(model, two)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), seeds)
def test_is_idempotent_and_blind_to_order(heads, seed):
    rng = np.random.default_rng(seed)
    model = disguised(random_model(3, heads, rng, bias=True), rng)
    form = gh.canonical(model)
    assert all(np.array_equal(a, b) for a, b in zip(form.v, gh.canonical(form).v, strict=True))
    shuffled = gh.MultiHead([model.heads[h] for h in rng.permutation(len(model.heads))], bias=model.bias)
    same_parameters(gh.canonical(shuffled), form, 1e-12)


def test_equal_lengths_are_ordered_by_W():
    heads = [gh.Attention(W, [1.0, 0.0]) for W in (np.eye(2), -np.eye(2), np.zeros((2, 2)))]
    forms = [gh.canonical(gh.MultiHead([heads[i] for i in order])) for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0))]
    same_parameters(forms[0], forms[1])
    same_parameters(forms[0], forms[2])


@pytest.mark.parametrize("outputs", [None, 2])
def test_nothing_left_is_one_silent_head(outputs):
    model = random_model(3, 1, np.random.default_rng(0), outputs=outputs, bias=True)
    model = gh.MultiHead([*model.heads, changed(model.heads[0], v=-model.heads[0].v)], bias=model.bias)
    form = gh.canonical(model)
    assert not form.W.any()
    assert not form.v.any()
    X = sequences(3, [3])[0]
    np.testing.assert_allclose(form(X), model(X), atol=1e-14)


def test_factors_and_precision_stay():
    model = gh.MultiHead.random(5, heads=2, rank=2)
    assert all(one._factors is not None for one in gh.canonical(model).heads)
    assert gh.canonical(head(3, dtype=np.float32)).dtype == np.float32


def test_other_models_are_refused():
    with pytest.raises(TypeError, match=r"expected a gh.Attention or a gh.MultiHead, got ndarray"):
        gh.canonical(np.eye(3))
