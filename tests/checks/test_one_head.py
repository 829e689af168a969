"""Laws of one head in which errors of W play no part: copies of a key behind a network, and keys that balance."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import balance, front_odds, odds
from glasshead._errors import ASKED_AGAIN, BALANCED_KEYS, COPIED_KEY, EVERYWHERE
from glasshead._learned import LearnedFromSigns, LearnedFront, LearnedHead
from tests.meters.promises import Promising

D = 3
RNG = np.random.default_rng(3)
HEAD = gh.Attention(
    RNG.standard_normal((D, D)), RNG.standard_normal(D), key_bias=0.3 * RNG.standard_normal(D), bias=0.4
)
SECOND = gh.Attention(RNG.standard_normal((D, D)), RNG.standard_normal(D))
UNIT = gh.Attention(
    HEAD.W, HEAD.v / np.linalg.norm(HEAD.v), key_bias=HEAD.key_bias, bias=HEAD.bias / np.linalg.norm(HEAD.v)
)
BOUNDS = dict.fromkeys(("bound", "bound_key_bias"), 1e-5) | dict.fromkeys(("bound_v", "bound_bias"), 1e-12)


def from_signs(model=UNIT, **given):
    return LearnedFromSigns(model=model, rank=D, confidence=1.0, **BOUNDS | given)


def balanced(f, learned=None, seed=0):
    oracle = gh.SignOracle(f, dim=D)
    broken = balance.check_balance(oracle, learned or from_signs(), np.random.default_rng(seed))
    return "" if broken is None else broken.law, oracle.queries


@pytest.mark.parametrize("seed", range(4))
def test_keys_of_one_head_balance_together(seed):
    """About a dozen queries for each of six keys, whatever W is off by within its bound."""
    off = UNIT.with_scores((UNIT.W + 1e-5 / D * np.random.default_rng(seed).standard_normal((D, D)), UNIT.key_bias))
    law, queries = balanced(off, seed=seed)
    assert law == ""
    assert 60 <= queries <= 100


@pytest.mark.parametrize("faint", [1e-5, 1e-4, 1e-2])
def test_keys_of_two_heads_do_not(faint):
    """The second one moves changes by less than bounds leave open, or by more."""
    laws = [balanced(lambda X: UNIT(X) + faint * SECOND(X), seed=seed)[0] for seed in range(4)]
    assert all(laws)
    assert set(laws) <= {BALANCED_KEYS, EVERYWHERE}


def test_noise_moves_changes_from_one_question_to_the_next():
    rng = np.random.default_rng(0)

    def noisy(X):
        s = np.einsum("bnd,bd->bn", X, X[:, -1] @ UNIT.W.T + UNIT.key_bias) + 1e-6 * rng.standard_normal(X.shape[:2])
        p = np.exp(s - s.max(axis=1, keepdims=True))
        return np.einsum("bn,bnd->bd", p / p.sum(axis=1, keepdims=True), X) @ UNIT.v + UNIT.bias

    assert {balanced(noisy, seed=seed)[0] for seed in range(4)} <= {ASKED_AGAIN, BALANCED_KEYS, EVERYWHERE}


def test_where_nothing_balances_nothing_is_asked():
    """Bounds that leave open how hard any key pulls."""
    assert balanced(UNIT, from_signs(bound=1e6, bound_key_bias=1e3)) == ("", 0)


def test_changes_are_looked_for_as_far_as_bounds_move_them():
    """Three times as far as the furthest of six neighbours: about five times as far as they typically do."""
    found, rng = from_signs(), np.random.default_rng(0)
    oracle = gh.SignOracle(UNIT, dim=D)
    keys = [key for _ in range(20) for key in balance.balancing_keys(oracle, found, 1.0, rng)]
    around, times = found.neighbours(0.0, 40, rng), []
    for key in keys:
        middle, h = (key.low + key.high) / 2, 1e-4
        slope = abs(UNIT(key.pair(middle + h)[None]) - UNIT(key.pair(middle - h)[None])) / (2 * h)
        off = [float(near(key.pair(middle)[None])[0] / slope[0]) for near in around]
        times.append((key.high - key.low) / 2 / np.sqrt(np.mean(np.square(off))))
    assert 20 <= len(keys) <= 40
    assert 4.0 < np.mean(times) < 6.0


# Copies of a key, of few digits and behind a network.


def rounded(f, bits):
    def answer(X):
        mantissa, exponent = np.frexp(f(X))
        return np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent)

    return answer


@pytest.mark.parametrize("faint", [0.0, 1e-3])
def test_the_error_of_answers_is_measured_by_every_token_three_times(faint):
    """By a format of 18 bits a second head of 1e-3 might be rounding; by what answers show it is not."""
    model = gh.Attention(HEAD.W, HEAD.v)
    found = LearnedHead(model=model, rank=D, confidence=1.0, **BOUNDS)
    box = rounded(lambda X: model(X) + faint * SECOND(X), 18)
    laws = []
    for seed in range(4):
        oracle = Promising(D, box, roundoff=2.0**-17)
        broken = odds.check_odds(oracle, found, np.random.default_rng(seed), 8, measured=True)
        laws.append(broken is not None)
        assert oracle.queries == 48
    assert all(laws) == any(laws) == bool(faint)


@pytest.mark.parametrize(("roundings", "ok"), [(3.0, True), (300.0, False)])
def test_answers_may_be_some_roundings_off(roundings, ok):
    """As every token three times shows, but by no more than a format excuses."""
    model = gh.Attention(HEAD.W, HEAD.v)
    found = LearnedHead(model=model, rank=D, confidence=1.0, **BOUNDS)

    def box(X):
        return model(X) * (1 + roundings * 2.0**-19 * np.sin(1e4 * X.sum(axis=(1, 2))))

    oracles = [Promising(D, box, roundoff=2.0**-19) for _ in range(3)]
    broken = [odds.check_odds(o, found, np.random.default_rng(i), 8, measured=True) for i, o in enumerate(oracles)]
    assert all(each is None for each in broken) == ok


@pytest.mark.parametrize("measured", [False, True])
def test_a_box_that_has_become_another_head_keeps_the_law_and_is_noticed(measured):
    """Both are heads, so that only what was found tells the last few answers from those before."""
    known = {"rank": D, "confidence": 1.0, **BOUNDS}
    for seed in range(4):
        for found, broken in ((HEAD, False), (SECOND, True)):
            oracle = Promising(D, HEAD, roundoff=2.0**-19)
            law = odds.check_odds(
                oracle, LearnedHead(model=found, **known), np.random.default_rng(seed), measured=measured
            )
            assert (law is not None and law.law == EVERYWHERE) == broken


@pytest.mark.parametrize("rtol", [0.0, 2.0**-17])
def test_two_probes_are_chosen_that_show_a_faint_head(rtol):
    """In two dimensions, where hardly a pair of tokens is answered faintly; the law is asked with 8 queries."""
    rng = np.random.default_rng(0)
    first, second = (gh.Attention(rng.standard_normal((2, 2)), rng.standard_normal(2)) for _ in range(2))
    box = rounded(lambda X: first(X) + 1e-3 * second(X), 18)
    found = LearnedHead(model=first, rank=2, confidence=1.0, **BOUNDS | {"bound": 1e-2})
    seen = [
        odds.check_odds(Promising(2, box, roundoff=2.0**-18, rtol=rtol), found, np.random.default_rng(seed))
        for seed in range(20)
    ]
    assert sum(each is not None and each.law == COPIED_KEY for each in seen) >= (18 if rtol else 10)


def behind(f, residual):
    model = gh.FrontHead(HEAD.W + 1e-3, key_bias=HEAD.key_bias, behind=f, residual=residual)
    known = {"bound": 1e-2, "bound_key_bias": 1e-3, "noise": 1e-6, "scale": 1.0, "score_error": 1e-3}
    return LearnedFront(model=model, rank=D, confidence=0.99, **known)


@pytest.mark.parametrize(("promise", "outputs"), [({"rtol": 2.0**-18}, 1), ({}, 1), ({"rtol": 2.0**-18}, 2)])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("faint", [0.0, 3e-2])
def test_a_score_that_does_for_two_copies_does_for_eight(promise, outputs, residual, faint):
    """Behind a network that sees the last token, where fewer probes say something, or does not; though W is off."""
    A = np.random.default_rng(1).standard_normal((D, 4))

    def whole(X):
        other = np.einsum("bn,bnd->bd", SECOND.weights(X), X)
        pooled = np.einsum("bn,bnd->bd", HEAD.weights(X), X) + faint * other
        y = np.tanh(0.3 * pooled @ A + residual * 0.1 * X[:, -1, :1])
        return y[:, :2] if outputs == 2 else y.sum(axis=1)

    box, laws = rounded(whole, 18), []
    for seed in range(3):
        oracle = Promising(D, box, roundoff=2.0**-17, **promise)
        broken = front_odds.check_odds_behind(oracle, behind(box, residual), np.random.default_rng(seed))
        laws.append("" if broken is None else broken.law)
    found = sum(law == COPIED_KEY for law in laws)
    assert found >= (1 if residual else 3) if faint else found == 0
