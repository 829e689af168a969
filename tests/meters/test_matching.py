"""Sequences that are answered alike: scores within their errors, roots that are false, probes that fail."""

import numpy as np
import pytest
from scipy.special import expit

import glasshead as gh
from glasshead._linalg import Frame, orthonormal_frame
from glasshead._meters.matching import curve as curves
from glasshead._meters.matching import match
from glasshead._meters.matching.crossing import Crossings, SignMatchingMeter
from glasshead._meters.matching.curve import (
    Copies,
    OneRow,
    derivative,
    floor,
    interpolated_slope,
    inverse_interpolation,
    read_answer_noise,
    slope_step,
    smallest_change,
    still,
)
from glasshead._meters.matching.match import Matched, read_references
from glasshead._meters.matching.meter import MatchingMeter, Ruler
from glasshead._meters.matching.place import Place, PlacePilots, somewhere

from .promises import Promising

D = 4


class Behind:
    """One head and a smooth network behind it, which may see the last token as well."""

    def __init__(self, outputs=None, seed=0, noise=0.0, residual=True):
        rng = np.random.default_rng(seed)
        self.W, self.key_bias = rng.standard_normal((2, D, D))[0], 0.3 * rng.standard_normal(D)
        self.A, self.B = rng.standard_normal((2, D, 6))
        self.w = rng.standard_normal((6, outputs) if outputs else 6)
        self.noise, self.rng, self.residual = noise, rng, residual

    def scores(self, q, u):
        return np.einsum("nd,nd->n", u, q @ self.W.T + self.key_bias)

    def attended(self, X):
        s = np.einsum("bnd,bd->bn", X, X[:, -1] @ self.W.T + self.key_bias)
        weights = np.exp(s - s.max(axis=1, keepdims=True))
        return np.einsum("bn,bnd->bd", weights / weights.sum(axis=1, keepdims=True), X)

    def __call__(self, X):
        y = np.tanh(self.attended(X) @ self.A + (X[:, -1] @ self.B if self.residual else 0.0)) @ self.w
        return y + self.noise * self.rng.standard_normal(y.shape)


def probes(n=40, size=0.2, seed=1):
    q, u = np.random.default_rng(seed).standard_normal((2, n, D))
    return q, size * u / np.linalg.norm(u, axis=1, keepdims=True)


# Curves.


@pytest.mark.parametrize("curve", [Copies(), OneRow()])
def test_both_sequences_go_as_far_as_their_formulas_say(curve):
    box, (q, u) = Behind(), probes(5, 0.5)
    s, c = box.scores(q, u), np.linspace(0.3, 1.4, 5)
    for make, formula in ((curve.reference, curve.reference_t), (curve.movable, curve.movable_t)):
        np.testing.assert_allclose(box.attended(make(q, u, c)), q + formula(c, s)[:, None] * u, atol=1e-12)


@pytest.mark.parametrize("curve", [Copies(), OneRow()])
def test_scores_undo_the_formulas(curve):
    s = np.linspace(-curve.limit, min(curve.limit, 2.0), 21)
    low, high = np.full_like(s, curve.range[0]), np.full_like(s, curve.range[1])
    for _ in range(80):  # movable_t grows with c up to the limit
        middle = (low + high) / 2
        below = curve.movable_t(middle, s) < curve.reference_t(np.ones_like(s), s)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    np.testing.assert_allclose(curve.score(low), s, atol=1e-10)
    assert curve.score(np.array([curve.start]))[0] == pytest.approx(0.0, abs=1e-12)


def test_typical_scores_are_larger_where_answers_are_noisy():
    assert (Copies().typical, Copies(noisy=True).typical) == (0.1, 0.16)
    assert (OneRow().typical, OneRow(noisy=True).typical) == (0.2, 0.8)


def test_interpolation_is_exact_for_polynomials():
    c = np.array([[0.1, 0.4, 0.9, 1.3], [0.0, 0.5, 0.7, 2.0]])
    f = c**3 - 2 * c + 0.3
    at = np.array([0.6, 1.1])
    np.testing.assert_allclose(interpolated_slope(c, f, at), 3 * at**2 - 2, atol=1e-10)
    np.testing.assert_allclose(
        interpolated_slope(c[:, :2], f[:, :2], at), np.diff(f[:, :2])[:, 0] / np.diff(c[:, :2])[:, 0]
    )
    y = np.array([[-1.0, -0.2, 0.5, 2.0]])
    np.testing.assert_allclose(inverse_interpolation(0.7 + y - y**3, y), [0.7], atol=1e-12)
    assert not np.isfinite(inverse_interpolation(np.array([[1.0, 2.0]]), np.array([[3.0, 3.0]]))[0])
    assert derivative(np.sin, np.array([0.3]))[0] == pytest.approx(np.cos(0.3), abs=1e-9)


def test_what_is_known_of_noise_without_measuring():
    assert floor(Promising(3, tolerance=0.1, rtol=0.01, roundoff=1e-3), 5.0) == pytest.approx(2 * (0.1 + 0.011 * 5))


def test_the_step_of_slopes():
    assert slope_step(1e-8, 1.0) == pytest.approx(1e-4)
    assert slope_step(1e-30, 1.0) == curves.TINY_STEP == 2.0**-20
    assert slope_step(10.0, 1.0) == curves.COARSE_STEP == 0.5
    assert slope_step(1.0, 0.0) == curves.TINY_STEP


@pytest.mark.parametrize("noise", [1e-3, 1e-7])
@pytest.mark.parametrize("outputs", [None, 3])
def test_noise_is_measured(noise, outputs):
    box, (q, u) = Behind(outputs, noise=noise), probes(40)
    measured = read_answer_noise(Promising(D, box, roundoff=2.0**-53), Copies(), q, u)
    assert 0.7 * curves.DEVIATIONS * noise < measured < 1.4 * curves.DEVIATIONS * noise


def test_answers_on_a_grid_have_the_noise_of_a_step():
    box, (q, u) = Behind(), probes(40)
    oracle = Promising(D, lambda X: np.round(box(X), 4), roundoff=2.0**-53)
    measured = read_answer_noise(oracle, Copies(), q, u)
    assert 0.99e-4 <= measured < 1e-3
    assert len(oracle.asked) > 1
    exact = Promising(D, box, roundoff=2.0**-53)
    assert read_answer_noise(exact, Copies(), q, u) < 1e-13
    assert len(exact.asked) == 1
    assert exact.asked[0].shape == (120, 3, D)


def test_whether_answers_stay_and_by_how_much_they_change():
    y = np.zeros((3, 4, 2))
    y[1, 0, 0], y[2, 0, 1] = 0.5, 0.25
    assert still(y)
    assert smallest_change(y) == 0.25
    assert smallest_change(np.zeros((3, 4, 2))) == 0.0
    y[1, 1:2, 0] = 1.0
    assert not still(y)  # half of them move


# Roots.


@pytest.mark.parametrize(("curve", "residual"), [(Copies(), True), (OneRow(), False)])
@pytest.mark.parametrize("outputs", [None, 3])
def test_scores_are_within_their_errors(curve, residual, outputs):
    box, (q, u) = Behind(outputs, residual=residual), probes(60, 0.1)
    oracle = Promising(D, box, roundoff=2.0**-53)
    noise = read_answer_noise(oracle, curve, q, u)
    found = read_references(oracle, curve, q, u, noise, slope_step(noise, 1.0)).read()
    assert found.good.mean() > 0.8
    off = np.abs(found.s - box.scores(q, u))[found.good]
    assert (off <= 2 * found.error[found.good] + 1e-12).all()
    assert np.median(off) < 1e-11
    assert np.median(found.error[found.good]) < 1e-9
    assert not found.far[found.good].any()


@pytest.mark.parametrize("level", [1e-9, 1e-6])
def test_errors_grow_with_the_noise_and_hold(level):
    curve, (q, u) = Copies(noisy=True), probes(200, 0.3)
    box = Behind(noise=level)
    noise = curves.DEVIATIONS * level
    found = read_references(Promising(D, box), curve, q, u, noise, slope_step(noise, 1.0)).read()
    good = found.good
    assert good.mean() > 0.3
    off = np.abs(found.s - box.scores(q, u))[good]
    assert np.mean(off <= found.error[good]) > 0.95
    assert np.median(off / found.error[good]) > 0.01


def test_few_questions_for_smooth_answers():
    box, (q, u) = Behind(), probes(50, 0.05)
    oracle = Promising(D, box, roundoff=2.0**-53)
    read_references(oracle, Copies(), q, u, 1e-15, 2.0**-20).read()
    assert oracle.queries <= 50 * 6.5


def test_scores_out_of_range_are_far():
    box, (q, u) = Behind(), probes(40, 1.0)
    found = read_references(Promising(D, box), Copies(), 3 * q, u, 1e-14, 2.0**-20).read()
    large = np.abs(box.scores(3 * q, u)) > 1.0
    assert large.sum() > 20
    assert not found.good[large].any()


def test_a_root_where_the_answer_comes_back_is_false():
    """Behind the head a wave: the answer of the movable sequence meets the reference's many times."""

    class Wave(Behind):
        def __call__(self, X):
            return np.sin(40 * (self.attended(X) @ self.A[:, 0]))

    box, (q, u) = Wave(), probes(300, 0.3)
    found = read_references(Promising(D, box), Copies(), q, u, 1e-14, 2.0**-20).read()
    off = np.abs(found.s - box.scores(q, u))
    assert (off > 1e-3).sum() > 50
    assert (off[found.good] < 1e-6).all()


def two_heads(outputs):
    one, other = Behind(outputs, seed=1), Behind(outputs, seed=2)
    return lambda X: np.tanh(
        np.c_[one.attended(X), other.attended(X)] @ np.random.default_rng(0).standard_normal((2 * D, outputs))
    )


def test_several_heads_agree_in_one_direction_only():
    q, u = probes(40, 0.3)
    found = read_references(Promising(D, two_heads(4)), Copies(), q, u, 1e-14, 2.0**-20).read()
    assert not found.good.any()
    assert found.apart.mean() > 0.5
    single = read_references(Promising(D, Behind(4)), Copies(), q, u, 1e-14, 2.0**-20).read()
    assert not single.apart.any()


class Fixed(match.Matching):
    """What `judged` looks at, for one probe with the answers of a straight line."""

    def __init__(self, noise=0.0, step=1e-3, pace=1.0, curve=None):
        self.curve, self.noise, self.step, self.pace = curve or OneRow(), noise, step, np.array([pace])


def judged(slope=1.0, error=0.0, across=0.0, root=0.5, noise=0.0, along=1e-9, pace=1.0):
    """One row against two at a weight of one half: per unit of c the reference goes half as far."""
    matching = Fixed(noise, pace=pace)
    fixed, moved = matching.rates(np.array([root]), matching.curve.score(np.array([root])))
    true = pace / fixed * moved  # the slope that a true root has
    c = np.array([[root - 0.2, root - 0.1, root + along]])
    f = slope * true * (c - root)
    return match.judged(
        matching, c, f, np.array([[0.0, 0.0, across]]), np.array([root]), np.array([error]), np.array([3])
    )


@pytest.mark.parametrize(
    ("given", "ok"),
    [
        ({}, True),
        ({"slope": 1.009}, True),
        ({"slope": 1.011}, False),
        ({"slope": 0.989}, False),
        ({"slope": -1.0}, False),
        ({"error": 0.9e-6}, True),
        ({"error": 1.1e-6}, False),
        ({"error": 1.1e-6, "noise": 1e-8}, True),
        ({"across": 1e-6}, False),
        ({"across": 1e-6, "along": 1e-4}, True),
        ({"across": 1e-6, "noise": 1e-7}, True),
        ({"root": 0.97}, False),
        ({"root": 0.03}, False),
        ({"root": 0.9}, True),
    ],
)
def test_which_roots_are_believed(given, ok):
    found = judged(**given)
    assert found.good[0] == ok
    assert found.far[0] == (given.get("root", 0.5) in (0.97, 0.03))


def test_the_error_of_a_score_is_that_of_the_root_and_of_the_answers():
    plain, noisy = judged(error=1e-7), judged(error=1e-7, noise=1e-9)
    assert plain.error[0] == pytest.approx(4e-7, rel=1e-4)  # the logit moves by 4 for each unit of the weight
    # The slope is 2 at a weight of one half: noise moves the root by as much.
    assert noisy.error[0] - plain.error[0] == pytest.approx(4e-9, rel=1e-3)


# Probes that fail, and others in their place.


class Scripted(Ruler):
    """Scores of a head that is known; the probes of the first rounds fail where `fails` says."""

    def __init__(self, fails=lambda u, turn: np.zeros(len(u), bool), error=1e-6, far=False, usual=1e-6):
        super().__init__(Promising(D), Copies(), 0.0, 1e-3, np.random.default_rng(0), usual)
        self.box, self.fails, self.error_of, self.turn, self.far, self.sent = Behind(), fails, error, 0, far, []

    def read_matches(self, q, u):
        bad = self.fails(u, self.turn)
        self.turn += 1
        self.sent.append(u)
        s = self.box.scores(q, u)
        error = self.error_of(u) if callable(self.error_of) else np.full(len(u), self.error_of)
        return Matched(np.where(bad, 99.0, s), error, ~bad, bad & self.far, 0.0)


def test_a_probe_that_fails_is_replaced_by_two():
    q, u = probes(30)
    ruler = Scripted(lambda u, turn: np.arange(len(u)) % 10 == 0 if turn == 0 else np.zeros(len(u), bool))
    s, error = ruler.read_scores(q, u)
    np.testing.assert_allclose(s, ruler.box.scores(q, u), atol=1e-12)
    assert [len(sent) for sent in ruler.sent] == [30, 6]
    halves = ruler.sent[1].reshape(2, 3, D)
    np.testing.assert_allclose(halves.sum(axis=0) * np.sqrt(2) / 2, u[[0, 10, 20]], atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(halves, axis=2), np.linalg.norm(u[[0, 10, 20]], axis=1)[None].repeat(2, 0)
    )
    np.testing.assert_allclose(error[[0, 10, 20]], 1e-6)  # sqrt 2 times hypot of two over two
    np.testing.assert_allclose(error[1:10], 1e-6)


def test_probes_get_shorter_from_round_to_round():
    q, u = probes(30)
    ruler = Scripted(lambda u, turn: np.arange(len(u)) == 0 if turn < 4 else np.zeros(len(u), bool))
    s, _ = ruler.read_scores(q, u)
    np.testing.assert_allclose(s, ruler.box.scores(q, u), atol=1e-12)
    lengths = [np.linalg.norm(sent[0]) for sent in ruler.sent]
    np.testing.assert_allclose(np.array(lengths) / 0.2, [1, 1, 1 / 1.25, 1 / 1.25**2, 1 / 1.25**3])


def test_probes_that_are_too_long_get_shorter_at_once():
    q, u = probes(30)
    ruler = Scripted(lambda u, turn: np.arange(len(u)) == 0 if turn < 3 else np.zeros(len(u), bool), far=True)
    ruler.read_scores(q, u)
    lengths = [np.linalg.norm(sent[0]) for sent in ruler.sent]
    np.testing.assert_allclose(np.array(lengths) / 0.2, [1, np.sqrt(2) / 3, np.sqrt(2) / 6, np.sqrt(2) / 12])


@pytest.mark.parametrize(("times", "again"), [(29.0, False), (31.0, True)])
def test_a_score_thirty_times_less_certain_than_usual_is_asked_again(times, again):
    q, u = probes(20)
    first = u[7].copy()
    ruler = Scripted(error=lambda sent: np.where((sent == first).all(axis=1), times * 1e-6, 1e-6))
    ruler.read_scores(q, u)
    assert (len(ruler.sent) == 2) == again


@pytest.mark.parametrize(("count", "again"), [(15, False), (16, True)])
def test_a_crowd_says_what_is_usual(count, again):
    """Fewer than 16 scores are compared with the error that is usual at this place."""
    q, u = probes(count)
    first = u[0].copy()
    ruler = Scripted(error=lambda sent: np.where((sent == first).all(axis=1), 1e-4, 1e-6), usual=1.0)
    ruler.read_scores(q, u)
    assert (len(ruler.sent) == 2) == again


def test_where_nothing_is_as_certain_as_usual_less_will_do():
    """Halves with a hundred times the usual error: taken once that is acceptable, after a few rounds."""
    q, u = probes(20)
    ruler = Scripted(
        lambda u, turn: np.arange(len(u)) == 0 if turn == 0 else np.zeros(len(u), bool),
        error=lambda sent: np.full(len(sent), 1e-6 if len(sent) == 20 else 1e-3),
    )
    _, error = ruler.read_scores(q, u)
    assert 4 <= len(ruler.sent) <= 7
    assert error[0] > 1e-4


def test_a_probe_that_never_tells_is_refused():
    q, u = probes(20)
    ruler = Scripted(lambda u, turn: np.arange(len(u)) == 0)
    with pytest.raises(gh.TargetMismatch, match="none along any of many lines") as caught:
        ruler.read_scores(q, u)
    assert len(ruler.sent) == 1 + Ruler.rounds == 17
    np.testing.assert_allclose(caught.value.evidence.query[-1], q[0])


def test_many_failures_make_the_next_probes_shorter():
    ruler = Scripted()
    ruler.adjust_reach(15, 15)
    assert ruler.reach == 1.0  # too few to tell
    ruler.adjust_reach(1000, 20)
    assert ruler.reach == 1.0  # 35 of 1015
    ruler.adjust_reach(0, 10)
    assert ruler.reach == pytest.approx(1 / 1.6)  # 45 are more than 4%
    assert (ruler.asked, ruler.failed) == (0, 0)
    for _ in range(20):
        ruler.adjust_reach(100, 100)
    assert 0.1 / 1.6 < ruler.reach <= 0.1
    q, u = probes(20)
    s, error = ruler.read_scores(q, u)
    np.testing.assert_allclose(s, ruler.box.scores(q, u), atol=1e-12)
    np.testing.assert_allclose(error, 1e-6 / ruler.reach)
    np.testing.assert_allclose(np.linalg.norm(ruler.sent[0], axis=1), 0.2 * ruler.reach)


def test_partners_lie_across_and_are_as_long():
    u = probes(10)[1] * np.arange(10)[:, None]
    f = Scripted().partner(u)
    np.testing.assert_allclose(np.sum(f * u, axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(f, axis=1), np.linalg.norm(u, axis=1), atol=1e-12)
    assert not Scripted().partner(np.ones((3, 1))).any()


def test_a_ruler_along_another_curve_has_the_same_noise():
    ruler = Scripted()
    ruler.noise = 0.125
    other = ruler.along(OneRow())
    assert isinstance(other.curve, OneRow)
    assert (other.noise, other.step, other.usual) == (0.125, 1e-3, np.inf)


# The meter.


def meter(ruler=None, gain=1.0, **given):
    ruler = ruler or Scripted()
    rng = np.random.default_rng(3)
    keys = orthonormal_frame(D, rng)
    keys = Frame(keys.vectors / gain, keys.inverse * gain, gain)
    arguments = {"origin": np.full(D, 0.5), "rho": 0.25, "kappa": 0.5, "pull": np.zeros(D)} | given
    return MatchingMeter(Promising(D), ruler, keys, orthonormal_frame(D, rng), **arguments)


def test_scores_of_columns_and_what_every_query_sees():
    plain = meter(gain=2.0)
    known = plain.read_pull()
    box = plain.ruler.box
    np.testing.assert_allclose(known.pull, box.W @ plain.origin + box.key_bias, atol=1e-10)
    assert known.pull_error == pytest.approx(2.0 * 2e-6 / 0.25)
    assert known.drift == pytest.approx(known.pull_error / 0.5)
    B, A = np.random.default_rng(0).standard_normal((2, 3, D))
    scores = known.columns(B, A)
    np.testing.assert_allclose(scores.t, B @ box.W.T @ A.T, atol=1e-9)
    np.testing.assert_allclose(scores.hi - scores.t, 1e-6 / (0.25 * 0.5))
    np.testing.assert_allclose(scores.t - scores.lo, 1e-6 / (0.25 * 0.5))
    assert scores.drift == known.drift
    each = known.columns(B, np.stack([A, 2 * A, 3 * A]))
    np.testing.assert_allclose(each.t, scores.t * np.array([[1], [2], [3]]), atol=1e-9)
    assert known.columns(B[:0], A).t.shape == (0, 3)


def test_keys_are_shortened_where_scores_would_be_too_large():
    """A score of 1.5 times the typical one, 0.1, is fine; from there on keys are as long as the typical one asks."""
    plain = meter(kappa=0.5)
    assert plain.tuned(np.full(4, 2 * 0.149 / 0.25)).rho == 0.25
    assert plain.tuned(np.full(4, 2 * 0.2 / 0.25)).rho == pytest.approx(0.125)
    seen = meter(pull=np.full(D, 0.2 / 0.25))
    assert seen.suited(np.eye(D)).rho == pytest.approx(0.125)
    assert seen.suited(0.5 * np.eye(D)).rho == 0.25
    ruler = Scripted()
    ruler.reach = 0.5
    assert meter(ruler).tuned(np.full(4, 2 * 0.2 / 0.25)).rho == 0.25


def test_what_tokens_are_off_by():
    assert meter(distortion=1e-3).rounding(8.0) == pytest.approx(2e-3)
    assert meter().axis is None
    wide = MatchingMeter(
        Promising(64), Scripted(), *[orthonormal_frame(64, np.random.default_rng(0))] * 2, np.zeros(64), 1.0, 1.0
    )
    assert (meter().likely(1.0), wide.likely(1.0)) == (1.0, 0.5)


# Yes and no.


class Yes(Behind):
    """Whether the attention output lies beyond a plane, at a distance from the origin."""

    normal = np.array([1.0, 0, 0, 0])

    def __call__(self, X):
        return self.attended(X)[:, 0] > 1.0


def crossings(box=None, bits=30, **given):
    return Crossings(
        Promising(D, box or Yes(), answers="sign", roundoff=2.0**-53, **given),
        Yes.normal,
        1.0,
        bits,
        np.random.default_rng(0),
    )


def near_origin(n=60, size=0.1):
    rng = np.random.default_rng(2)
    q = size * rng.standard_normal((n, D))
    u = rng.standard_normal((n, D))
    return q, 0.2 * u / np.linalg.norm(u, axis=1, keepdims=True)


@pytest.mark.parametrize("bits", [16, 30])
def test_scores_from_where_answers_change(bits):
    box, (q, u) = Yes(), near_origin()
    found = crossings(box, bits).read_matches(q, u)
    assert found.good.mean() > 0.3
    off = np.abs(found.s - box.scores(q, u))[found.good]
    assert (off <= found.error[found.good]).all()
    assert np.median(found.error[found.good]) < 40 * 2.0**-bits
    assert off.max() > 0.003 * 2.0**-bits


def test_scores_beyond_the_limit_are_far_and_not_believed():
    box, (q, u) = Yes(), near_origin(200, size=0.6)
    found = crossings(box).read_matches(q, u)
    size = np.abs(box.scores(q, u) * (1.0 - q[:, 0]) / u[:, 0])  # at about where the answer changes
    assert (size > 2).sum() > 10
    assert not found.good[size > 2].any()
    assert not (found.good & found.far).any()


def test_a_change_that_no_head_makes_is_not_believed():
    """One and two copies may fit a score by chance; a third, which must change at a place, does not."""

    class Another(Yes):
        def __call__(self, X):
            t = self.attended(X)
            return (t[:, 0] + 0.5 * (X.shape[1] == 4)) > 1.0

    q, u = near_origin()
    assert crossings().read_matches(q, u).good.any()
    assert not crossings(Another()).read_matches(q, u).good.any()


def test_the_third_copy_changes_where_the_score_says():
    """Within a hundredth of the place: `c sigma(c s + log 3) = sigma(s + log 2)`."""
    ruler = crossings()
    s = np.array([-0.4, 0.0, 0.4])
    low, high = np.full(3, 0.5), np.ones(3)
    for _ in range(60):
        middle = (low + high) / 2
        below = middle * expit(middle * s + np.log(3)) < expit(s + np.log(2))
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    two = np.full(3, 5.0)
    for times, ok in ((0.995, True), (1.005, True), (0.985, False), (1.015, False)):
        place = two * low * times
        ruler.read_yes = lambda q, u, length, copies, place=place: length > place
        here = np.zeros(3, bool)
        np.testing.assert_array_equal(ruler.check_third_copy(None, None, here, two, s), ok)


def test_probes_lead_to_the_other_side():
    ruler, (q, u) = crossings(), near_origin()
    here, turn, expected = ruler.find_direction(q, u)
    assert not here.any()
    assert ((turn * u[:, 0]) > 0).all()
    np.testing.assert_allclose(expected, 1 / np.abs(u[:, 0]))
    beyond = q + 3 * Yes.normal
    here, turn, _ = ruler.find_direction(beyond, u)
    assert here.all()
    assert ((turn * u[:, 0]) < 0).all()


def test_rungs_are_no_longer_than_half_of_what_can_be_sent():
    ruler, (q, u) = crossings(max_norm=8.0), near_origin()
    longest = ruler.longest(q, u)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1) + 2 * longest * np.linalg.norm(u, axis=1), ruler.oracle.reach)
    here, turn, expected = ruler.find_direction(q, u)
    low, high, found = ruler.find_rung(q, turn[:, None] * u, here, expected)
    assert (high <= longest * (1 + 1e-12)).all()
    assert (low < high)[found].all()
    change = (1.0 - q[:, 0]) / np.abs(u[:, 0])  # at least, since the last token holds the output back
    assert (high[found] >= change[found]).all()
    assert found.any()
    assert not found.all()


def test_blur_is_of_rounding_and_of_flicker():
    ruler = crossings()
    q, u = np.full((1, D), 1.5), np.full((1, D), 0.25)
    assert ruler.blur(q, u, 8.0)[0] == pytest.approx(4 * 2.0**-53 * (6 + 8))
    ruler.flicker = 1e-3
    assert ruler.blur(q, u, 8.0)[0] == pytest.approx(4e-3 * 8, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_flicker_shows_noise_before_the_sign(noise):
    class Noisy(Yes):
        def __call__(self, X):
            return self.attended(X)[:, 0] + noise * self.rng.uniform(-1, 1, len(X)) > 1.0

    ruler, (q, u) = crossings(Noisy()), near_origin(20)
    ruler.find_flicker(q, u)
    if noise:
        assert 1e-7 < ruler.flicker < 1e-3
    else:
        assert ruler.flicker == 0.0
    finer = ruler.with_bits(40)
    assert (finer.bits, finer.flicker, finer.side) == (40, ruler.flicker, ruler.side)


@pytest.mark.parametrize("side", [1, -1])
def test_flicker_on_one_side_is_flicker(side):
    """Answers that are wrong just before a change, or just after it."""

    class OneSided(Yes):
        def __call__(self, X):
            t = self.attended(X)[:, 0] - 1.0
            wrong = (np.abs(t) < 1e-4) & (np.sign(t) == side) & (X.shape[1] == 3) & (self.rng.random(len(X)) < 0.5)
            return (t > 0) ^ wrong

    ruler, (q, u) = crossings(OneSided()), near_origin(20)
    ruler.find_flicker(q, u)
    assert ruler.flicker > 1e-6


def test_partners_lead_to_the_other_side_too():
    u = near_origin()[1]
    f = crossings().partner(u)
    np.testing.assert_allclose(f @ Yes.normal / 0.2, 1.0, atol=0.8)
    assert 0.05 < np.std(f[:, 1:] / 0.2) < 0.3


def test_a_meter_of_signs_sees_along_the_normal():
    ruler = crossings()
    frame = orthonormal_frame(D, np.random.default_rng(0))
    signs = SignMatchingMeter(ruler.oracle, ruler, frame, frame, np.zeros(D), 1.0, 1.0)
    assert signs.axis is ruler.normal
    assert signs.likely(2.0) == 16.0
    assert signs.tuned(np.full(3, 1e9)) is signs


# Places.


def test_a_place_and_its_probes():
    place = Place(np.array([3.0, 0, 0, 0]), 4.0, 0.5)
    assert (place.length, place.works) == (5.0, False)
    q, u = place.probes(7, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(q - place.origin, axis=1), 4.0)
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 0.5)
    some = somewhere(D, 10.0, 0.75, 0.5, np.random.default_rng(0))
    assert some.length == pytest.approx(10.0)
    assert some.kappa / np.linalg.norm(some.origin) == pytest.approx(0.75)


def pilots(box=None, **given):
    box = box or Behind()
    oracle = Promising(D, box, roundoff=2.0**-53, **given)
    return PlacePilots(Ruler(oracle, Copies(), 1e-15, 2.0**-20, np.random.default_rng(0)))


def test_a_place_is_found_where_scores_are_typical():
    first = pilots().find_first()
    assert first.works
    assert first.length == pytest.approx(1.0, rel=1e-9)
    assert first.relative < 1e-6
    box, (q, u) = Behind(), first.probes(50, np.random.default_rng(9))
    assert 0.02 < np.sqrt(np.mean(box.scores(q, u) ** 2)) < 0.4


@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_a_place_is_looked_for_at_other_lengths(scale):
    """A network that is flat but for tokens of some size."""

    class Scaled(Behind):
        def __call__(self, X):
            return super().__call__(X / scale)

    found = pilots(Scaled()).find_first()
    best = pilots(Scaled()).find_best(found)
    assert best.works
    assert best.error <= found.error


def test_probes_grow_to_where_scores_are_typical():
    """From probes a thousand times too short, by factors of four at most."""
    looking = pilots()
    found = looking.find_length(1.0, 1e-3)
    assert 0.03 < found.rho < 1.0
    box, (q, u) = Behind(), found.probes(50, np.random.default_rng(9))
    assert np.sqrt(np.mean(box.scores(q, u) ** 2)) > 0.02


def test_the_best_place_is_not_looked_for_in_vain():
    """Strides end where scores do not get more certain."""
    looking = pilots()
    first = looking.find_first()
    before = looking.oracle.queries
    assert looking.find_best(first) is first  # it is good as it is
    assert looking.oracle.queries == before
    from dataclasses import replace

    noisy = replace(first, relative=1e-3, error=1e-30)  # no other place is as good
    looking.find_best(noisy)
    assert looking.oracle.queries - before < 400


def test_no_place_is_longer_than_can_be_sent():
    looking = pilots(max_norm=0.5)
    place = looking.find_best(looking.find_first())
    assert place.works
    assert max(np.linalg.norm(X, axis=2).max() for X in looking.oracle.asked) <= 0.5


def test_a_box_that_never_moves_is_said_to():
    with pytest.raises(gh.NotIdentifiable, match="does not depend on the attention weights"):
        pilots(lambda X: np.ones(len(X))).find_first()


def test_a_box_that_moves_otherwise_is_refused():
    with pytest.raises(gh.TargetMismatch, match="none at any length"):
        pilots(lambda X: np.sin(1e3 * X.sum(axis=(1, 2)))).find_first()


def test_several_heads_behind_a_network_are_refused_twice_apart():
    with pytest.raises(gh.TargetMismatch, match="several heads with a network behind them"):
        pilots(two_heads(4)).find_first()


@pytest.mark.parametrize(("times", "alive"), [(15.0, False), (17.0, True)])
def test_an_answer_that_changes_by_sixteen_times_the_noise_moves(times, alive):

    def box(X):
        half = len(X) // 2
        return np.r_[np.full(half, times * 1e-3), np.zeros(half)]

    looking = pilots(box)
    looking.ruler.noise = 1e-3
    q, u = probes(4)
    assert looking.check_alive(q, u) == alive
    assert looking.moved == alive
