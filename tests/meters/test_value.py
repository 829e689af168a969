"""The meter of values: intervals that hold whoever rounds or lies within the promise, and no wider than that."""

import numpy as np
import pytest
from scipy.special import expit

import glasshead as gh
from glasshead._linalg import orthonormal_frame
from glasshead._meters import value
from glasshead._meters.reading import Values
from glasshead._meters.value import ValueMeter, largest_product, lever, within_reach

from .promises import Promising

D = 6
RNG = np.random.default_rng(0)
W, V, KEY_BIAS = RNG.standard_normal((D, D)), RNG.standard_normal(D), RNG.standard_normal(D)


def head(X, bias=0.0, key_bias=0.0):
    k = X[:, -1] @ W.T + key_bias
    s = np.einsum("bnd,bd->bn", X, k)
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    return np.einsum("bn,bn->b", weights / weights.sum(axis=1, keepdims=True), X @ V) + bias


def meter(f=head, *, bias=0.0, rho=4.0, kappa=0.1, step=1e9, key_bias=None, along=False, ground=0.0, **promise):
    """Reads f with v and the bias known."""
    frame = orthonormal_frame(D, np.random.default_rng(1))
    values = Values(V, bias, step, along=along, ground=ground)
    return ValueMeter(Promising(D, f, **{"roundoff": 2.0**-53} | promise), values, frame, frame, rho, kappa, key_bias)


def spoiled(amount, bias=0.0):
    """The head, off by what `amount` says of lengths of key and query, towards either side."""

    def f(X):
        key, q = np.linalg.norm(X[:, 0] - X[:, 1], axis=1), np.linalg.norm(X[:, 1], axis=1)
        sign = np.sign(np.sin(1e5 * X.sum(axis=(1, 2))))
        return head(X, bias) + amount(key, q) * sign

    return f


def tokens(m=5, n=30, rho=4.0, kappa=0.1):
    rng = np.random.default_rng(3)
    q, keys = rng.standard_normal((m, D)), rng.standard_normal((m, n, D))
    q, keys = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, keys))
    keys = np.where(np.abs(keys @ V)[..., None] > 0.3, keys, V / np.linalg.norm(V))
    return kappa * q, rho * keys


def true_logits(q, keys, key_bias=0.0):
    return np.einsum("mnd,md->mn", keys, q @ W.T + key_bias)


def check_intervals(found, truth, least):
    """Every interval holds, and the adversary comes near to the end of some."""
    s, lo, hi = found
    assert (lo <= truth).all()
    assert (truth <= hi).all()
    assert np.max(np.abs(s - truth) / np.maximum(hi - s, s - lo)) > least


@pytest.mark.parametrize("bias", [0.0, 50.0])
def test_intervals_hold_however_the_box_rounds(bias):
    """`d + 8` roundings of all that a weighted sum adds up, and four of the bias."""
    u, size = 2.0**-24, np.linalg.norm(V)
    f = spoiled(lambda key, q: u * ((D + 8) * (key + 2 * q) * size + 4 * bias), bias)
    q, keys = tokens()
    check_intervals(meter(f, bias=bias, roundoff=u).read(q, keys), true_logits(q, keys), 0.3)


def test_intervals_hold_where_an_origin_makes_large_terms_cancel():
    u, ground = 2.0**-24, 1e4
    f = spoiled(lambda key, q: 4 * u * ground)
    q, keys = tokens()
    check_intervals(meter(f, ground=ground, roundoff=u).read(q, keys), true_logits(q, keys), 0.3)


@pytest.mark.parametrize("promise", [{"tolerance": 1e-3}, {"rtol": 1e-3}])
def test_intervals_hold_against_whoever_uses_the_promise_up(promise):
    def f(X):
        y = head(X)
        sign = np.sign(np.sin(1e5 * X.sum(axis=(1, 2))))
        return y + sign * (promise.get("tolerance", 0.0) + promise.get("rtol", 0.0) * np.abs(y))

    q, keys = tokens()
    check_intervals(meter(f, **promise).read(q, keys), true_logits(q, keys), 0.35)


def test_intervals_hold_though_v_and_bias_are_off_by_their_errors():
    """Read with tokens of length 2 and answers within a tolerance, v is off by its error, along the key and query."""
    tau, step = 1e-3, 2.0
    off = 2 * tau / step
    q, keys = tokens()
    worst = 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        lie = rng.choice([-1.0, 1.0], D)

        def f(X, lie=lie):
            return head(X) - off * np.einsum("bnd,d->bn", X, lie)[:, 1]  # the box's v is another

        plain = meter(f, tolerance=tau, step=step)
        s, lo, hi = plain.read(q, keys)
        truth = true_logits(q, keys)
        assert (lo <= truth).all()
        assert (truth <= hi).all()
        worst = max(worst, np.max(np.abs(s - truth) / np.maximum(hi - s, s - lo)))
    assert worst > 0.02


def test_the_errors_of_signal_and_swing():
    """The promise, rounding, the bias, and v seen by the query; the swing by v seen by the key and its own rounding."""
    tau, step, u = 1e-3, 2.0, 2.0**-20
    plain = meter(tolerance=tau, step=step, roundoff=u)
    q, key = 0.1, 4.0
    values, oracle, size = plain.values, plain.oracle, np.linalg.norm(V)
    of_v = np.sqrt(D) * values.entry_error(oracle)
    signal, swing = plain._errors(np.full(1, 5.0), np.full(1, q), np.full(1, key))
    assert swing == pytest.approx(key * (of_v + u * (D + 2) * size))
    assert signal == pytest.approx(tau + u * (D + 8) * (key + 2 * q) * size + tau + q * of_v)


def test_impossible_weights_are_refused_with_the_sequence():
    def f(X):
        return head(X) + np.where(np.arange(len(X)) == 7, 100.0, 0.0)

    q, keys = tokens()
    with pytest.raises(gh.TargetMismatch, match="asks for a weight of") as caught:
        meter(f, roundoff=2.0**-53).read(q, keys)
    np.testing.assert_allclose(caught.value.evidence.query[1], q[0])
    np.testing.assert_allclose(caught.value.evidence.query[0], q[0] + keys[0, 7])
    weight = expit(true_logits(q, keys)[0, 7]) + 100.0 / (keys[0, 7] @ V)
    assert f"a weight of {weight:.5g}"[:16] in caught.value.evidence.got


def test_weights_that_stay_0_or_1_are_refused_with_the_sequence():
    q, keys = tokens(1, 2)
    with pytest.raises(gh.TargetMismatch, match="0 or 1 at any length") as caught:
        meter().refuse_saturation(q[0], keys[0, 0])
    np.testing.assert_allclose(caught.value.evidence.query, [q[0] + keys[0, 0], q[0]])


# Columns.


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("each", [False, True])
def test_columns_are_scores_within_their_intervals(biased, each):
    key_bias = KEY_BIAS if biased else None
    plain = meter(lambda X: head(X, key_bias=KEY_BIAS if biased else 0.0), key_bias=key_bias, roundoff=2.0**-53)
    rng = np.random.default_rng(0)
    B, A = rng.standard_normal((4, D)), rng.standard_normal((4, 7, D) if each else (7, D))
    scores = plain.columns(B, A)
    truth = np.einsum("mnd,de,me->mn", np.broadcast_to(A, (4, 7, D)), W, B)
    assert (np.abs(scores.t - truth) <= scores.halfwidth + scores.rounding(np.linalg.norm(W))).all()
    np.testing.assert_allclose(scores.t, truth, atol=1e-10)
    assert scores.joint is None
    assert plain.columns(B[:0], np.ones((7, D))).t.shape == (0, 7)
    assert plain.columns(B, np.ones((0, D))).t.shape == (4, 0)


def test_blocks_of_columns_are_put_together(monkeypatch):
    plain = meter(roundoff=2.0**-53, along=True)
    B, A = np.random.default_rng(0).standard_normal((2, 9, D))
    whole = plain.columns(B, A)
    assert len(plain.oracle.asked) >= 1
    monkeypatch.setattr(value, "BLOCK_BYTES", 16 * 9 * D * 2)
    plain.oracle.asked.clear()
    parts = plain.columns(B, A)
    assert max(len(X) for X in plain.oracle.asked) == 18
    np.testing.assert_allclose(parts.t, whole.t)
    assert parts.errors.shared.shape == whole.errors.shared.shape


def test_errors_are_taken_apart_where_v_was_read_along_itself():
    assert not meter().splits
    assert meter(along=True).splits
    assert not meter(along=True, ground=1.0).splits
    B, A = np.random.default_rng(0).standard_normal((2, 3, D))
    scores = meter(along=True, tolerance=1e-6).columns(B, A)
    assert scores.joint is not None
    assert np.linalg.norm(scores.joint.own) < np.linalg.norm(scores.halfwidth)
    each = meter(along=True, tolerance=1e-6).columns(B, np.stack([A] * 3))
    assert each.joint is None


@pytest.mark.parametrize("seed", range(3))
def test_joint_errors_bound_the_columns(seed):
    """Against answers that lie as far as they may, each on its own."""
    tau = 1e-4

    def f(X):
        return head(X) + tau * np.sign(np.sin(1e5 * X.sum(axis=(1, 2)) + seed))

    plain = meter(f, along=True, tolerance=tau, step=64.0)
    B, A = plain.queries.vectors, plain.keys.vectors
    scores = plain.columns(B, A)
    off = plain.keys.inverse @ (scores.t - B @ W.T @ A.T).T @ plain.queries.inverse.T
    assert np.linalg.norm(off) <= scores.errors.through(plain.keys, plain.queries)


# Scales.


@pytest.mark.parametrize(("roundoff", "limit"), [(2.0**-53, 11.02), (2.0**-24, 6.5), (2.0**-8, 6.5)])
def test_where_a_score_is_asked_again(roundoff, limit):
    assert meter(roundoff=roundoff).saturated == pytest.approx(limit, abs=0.01)


def test_drift_is_the_error_of_the_key_bias():
    from dataclasses import replace

    assert replace(meter(kappa=0.5), key_bias_error=1e-3).drift == pytest.approx(2e-3)
    assert meter().axis is V


def test_tuned_by_its_query_tokens_within_reach():
    plain = meter(rho=4.0, kappa=0.1)
    assert plain.tuned(np.full(5, 2.5 / 2)).kappa == pytest.approx(0.2)
    assert plain.tuned(np.full(5, 2.5 * 10)).kappa == pytest.approx(0.01)
    assert plain.tuned(np.full(5, 2.5)).kappa == 0.1
    assert plain.tuned(np.full(5, 2.5 / 2), np.full(5, 10.0)).kappa == 0.1
    short = meter(rho=4.0, kappa=0.1, max_norm=4.15)
    assert short.tuned(np.full(5, 2.5 / 2)).kappa == pytest.approx(0.15, rel=1e-3)
    shorter = meter(rho=4.0, kappa=0.1, max_norm=4.05)
    assert shorter.tuned(np.full(5, 2.5 / 2)).kappa == 0.1  # no shorter than it was


def test_suited_to_what_keys_see_of_the_key_bias():
    bias = np.eye(D)[0]
    plain = meter(key_bias=bias, rho=4.0, kappa=0.1)
    assert meter(rho=4.0).suited(np.eye(D)).rho == 4.0
    short = plain.suited(np.eye(D)[:1])
    assert (short.rho, short.kappa) == (1.0, pytest.approx(0.4))
    assert plain.suited(np.eye(D)[:1] / 8).rho == 4.0
    assert plain.suited(np.eye(D)[1:2]).rho == 4.0
    near = meter(key_bias=bias, rho=4.0, kappa=0.1, max_norm=1.2)
    assert near.suited(np.eye(D)[:1]).kappa == pytest.approx(0.2, rel=1e-4)


def test_rounding_of_scores_inside_a_box_is_bounded():
    """In float32: keys `W q + key_bias` are rounded, and then both dot products with them."""
    u, rng = 2.0**-24, np.random.default_rng(0)
    plain = meter(key_bias=KEY_BIAS, roundoff=u, rho=3.0, kappa=0.7)
    W32, bias32 = W.astype(np.float32), KEY_BIAS.astype(np.float32)
    exact = W32.astype(float), bias32.astype(float)
    worst = 0.0
    for _ in range(300):
        a, b = rng.standard_normal((2, D))
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        q = (plain.kappa * b).astype(np.float32)
        x = (plain.rho * a + q.astype(float)).astype(np.float32)
        k = W32 @ q + bias32
        logit = float(x @ k) - float(q @ k)
        k = exact[0] @ q.astype(float) + exact[1]
        true = (x.astype(float) - q.astype(float)) @ k
        worst = max(worst, abs(logit - true) / (plain.rho * plain.kappa))
    bound = plain.rounding(float(np.linalg.norm(W32)))
    assert 0.003 * bound < worst <= bound


def test_rounding_grows_with_what_cancels_at_an_origin():
    from dataclasses import replace

    u = 2.0**-24
    plain = meter(rho=2.0, kappa=0.5, roundoff=u)
    ulps = 4 * (D + 4) * u
    assert plain.rounding(3.0) == pytest.approx(ulps * 2.5 * 1.5)
    assert replace(plain, shift=10.0).rounding(3.0) == pytest.approx(ulps * 12.5 * 1.5)
    assert replace(plain, clutter=7.0).rounding(3.0) == pytest.approx(ulps * (2.5 * 1.5 + 14.0))
    assert replace(plain, key_bias=4 * np.eye(D)[0]).rounding(3.0) == pytest.approx(ulps * 2.5 * 5.5)


# Levers.


def values(bias=0.0):
    return Values(2 * np.eye(D)[0], bias, 1.0)


def test_keys_are_longer_than_queries_by_far():
    rho, kappa = lever(4.0, Promising(D), values())
    assert rho * kappa == pytest.approx(4.0)
    assert rho / kappa == pytest.approx(value.RATIO)


def test_a_bias_and_a_tolerance_ask_for_longer_keys():
    rho, kappa = lever(4.0, Promising(D), values(bias=-8.0))
    assert (rho, kappa) == (pytest.approx(value.HEADROOM * 4.0), pytest.approx(4.0 / (value.HEADROOM * 4.0)))
    oracle = Promising(D, tolerance=1e-3, max_norm=100.0)
    rho, kappa = lever(4.0, oracle, values())
    assert rho + kappa == pytest.approx(oracle.reach)
    assert rho * kappa == pytest.approx(4.0)
    shortest = Promising(D)
    shortest.shortest = 1e6
    assert lever(4.0, shortest, values())[0] == 1e6


@pytest.mark.parametrize(("product", "expected"), [(1.0, None), (24.9, None), (25.1, (5.0, 5.0)), (100.0, (5.0, 5.0))])
def test_tokens_stay_within_reach(product, expected):
    rho, kappa = within_reach(1e6, product / 1e6, product, 10.0)
    assert rho + kappa == pytest.approx(10.0)
    assert rho >= kappa
    if expected is None:
        assert rho * kappa == pytest.approx(product)
    else:
        assert (rho, kappa) == expected
    assert within_reach(3.0, 2.0, 6.0, 10.0) == (3.0, 2.0)
    assert largest_product(Promising(D, max_norm=10.0)) == pytest.approx(25.0, rel=1e-5)


def test_signals_below_and_above():
    """Keys on either side of v are read alike."""
    q, keys = tokens(3, 8)
    s, _, _ = meter(roundoff=2.0**-53).read(q, keys)
    t, _, _ = meter(roundoff=2.0**-53).read(q, -keys)
    np.testing.assert_allclose(s, -t, atol=1e-9)
    np.testing.assert_allclose(expit(s), expit(true_logits(q, keys)), atol=1e-10)
