"""Errors that scores share: counted once, and enough for whoever spoils bias, v and answers as he likes."""

import numpy as np
import pytest
from scipy.special import expit

from glasshead._linalg import Frame, cone, orthonormal_frame
from glasshead._meters.meter import (
    GOOD_ENOUGH,
    GROWTH,
    Errors,
    Scores,
    each_its_own,
    likely_sum,
    one_after_the_other,
    side_by_side,
    tuning,
)
from glasshead._meters.reading import Values, logit
from glasshead._meters.shared_errors import LogitReadings, split_errors

from .promises import Promising

RNG = np.random.default_rng(0)


def some(m=3, n=4, p=2):
    rng = np.random.default_rng(m + n)
    return Errors(*(np.abs(rng.standard_normal(shape)) for shape in (m, (p, m, n), n)))


def drawn(errors, rng):
    """Errors of m columns that are as large as `errors` allows."""
    m, n = errors.shared.shape[1:]
    x = rng.standard_normal((m, n))
    x *= (errors.own / np.linalg.norm(x, axis=1))[:, None]
    z = rng.standard_normal(n)
    y = rng.standard_normal((m, n))
    y *= errors.across * np.abs(z / np.linalg.norm(z)) / np.linalg.norm(y, axis=0)
    return x + y + np.tensordot(rng.choice([-1.0, 1.0], len(errors.shared)), errors.shared, 1)


@pytest.mark.parametrize("with_queries", [True, False])
def test_the_bound_of_all_errors_holds(with_queries):
    errors, rng = some(4, 4), np.random.default_rng(0)
    keys = cone(np.eye(4)[0], rng)
    queries = cone(np.eye(4)[1], rng, lean=0.3) if with_queries else None
    bound, worst = errors.through(keys, queries), 0.0
    for _ in range(300):
        moved = keys.inverse @ drawn(errors, rng).T
        if queries is not None:
            moved = moved @ queries.inverse.T
        worst = max(worst, np.linalg.norm(moved))
    assert 0.3 * bound < worst <= bound


def test_each_part_of_the_bound_is_reached():
    """Errors of one kind alone, through a frame that changes nothing."""
    keys = orthonormal_frame(3, np.random.default_rng(0))
    none = Errors(np.zeros(2), np.zeros((0, 2, 3)), np.zeros(3))
    assert Errors(np.array([3.0, 4.0]), none.shared, none.across).through(keys) == pytest.approx(5.0)
    assert Errors(none.own, none.shared, np.array([1.0, 2.0, 0.5])).through(keys) == pytest.approx(2.0)
    shared = np.ones((2, 2, 3))
    assert Errors(none.own, shared, none.across).through(keys) == pytest.approx(2 * np.sqrt(6))
    twice = Frame(2 * np.eye(3), np.eye(3) / 2, 0.5)
    assert Errors(np.array([3.0, 4.0]), shared, none.across).through(twice) == pytest.approx(2.5 + np.sqrt(6))
    half = Frame(2 * np.eye(2), np.eye(2) / 2, 0.5)
    assert Errors(np.array([3.0, 4.0]), none.shared, none.across).through(twice, half) == pytest.approx(1.25)


def test_errors_scale_and_join():
    one, two = some(3, 4), some(3, 5)
    half = one.over(2.0)
    np.testing.assert_allclose(half.own, one.own / 2)
    np.testing.assert_allclose(half.shared, one.shared / 2)
    np.testing.assert_allclose(half.across, one.across / 2)
    beside = side_by_side([one, two])
    np.testing.assert_allclose(beside.own, np.hypot(one.own, two.own))
    assert beside.shared.shape == (2, 3, 9)
    assert len(beside.across) == 9
    more = some(2, 4)
    after = one_after_the_other([one, more])
    np.testing.assert_allclose(after.own, [*one.own, *more.own])
    np.testing.assert_allclose(after.across, np.hypot(one.across, more.across))
    assert after.shared.shape == (2, 5, 4)


def test_nothing_shared():
    errors = each_its_own(np.array([[3.0, 4.0], [0.0, 1.0]]))
    np.testing.assert_allclose(errors.own, [5.0, 1.0])
    assert errors.shared.size == 0
    assert not errors.across.any()


def test_scores_know_their_halfwidth_and_their_columns():
    t = np.arange(6.0).reshape(3, 2)
    scores = Scores(t, t - 1, t + 2, joint=some(3, 2), drift=0.5)
    np.testing.assert_allclose(scores.halfwidth, 2.0)
    np.testing.assert_allclose(Scores(t, t - 3, t + 2).halfwidth, 3.0)
    part = scores[1:]
    assert (len(scores), len(part), part.drift) == (3, 2, 0.5)
    np.testing.assert_allclose(part.errors.own, scores.joint.own[1:])
    np.testing.assert_allclose(part.errors.shared, scores.joint.shared[:, 1:])
    np.testing.assert_allclose(Scores(t, t - 1, t + 2).errors.own, np.sqrt(8) * np.ones(3))
    assert Scores(t, t, t).rounding(5.0) == 0.0


# Errors of logits, taken apart. An adversary spoils the bias, every entry of v, v along itself and every answer.


class Spoiled:
    """A head with values v and bias, read by answers that are off by e_0, e_i, e_1 and one number for each logit."""

    def __init__(self, tolerance, seed=0, d=5, bias=0.7):
        rng = np.random.default_rng(seed)
        self.v, self.bias, self.step = rng.standard_normal(d), bias, 64.0
        self.tolerance, self.rng, self.d = tolerance, rng, d
        self.q, self.keys = 0.3 * rng.standard_normal((3, d)), 20.0 * rng.standard_normal((6, d))
        self.logits = rng.uniform(-2, 2, (3, 6))

    def read(self, signs):
        """The logits read with these signs of all errors, and what bounds them."""
        tau = self.tolerance
        e_0, e_1, e_v, e = signs[0] * tau, signs[1] * tau, signs[2 : 2 + self.d] * tau, signs[2 + self.d :] * tau
        read_bias = self.bias + e_0
        entries = (self.step * self.v + self.bias + e_v - read_bias) / self.step
        u = entries / np.linalg.norm(entries)
        length = (self.step * self.v @ u + self.bias + e_1 - read_bias) / self.step
        v = entries - u * (entries @ u) + length * u
        swing = self.keys @ self.v
        answers = self.bias + (self.q @ self.v)[:, None] + swing * expit(self.logits) + e.reshape(3, 6)
        values = Values(v, read_bias, self.step, along=True)
        read_swing = self.keys @ v
        signal = answers - (read_bias + self.q @ v)[:, None]
        flip = np.where(read_swing < 0, -1.0, 1.0)
        oracle = Promising(self.d, tolerance=tau)
        norms = np.linalg.norm(self.q, axis=1)[:, None], np.linalg.norm(self.keys, axis=1)
        of_v = np.sqrt(self.d) * values.entry_error(oracle)
        of_signal = tau + values.bias_error(oracle) + norms[0] * of_v + 0 * norms[1]
        of_swing = norms[1] * of_v + 0 * of_signal
        (s, lo, hi), impossible = logit(
            signal * flip, np.broadcast_to(read_swing * flip, signal.shape), of_signal, of_swing
        )
        assert not impossible.any()
        width = np.maximum(hi - s, s - lo)
        readings = LogitReadings(self.q, self.keys, s, width, np.ones_like(s))
        return s - self.logits, split_errors(oracle, values, readings, np.full(s.shape, tau), of_signal, of_swing)


@pytest.mark.parametrize("seed", range(4))
def test_shared_errors_are_bounded_together(seed):
    spoiled = Spoiled(1e-3, seed)
    keys = Frame(np.eye(6), np.eye(6), 1.0)
    worst = 0.0
    for trial in range(60):
        rng = np.random.default_rng((seed, trial))
        signs = rng.choice([-1.0, 1.0], 2 + 5 + 18)
        if trial % 3 == 0:
            signs[7:] = -signs[0]  # all answers against the bias
        off, errors = spoiled.read(signs)
        bound = errors.through(keys)
        assert np.linalg.norm(off) <= bound
        worst = max(worst, np.linalg.norm(off) / bound)
    assert worst > 0.3


def test_what_first_order_does_not_say_counts_by_its_width():
    """A logit whose interval is open has no first order; its width, infinite, is what is known."""
    spoiled = Spoiled(1e-3)
    oracle, values = Promising(5, tolerance=1e-3), Values(spoiled.v, 0.7, 64.0, along=True)
    s, width = spoiled.logits.copy(), np.full((3, 6), 0.5)
    readings = LogitReadings(spoiled.q, spoiled.keys, s, width, np.ones_like(s))
    huge = np.full(s.shape, 1e9)
    errors = split_errors(oracle, values, readings, np.full(s.shape, 1e-3), huge, huge)
    np.testing.assert_allclose(errors.own, np.linalg.norm(width, axis=1))
    assert not errors.shared.any()
    assert not errors.across.any()


def test_shorter_keys_have_larger_errors():
    """Read with keys of half the length, a logit is the double of what was read, and so is its error."""
    spoiled = Spoiled(1e-5)
    oracle, values = Promising(5, tolerance=1e-5), Values(spoiled.v, 0.7, 64.0, along=True)
    small = np.full((3, 6), 1e-5)
    results = []
    for shrunk in (1.0, 0.5):
        s = 0.1 * spoiled.logits / shrunk  # the same weights
        readings = LogitReadings(spoiled.q, spoiled.keys, s, np.full((3, 6), np.inf), np.full((3, 6), shrunk))
        results.append(split_errors(oracle, values, readings, small, small, small))
    of_bias, along = np.median(results[1].shared / results[0].shared, axis=(1, 2))
    assert 3 < of_bias < 6  # half the swing, and scaled by two
    assert 1.7 < along < 2.3  # an error along v stretches swing and signal alike, so only the scale counts


@pytest.mark.parametrize(
    ("rms", "factor"),
    [(0.5, 2.0), (0.79, 1 / 0.79), (0.81, 1.0), (1.14, 1.0), (1.2, 1 / 1.2), (20.0, 0.05), (0.1, 8.0), (1e-9, 8.0)],
)
def test_a_scale_is_tuned_to_logits_of_one(rms, factor):
    assert tuning(np.full((2, 3), rms / 4), 0.0, 4.0) == pytest.approx(factor)
    assert (GROWTH, GOOD_ENOUGH) == (8.0, (0.8, 1.15))


def test_scores_below_their_noise_tune_nothing():
    scores = np.full(4, 0.1)
    assert tuning(scores, np.full(4, 0.11), 1.0) == 1.0
    assert tuning(scores, np.full(4, 0.09), 1.0) == 8.0


def test_rounding_errors_do_not_line_up_but_a_tolerance_may():
    assert likely_sum(Promising(64), 1.0) == pytest.approx(0.5)
    assert likely_sum(Promising(9), 1.0) == 1.0
    assert likely_sum(Promising(64, tolerance=1e-9), 1.0) == 1.0


@pytest.mark.parametrize("shrunk", [1.0, 0.4])
def test_what_the_bias_does_to_a_logit_is_its_derivative(shrunk):
    """All readings are off by e: the bias, every entry of v and v along itself, but no two-row answer."""
    spoiled = Spoiled(1e-9)
    q, keys, v = spoiled.q, spoiled.keys, spoiled.v
    oracle, values = Promising(5, tolerance=1e-9), Values(v, 0.7, 64.0, along=True)
    s = np.clip(spoiled.logits, -1, 1)

    def read(e):
        dv = e * values.per_bias
        swing = shrunk * (keys @ (v + dv))
        signal = shrunk * (keys @ v) * expit(shrunk * s) - e - (q @ dv)[:, None]
        return np.log(signal / (swing - signal)) / shrunk

    rate = (read(1e-6) - read(-1e-6)) / 2e-6
    tiny = np.full(s.shape, 1e-12)
    readings = LogitReadings(q, keys, s, np.full(s.shape, np.inf), np.full(s.shape, shrunk))
    errors = split_errors(oracle, values, readings, tiny, tiny, tiny)
    np.testing.assert_allclose(np.abs(errors.shared[0]), 1e-9 * np.abs(rate), rtol=1e-4)


def test_rounding_of_v_counts_for_every_logit_on_its_own():
    spoiled, u = Spoiled(0.0), 2.0**-24
    oracle, values = Promising(5, roundoff=u), Values(spoiled.v, 0.7, 64.0, along=True)
    s = spoiled.logits
    readings = LogitReadings(spoiled.q, spoiled.keys, s, np.full(s.shape, np.inf), np.ones_like(s))
    none = np.zeros(s.shape)
    errors = split_errors(oracle, values, readings, none, none, none)
    swing = np.abs(spoiled.keys @ spoiled.v)
    signal, rest = swing * expit(s), swing * expit(-s)
    q, keys = np.linalg.norm(spoiled.q, axis=1)[:, None], np.linalg.norm(spoiled.keys, axis=1)
    each = values.rounding(oracle) * (q * (1 / signal + 1 / rest) + keys / rest)
    np.testing.assert_allclose(errors.own, np.linalg.norm(each, axis=1), rtol=1e-9)
