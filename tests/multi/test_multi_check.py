"""The check of several heads: what is right passes, what is wrong does not, however small it is beside other things."""

from collections.abc import Callable

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.heads import check_heads_everywhere, check_held_out_heads
from glasshead._learned import LearnedMultiHead

from .layers import changed, layer

Change = Callable[[gh.MultiHead], gh.MultiHead]
BIAS = {"no bias": 0.0, "a large bias": 1e6, "a larger bias": -1e8}
DIM = 6


def with_bias(model: gh.MultiHead, bias: float) -> gh.MultiHead:
    return gh.MultiHead(list(model.heads), bias=bias)


def with_mean(model: gh.MultiHead, size: float) -> gh.MultiHead:
    return gh.MultiHead([*model.heads, gh.Attention(np.zeros((DIM, DIM)), np.full(DIM, size))], bias=model.bias)


def quiet(model: gh.MultiHead, factor: float) -> gh.MultiHead:
    """The scores of head 1, times that factor."""
    return changed(model, 1, W=factor * model.heads[1].W, key_bias=np.zeros(DIM))


def cancelling(model: gh.MultiHead, scale: float) -> gh.MultiHead:
    """Heads 1 and 2 cancel for tokens that are much shorter or much longer than scores of that scale ask for."""
    W, v, nothing = scale * model.heads[1].W, model.heads[1].v, np.zeros(DIM)
    return changed(changed(model, 1, W=W, key_bias=nothing), 2, W=2 * W, v=-v, key_bias=nothing)


def without(model: gh.MultiHead, *heads: int) -> gh.MultiHead:
    return gh.MultiHead([head for h, head in enumerate(model.heads) if h not in heads], bias=model.bias)


def evidence(check, target: gh.MultiHead, guess: gh.MultiHead, **promise):
    """What speaks against a guess."""
    ranks = tuple(int(np.linalg.matrix_rank(head.W)) for head in guess.heads)
    learned = LearnedMultiHead(model=guess, rank=ranks, found="")
    return check(gh.ValueOracle(target, **promise), learned, np.random.default_rng(0)).evidence


@pytest.mark.parametrize("bias", BIAS)
@pytest.mark.parametrize("check", [check_held_out_heads, check_heads_everywhere])
def test_a_bias_hides_no_error(check, bias):
    target = with_bias(layer(DIM, 3, 2), BIAS[bias])
    wrong = changed(target, 1, W=1.001 * target.heads[1].W)
    assert evidence(check, target, target) is None
    assert evidence(check, target, wrong) is not None


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_a_large_mean_hides_no_error(size):
    target = with_mean(layer(DIM, 3, 2), size)
    wrong = changed(target, 1, W=1.001 * target.heads[1].W)
    assert evidence(check_held_out_heads, target, target) is None
    assert evidence(check_held_out_heads, target, wrong) is not None


@pytest.mark.parametrize("factor", [1e-6, 1e-12, 1e-20, 1e-28])
def test_a_head_that_sleeps_at_the_usual_length_is_no_mean(factor):
    target = quiet(layer(DIM, 3, 2), factor)
    assert evidence(check_held_out_heads, target, quiet(target, 0.0)) is None or factor == 1e-6
    assert evidence(check_heads_everywhere, target, quiet(target, 0.0)) is not None
    assert evidence(check_heads_everywhere, target, target) is None


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6])
def test_heads_that_cancel_but_at_their_own_length(scale):
    target = cancelling(layer(DIM, 3, 2, biases=False), scale)
    assert evidence(check_heads_everywhere, target, without(target, 1, 2)) is not None


RIGHT: dict[str, Change] = {
    "plain": lambda m: m,
    "a key that never changes": lambda m: changed(m, 1, W=0 * m.heads[1].W),
    "the mean alone": lambda m: with_mean(without(m, 1, 2), 1.0),
    "a faint mean": lambda m: with_mean(m, 1e-7),
    "faint scores": lambda m: quiet(m, 1e-9),
    "long keys": lambda m: changed(m, 1, key_bias=1e4 * m.heads[1].key_bias),
}


@pytest.mark.parametrize("promise", [{}, {"dtype": "float32"}, {"max_norm": 5.0}, {"rtol": 1e-6}], ids=str)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name, promise):
    target = RIGHT[name](layer(DIM, 3, 2))
    rounded = [gh.Attention(h.W.astype("float32"), h.v, key_bias=h.key_bias.astype("float32")) for h in target.heads]
    target = gh.MultiHead(rounded, bias=target.bias)
    rng = np.random.default_rng(1)
    off = [gh.Attention(h.W * (1 + 1e-9 * rng.standard_normal(h.W.shape)), h.v, key_bias=h.key_bias) for h in rounded]
    assert evidence(check_heads_everywhere, target, gh.MultiHead(off, bias=target.bias), **promise) is None


@pytest.mark.parametrize("left", [1, 5, 12, 24])
def test_heads_that_were_not_checked_are_known(left):
    target = layer(DIM, 2, 2)
    truth = gh.recover(gh.ValueOracle(target), family="multi-head").queries
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(gh.ValueOracle(target), family="multi-head", budget=truth - left)
    assert gh.distance(caught.value.known["unchecked"].model, target) <= 1e-9
    assert caught.value.known["unchecked"].residual is None


def test_keys_too_long_for_the_digits_of_the_box():
    rng = np.random.default_rng(18)
    heads = [
        gh.Attention(rng.standard_normal((8, 8)), rng.standard_normal(8), key_bias=5e5 * rng.standard_normal(8))
        for _ in range(2)
    ]
    with pytest.raises(gh.GlassheadError):  # W is 1e-11 of what the key biases are for their usual tokens
        gh.recover(gh.ValueOracle(gh.MultiHead(heads), dtype="float32"), family="multi-head")
