"""Scores from yes and no: thresholds that tokens set, intervals that hold for whatever v and the key bias may be."""

import numpy as np
import pytest
from scipy.special import expit

import glasshead as gh
from glasshead._errors import ASKED_AGAIN
from glasshead._linalg import orthonormal_frame
from glasshead._meters import bisection, sign
from glasshead._meters.bisection import (
    Halfspace,
    comparing_lengths,
    logit_range,
    on_clear_sides,
    read_outweighs,
    solve_logit,
    sums,
    value_rounding,
)
from glasshead._meters.intervals import Unbounded, find_exponents, find_intervals
from glasshead._meters.sign import KeyBias, SignMeter

from .promises import Promising

D = 5
RNG = np.random.default_rng(0)
W = RNG.standard_normal((D, D))
V = RNG.standard_normal(D)
V /= np.linalg.norm(V)


def head(X, v=V, key_bias=0.0, offset=0.0):
    s = np.einsum("bnd,bd->bn", X, X[:, -1] @ W.T + key_bias)
    weights = np.exp(s - s.max(axis=1, keepdims=True))
    return np.einsum("bn,bn->b", weights / weights.sum(axis=1, keepdims=True), X @ v) + offset > 0


def alone(which, at):
    return np.asarray(at)[:, None, None]


def space(error=0.0, offset=0.0, origin=None):
    return Halfspace(V, error, np.zeros(D) if origin is None else origin, offset)


def meter(f=head, bits=20, error=0.0, offset=0.0, key_bias=None, roundoff=2.0**-53, reach=3.0, **given):
    frame = orthonormal_frame(D, np.random.default_rng(1))
    oracle = Promising(D, f, answers="sign", roundoff=roundoff, max_norm=given.pop("max_norm", None))
    return SignMeter(
        oracle=oracle,
        space=space(error, offset),
        keys=frame,
        queries=frame,
        key_bias=key_bias,
        reach=reach,
        bits=bits,
        **given,
    )


# A halfspace.


def test_a_plane_at_a_distance():
    plane = Halfspace(V, 1e-3, -2 * V, 1e-4)
    assert (plane.shift, plane.bias) == (pytest.approx(2.0), pytest.approx(2.0))
    assert plane.bias_error == pytest.approx(1e-4 + 2e-3)
    oracle = Promising(D, roundoff=2.0**-20)
    assert value_rounding(oracle, 3.0) == pytest.approx(2 * 13 * 2.0**-20 * 3.0)
    assert plane.value_error(oracle, 3.0) == pytest.approx(1e-4 + value_rounding(oracle, 7.0))


# Directions along the plane.


def test_directions_along_the_plane_are_sums_of_two():
    across = np.linalg.qr(np.c_[V, RNG.standard_normal((D, D - 1))])[0][:, 1]
    lean = bisection.FAINT_SIDE / np.sqrt(D)
    clear, faint = across + 1.1 * lean * V, across + 0.9 * lean * V
    parts, weights = on_clear_sides(V, np.stack([clear, faint, 7 * clear, 7 * faint]))
    np.testing.assert_allclose(weights[[0, 2]], [[1.0, 0.0]] * 2)
    assert (np.abs(weights[[1, 3]]) > 0.1).all()
    np.testing.assert_allclose(parts[[0, 2], 0], [clear, 7 * clear])
    np.testing.assert_allclose(np.einsum("nkd,nk->nd", parts[[1]], weights[[1]])[0], faint, atol=1e-9)
    np.testing.assert_allclose(np.abs(parts[1] @ V), np.sqrt(0.5))


@pytest.mark.parametrize("each", [False, True])
def test_scores_are_sums_of_scores_on_clear_sides(each):
    rng = np.random.default_rng(2)
    across = np.linalg.qr(np.c_[V, rng.standard_normal((D, D - 1))])[0][:, 1]
    B = np.stack([across, V, rng.standard_normal(D)])
    A = rng.standard_normal((3, 4, D) if each else (4, D))
    A[..., 1, :] = across
    block = sums(V, B, A)
    score = np.einsum("pd,de,pe->p", block.keys[block.k], W, block.queries[block.q])
    t, halfwidth = block.add(score, np.full(len(score), 0.5))
    np.testing.assert_allclose(t, np.einsum("mnd,de,me->mn", np.broadcast_to(A, (3, 4, D)), W, B), atol=1e-9)
    assert halfwidth[1, 0] == 0.5
    assert halfwidth[0, 0] == pytest.approx(0.5 * np.sqrt(2))  # two queries, with weights of 1/sqrt 2 each
    assert halfwidth[0, 1] == pytest.approx(1.0)


# Bisection.


@pytest.mark.parametrize("width", [1e-1, 1e-6])
def test_intervals_hold_what_is_asked_for(width):
    x = np.array([0.3, -0.7, 0.0, 5.0, -1e3, 1.0, -1.0])
    asked = []

    def above(which, at):
        asked.append(len(which))
        return x[which] > at

    lo, hi = find_intervals(above, np.ones(7), np.full(7, width), alone)
    assert (lo <= x).all()
    assert (x <= hi).all()
    assert (hi - lo <= width).all()
    assert (hi - lo > width / 2.1).all()
    halvings = np.ceil(np.log2(1 / width))
    assert asked[0] == 7
    few = []
    find_intervals(lambda which, at: few.append(len(which)) or x[which] > at, np.ones(2), np.full(2, width), alone)
    assert len(few) <= halvings + 3


def test_a_range_is_doubled_where_answers_always_point_one_way():
    """After six of them the end itself is asked about."""
    ends = []

    def above(which, at):
        ends.append(float(at[0]))
        return at < 37.0

    lo, hi = find_intervals(above, np.ones(1), np.full(1, 1e-3), alone)
    assert lo[0] < 37.0 <= hi[0]
    assert ends[:6] == [0.0, 0.5, 0.75, 0.875, 0.9375, 0.96875]
    assert ends[6:8] == [1.0, 2.0]


@pytest.mark.parametrize("wrong", range(20))
@pytest.mark.parametrize("x", [0.3, -0.7, 5.0])
def test_a_wrong_answer_is_noticed_or_spoils_hardly_an_interval(x, wrong):
    """It has all that follow point one way, and the end that stayed is asked about again: of the last three it is
    not, and spoils a few widths; of the last dozen it may be rounding, and the interval is sought again."""
    asked = []

    def above(which, at):
        asked.append(len(which))
        return (x > at) ^ (len(asked) - 1 == wrong)

    width = 2.0**-16
    if wrong not in ((11,) if x == 5.0 else (8, *range(10, 20))):
        with pytest.raises(gh.TargetMismatch, match="flips=") as refused:
            find_intervals(above, np.ones(1), np.full(1, width), alone)
        assert refused.value.evidence.law == ASKED_AGAIN
        assert refused.value.evidence.query.shape == (1, 1)
        return
    lo, hi = find_intervals(above, np.ones(1), np.full(1, width), alone)
    truth = find_intervals(lambda which, at: x > at, np.ones(1), np.full(1, width), alone)
    off = max(float(lo[0]) - x, x - float(hi[0]), 0.0)
    assert off <= 4 * width
    assert off == 0 or wrong >= 14
    assert truth[0][0] <= x <= truth[1][0]


def test_ends_that_stayed_are_asked_about_once_more():
    """Of unknowns drawn at random a quarter, and only where intervals are fine."""
    x, asked = np.random.default_rng(0).uniform(-1, 1, 2000), []

    def above(which, at):
        asked.append(len(which))
        return x[which] > at

    lo, hi = find_intervals(above, np.ones(2000), np.full(2000, 2.0**-12), alone)
    assert ((lo <= x) & (x <= hi)).all()
    assert asked[-1] == pytest.approx(500, rel=0.15)
    fine = sum(asked)
    asked.clear()
    find_intervals(above, np.ones(2000), np.full(2000, 2.0**-9), alone)
    assert sum(asked) < fine - 3 * 2000


def test_what_is_beyond_every_range_is_named():
    with pytest.raises(Unbounded) as caught:
        find_intervals(lambda which, at: np.where(which == 1, True, at < 0.5), np.ones(3), np.full(3, 1e-3), alone)
    assert caught.value.which == 1


def test_widths_below_rounding_end():
    lo, hi = find_intervals(lambda which, at: at < 0.3, np.ones(1), np.zeros(1), alone)
    assert lo[0] <= 0.3 <= hi[0]
    assert hi[0] - lo[0] < 1e-15


def test_exponents():
    x = np.array([3.0, -0.3, 1.0, 2.0**-40, 0.0, 1e9])
    asked = []
    found = find_exponents(lambda which, at: asked.append(len(which)) or x[which] > at, 6, -10, 10)
    assert list(found) == [2, -1, 0, -10, -10, 10]
    assert len(asked) <= 7


# Thresholds.


@pytest.mark.parametrize("c", [0.0, 0.3, 5.0])
def test_the_logit_of_a_threshold(c):
    y = np.linspace(-4, 4, 9)
    theta = solve_logit(y, np.full(9, c))
    np.testing.assert_allclose(theta - c * np.sqrt(1 + np.exp(-theta)), y, atol=1e-10)


@pytest.mark.parametrize("pull", [0.0, 0.4])
@pytest.mark.parametrize("longest", [1e9, 2.0])
def test_lengths_compare_a_score_with_a_threshold(pull, longest):
    tau = np.array([-2.0, -0.1, 0.0, 0.3, 3.0])
    alpha, beta = np.full(5, 0.6), np.full(5, 0.2)
    rho, kappa = comparing_lengths(tau, 1.5, alpha, beta, np.full(5, pull), longest)
    theta = rho * kappa * tau + rho * pull
    np.testing.assert_allclose(expit(theta), kappa * beta / (rho * alpha), rtol=1e-9)
    assert (rho * kappa <= 1.5 * (1 + 1e-12)).all()
    assert (np.abs(rho * kappa * tau) <= bisection.STEEPEST_LOGIT * (1 + 1e-12)).all()
    assert (rho + kappa <= longest * (1 + 1e-9)).all()
    if pull == 0 and longest > 2:
        np.testing.assert_allclose((rho * kappa)[:4], 1.5)  # nothing forbids it; at 3 the logit would be 4.5
        steep = comparing_lengths(np.array([100.0]), 1.5, alpha[:1], beta[:1], np.zeros(1), longest)
        assert steep[0] * steep[1] * 100 == pytest.approx(bisection.STEEPEST_LOGIT)


def test_a_key_bias_alone_gives_no_large_logit():
    rho, _ = comparing_lengths(np.zeros(1), 1e6, np.ones(1), np.ones(1), np.full(1, 8.0), 1e9)
    assert 0.3 < 8.0 * rho[0] <= 2.5


def test_lengths_are_no_shorter_than_they_have_to_be():
    rho, kappa = comparing_lengths(np.zeros(1), 1e9, np.ones(1), np.ones(1), np.zeros(1), 10.0)
    assert 8 < (rho + kappa)[0] <= 10.0


def test_whether_the_first_token_outweighs_the_threshold():
    q, key = -0.5 * V[None], 2.0 * V[None]
    oracle = Promising(D, head, answers="sign")
    s = float(key[0] @ W @ q[0])
    assert read_outweighs(oracle, V, key, q)[0] == (expit(s) > 0.25)
    turned = Promising(D, lambda X: ~head(X), answers="sign")
    assert read_outweighs(turned, V, -key, -q)[0] == (not read_outweighs(oracle, V, -key, -q)[0])


@pytest.mark.parametrize("what", ["direction", "offset"])
def test_the_logit_compared_with_lies_in_its_range(what):
    """v is another one by its error, in any direction, or the plane is by its offset elsewhere."""
    rng, error = np.random.default_rng(0), 1e-3
    oracle = Promising(D, roundoff=0.0)
    u, q = rng.standard_normal((2, D))
    u, q = u * np.sign(u @ V), -q * np.sign(q @ V)
    rho, kappa = 2.0, 0.9 * 2.0 * (u @ V) / -(q @ V) / 3
    key, query = rho * u, kappa * q
    plane = space(error if what == "direction" else 0.0, error if what == "offset" else 0.0)
    lower, upper = (
        float(end[0])
        for end in logit_range(
            plane, oracle, *(np.array([x]) for x in (np.linalg.norm(key), np.linalg.norm(query), key @ V, -query @ V))
        )
    )
    worst = 0.0
    for _ in range(2000):
        off = rng.standard_normal(D)
        v = V + (error * off / np.linalg.norm(off) if what == "direction" else 0.0)
        shift = rng.choice([-error, error]) if what == "offset" else 0.0
        ratio = -(query @ v + shift) / (key @ v)
        theta = np.log(ratio / (1 - ratio))
        assert lower - 1e-12 <= theta <= upper + 1e-12
        middle = (lower + upper) / 2
        worst = max(worst, abs(theta - middle) / ((upper - lower) / 2))
    assert worst > 0.4


def test_the_rounding_of_a_weight_is_in_the_range():
    """Eight units in the last place of the ratio, and of both values what dot products lose."""
    oracle = Promising(D, roundoff=2.0**-24)
    ones = np.ones(1)
    lower, upper = logit_range(space(), oracle, 2 * ones, ones, 2 * ones, ones)
    of_value = value_rounding(oracle, 1.0)
    off = (
        of_value * 1 + of_value * 1 + of_value * 4 + 8 * 2.0**-24
    )  # above, below, the value of both tokens, the weight
    assert upper[0] - lower[0] == pytest.approx(4 * off, rel=0.02)


# The meter.


@pytest.mark.parametrize("bits", [8, 20, 40])
def test_scores_are_halved_so_often_and_lie_in_their_intervals(bits):
    plain = meter(bits=bits)
    rng = np.random.default_rng(0)
    B, A = rng.standard_normal((2, 6, D))
    B, A = B / np.linalg.norm(B, axis=1, keepdims=True), A / np.linalg.norm(A, axis=1, keepdims=True)
    scores = plain.columns(B, A)
    truth = B @ W.T @ A.T
    assert (np.abs(scores.t - truth) <= scores.halfwidth).all()
    assert np.median(scores.halfwidth) < 1.2 * 3.0 * 2.0**-bits
    assert np.median(scores.halfwidth) > 0.2 * 3.0 * 2.0**-bits
    assert np.max(np.abs(scores.t - truth) / scores.halfwidth) > 0.5


@pytest.mark.parametrize("seed", range(5))
def test_intervals_hold_though_v_is_another(seed):
    rng, error = np.random.default_rng(seed), 1e-4
    off = rng.standard_normal(D)
    v = V + error * off / np.linalg.norm(off)
    plain = meter(lambda X: head(X, v), bits=30, error=error)
    B, A = rng.standard_normal((2, 6, D))
    scores = plain.columns(B, A)
    assert (np.abs(scores.t - B @ W.T @ A.T) <= scores.halfwidth).all()
    assert plain.finest  # more bits would say nothing more


@pytest.mark.parametrize("seed", range(3))
def test_intervals_hold_though_the_key_bias_is_known_roughly(seed):
    rng = np.random.default_rng(seed)
    true = 0.5 * rng.standard_normal(D)
    widths = np.full(D, 1e-3)
    frame = orthonormal_frame(D, rng)
    read = frame.inverse @ (frame.vectors @ true + widths * rng.choice([-1.0, 1.0], D))
    bias = KeyBias(read, frame.inverse, widths)
    np.testing.assert_allclose(bias.error(frame.vectors), widths)
    assert bias.total == pytest.approx(1e-3 * np.sqrt(D))
    assert np.linalg.norm(read - true) <= bias.total * (1 + 1e-9)
    plain = meter(lambda X: head(X, key_bias=true), bits=30, key_bias=bias)
    B, A = rng.standard_normal((2, 6, D))
    scores = plain.columns(B, A)
    off = np.abs(scores.t - B @ W.T @ A.T)
    assert (off <= scores.halfwidth).all()
    assert np.max(off / scores.halfwidth) > 0.2


def test_directions_along_the_plane_are_read_as_well():
    across = np.linalg.qr(np.c_[V, RNG.standard_normal((D, D - 1))])[0][:, 1:]
    scores = meter(bits=30).columns(across.T, across.T)
    np.testing.assert_allclose(scores.t, across.T @ W.T @ across, atol=1e-7)


def test_nothing_asked_is_nothing_read():
    assert meter().columns(np.empty((0, D)), np.eye(D)).t.shape == (0, D)
    assert meter().columns(np.eye(D), np.empty((0, D))).t.shape == (D, 0)


def test_blocks_are_read_side_by_side():
    plain = meter(bits=16)
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal((2, 3, D)), rng.standard_normal((2, 5, D))
    first, second = plain.read_blocks([(one[0], one[1]), (two[0], two[1])])
    np.testing.assert_allclose(first.t, one[0] @ W.T @ one[1].T, atol=1e-2)
    np.testing.assert_allclose(second.t, two[0] @ W.T @ two[1].T, atol=1e-2)
    assert len(plain.oracle.asked) < 40


def test_a_box_whose_weights_saturate_at_any_length_is_refused():
    with pytest.raises(gh.TargetMismatch, match="0 or 1 at any length"):
        meter(lambda X: X[:, 0] @ V > 0).columns(np.eye(D)[:1], np.eye(D)[:1])


def test_settings_of_the_meter():
    plain = meter(bits=10, reach=3.0)
    assert plain.product == pytest.approx(sign.LOGIT / 3.0)
    assert meter(reach=0.0).product == np.inf
    assert plain.width == pytest.approx(3.0 * 2.0**-9)
    assert plain.axis is plain.space.v
    assert plain.likely(0.5) == 0.5 * sign.UNLUCKY_BITS
    assert plain.sharper().bits == 14
    assert plain.tuned(np.full(4, 2.0)).reach == pytest.approx(6.0)
    assert plain.tuned(np.full(4, 1e-9)).reach == pytest.approx(3.0 / 8)
    assert meter(offset=1e-6).shortest == pytest.approx(1e-6 * 2.0**10)


def test_an_exacting_meter_keeps_its_width():
    plain = meter(bits=10, reach=3.0, exacting=True)
    wider = plain.tuned(np.full(4, 4.0))
    assert (wider.reach, wider.bits) == (pytest.approx(12.0), 12)
    assert plain.tuned(np.full(4, 0.25)).bits == 8
    assert meter(bits=1, reach=3.0, exacting=True).tuned(np.full(4, 0.2)).bits == 1


def test_tokens_may_have_less_of_their_product_within_a_limit():
    assert meter().freedom == 1.0
    assert meter(reach=0.0).freedom == 1.0
    assert 0.0 < meter(max_norm=0.1).freedom < 0.1


def test_lean_is_that_of_the_keys():
    assert meter().suited(V[None]).lean == pytest.approx(1.0)
    assert meter().suited(3 * V[None]).lean == pytest.approx(1.0)
    assert meter(lean=0.9).suited(np.eye(D)[:0]).lean == 0.9


def test_rounding_inside_a_box():
    """Of scores of unit vectors: more with what an origin makes cancel, and with a key bias."""
    u = 2.0**-24
    plain = meter(roundoff=u)
    base = plain.rounding(4.0)
    ulps = 4 * (D + 4) * u
    assert ulps * 4.0 < base < 20 * ulps * 4.0
    assert plain.rounding(8.0) == pytest.approx(2 * base)
    shifted = SignMeter(
        oracle=plain.oracle,
        space=space(origin=10 * V),
        keys=plain.keys,
        queries=plain.queries,
        key_bias=None,
        reach=3.0,
        bits=20,
    )
    assert shifted.rounding(4.0) > 10 * base
    bias = KeyBias(np.full(D, 3.0), np.eye(D), np.zeros(D))
    assert meter(roundoff=u, key_bias=bias).rounding(4.0) > 1.5 * base
