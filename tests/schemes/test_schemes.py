"""Schemes on a meter that knows W: which scores they ask for, what they make of them, and bounds that hold."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._linalg import Frame, cone, orthonormal_frame
from glasshead._meters import Meter, Scores
from glasshead._schemes.columns import Columns, Measured, full, measured_matrix
from glasshead._schemes.low_rank import (
    at_once,
    low_rank,
    new_columns,
    outside_error,
    read_outside,
    read_seen,
    read_W,
    solved_or_nearest,
)

ROUNDED = 4 * np.finfo(float).eps  # of W: what scores of a known W are off by anyway, on any processor


class Known(Meter):
    """Scores of a W that is known, each off by `noise` with a sign that `spoil` chooses."""

    def __init__(self, W, noise=0.0, *, seed=0, spoil=None, drift=0.0, rounding=0.0, frame=None, budget=None):
        rng = np.random.default_rng((seed, 7))
        d = len(W)
        self.W, self.noise, self.spoil, self.asked = W, noise, spoil or (lambda t: np.sign(np.sin(1e6 * t))), []
        self.keys = frame or orthonormal_frame(d, rng)
        self.queries = orthonormal_frame(d, rng)
        self.shared, self.rounds, self.budget, self.tunings = drift, max(rounding, ROUNDED), budget, []

    @property
    def axis(self):
        return None

    @property
    def count(self):
        return sum(m * n for m, n in self.asked)

    def columns(self, B, A):
        if self.budget is not None and self.count + len(B) * A.shape[-2] > self.budget:
            raise gh.BudgetExceeded("enough", budget=self.budget, needed=1)
        self.asked.append((len(B), A.shape[-2]))
        truth = np.einsum("mnd,de,me->mn", np.broadcast_to(A, (len(B), *A.shape[-2:])), self.W, B)
        t = truth + self.noise * self.spoil(truth)
        return Scores(t, t - self.noise, t + self.noise, None, self.shared, lambda W_norm: self.rounds * W_norm)

    def tuned(self, scores, noise=0.0):
        self.tunings.append(len(scores))
        return self

    def likely(self, noise):
        return noise


def of_spectrum(d, sizes, seed=0):
    rng = np.random.default_rng((seed, d, len(sizes)))
    left, right = (np.linalg.qr(rng.standard_normal((d, len(sizes))))[0] for _ in range(2))
    return left * np.asarray(sizes) @ right.T


def mildly(t):
    """Errors a tenth as large as they may be, as rounding is."""
    return 0.1 * np.sin(1e9 * t)


SIGNS = {"mildly": mildly, "by value": None, "up": lambda t: np.ones_like(t), "to zero": lambda t: -np.sign(t)}


# All of W.


@pytest.mark.parametrize("spoil", SIGNS)
@pytest.mark.parametrize("lean", [None, 0.5])
def test_all_scores_give_W_within_the_bound(spoil, lean):
    rng, d = np.random.default_rng(0), 9
    W = rng.standard_normal((d, d))
    frame = None if lean is None else cone(np.eye(d)[0], rng, lean)
    meter = Known(W, 1e-3, spoil=SIGNS[spoil], frame=frame)
    found = full(meter)
    off = np.linalg.norm(found.W - W)
    assert off <= found.bound <= 1e-3 * d * meter.keys.gain * (1 + 1e-9)
    assert off > (0.05 if spoil == "mildly" else 0.3) * found.bound
    assert (found.rank, meter.count) == (d, d * d)
    assert meter.asked[0] == (4, 9)  # a few first, to settle the scale
    assert meter.tunings == [4]


def test_small_columns_settle_no_scale():
    meter = Known(np.eye(7))
    full(meter)
    assert meter.tunings == []


def test_rounding_and_drift_are_in_the_bound():
    """Rounding is that of every score, for a W of the size seen; a drift is one vector added to every column."""
    W, d = np.random.default_rng(0).standard_normal((8, 8)), 8
    size = np.linalg.norm(W)
    assert full(Known(W, rounding=1e-6)).bound == pytest.approx(1e-6 * size * 8)
    meter = Known(W, drift=1e-3)
    off = np.outer(np.ones(d) / np.sqrt(d), np.full(d, 1e-3))  # the same error of W b for every b of the frame
    assert full(meter).bound >= np.linalg.norm(off.T @ meter.queries.inverse.T) * (1 - 1e-9)
    assert full(meter).bound == pytest.approx(1e-3 * np.sqrt(d))
    assert full(Known(W, drift=np.inf)).bound == np.inf


def test_the_columns_so_far_say_how_large_W_is():
    W = np.random.default_rng(0).standard_normal((64, 64))
    columns = Columns(Known(W))
    assert columns.W_norm == 0.0
    columns.read(16)
    assert columns.W_norm == pytest.approx(np.linalg.norm(W), rel=0.1)
    columns.read(48)
    assert columns.W_norm == pytest.approx(np.linalg.norm(W))


def test_the_error_of_columns():
    columns = Columns(Known(np.eye(8), 1e-3, drift=1e-2, rounding=1e-4))
    columns.read(4)
    rounding = np.sqrt(8) * np.sqrt(4) * 1e-4 * columns.W_norm
    assert columns.error == pytest.approx(1e-3 * np.sqrt(32) + 1e-2 * 2 + rounding)


def test_columns_begun_are_completed():
    W = np.random.default_rng(0).standard_normal((6, 6))
    columns = Columns(Known(W, rounding=1e-4, drift=0.5))
    begun = columns.read_first(2, 3)
    assert (begun.t.shape, len(columns)) == ((3, 2), 0)
    columns.read(1, begun)
    assert columns.meter.asked == [(3, 2), (3, 4), (1, 6)]
    np.testing.assert_allclose(columns.Y, W @ columns.meter.queries.vectors[:4].T, atol=1e-12)
    np.testing.assert_allclose(columns.drift, 0.5)
    assert [count for _, count in columns.roundings] == [3, 1]


def test_a_basis_is_orthonormal_to_the_last_digit():
    """Even of columns that are nearly alike, whose remainder has few digits."""
    rng = np.random.default_rng(0)
    W = np.outer(rng.standard_normal(20), rng.standard_normal(20)) + 1e-9 * rng.standard_normal((20, 20))
    columns = Columns(Known(W))
    columns.read(5)
    assert columns.keys_on_basis.shape == (20, 5)
    columns.read(5)
    assert columns.keys_on_basis.shape == (20, 10)
    np.testing.assert_allclose(columns._basis.T @ columns._basis, np.eye(10), atol=1e-13)
    np.testing.assert_allclose(columns.keys_on_basis, columns.meter.keys.vectors @ columns._basis, atol=1e-13)


def test_the_span_goes_down_to_the_error():
    columns = Columns(Known(of_spectrum(12, [1.0, 0.1, 1e-4]), 1e-3))
    columns.read(12)
    U, s = columns.span()
    assert len(s) == 2
    assert U.shape == (12, 2)


def test_what_cannot_be_told_from_zero_is_zero():
    """And the bound says how large it may be."""
    W = np.full((3, 3), 0.1)
    found = measured_matrix(W, 0.31, 3)
    assert (found.rank, found.bound) == (0, pytest.approx(0.61))
    assert not found.W.any()
    found = measured_matrix(W, 0.29, 1)
    assert (found.rank, found.bound) == (1, 0.29)
    assert found.W is W


def test_factors_where_they_are_the_smaller_description():
    left, right = np.ones((8, 3)), np.ones((3, 8))
    small = Measured(left, right, 3, 0.0).head(np.ones(8), None, 0.0)
    assert set(small.score_tensors()) == {"Q", "K"}
    large = Measured(np.ones((6, 3)), np.ones((3, 6)), 3, 0.0).head(np.ones(6), np.ones(6), 0.5)
    assert set(large.score_tensors()) == {"W", "key_bias"}
    np.testing.assert_allclose(small.W, left @ right)
    assert not small.has_key_bias
    biased = Measured(left, right, 3, 0.0).head(np.ones(8), np.ones(8), 0.5)
    assert set(biased.score_tensors()) == {"Q", "K", "key_bias"}
    assert (biased.bias, Measured(left, right, 3, 0.0).confidence) == (0.5, 1.0)


@pytest.mark.parametrize("run", [full, lambda meter: low_rank(meter, np.random.default_rng(0))])
def test_a_budget_that_ends_says_what_is_known_and_what_is_left(run):
    W = np.random.default_rng(0).standard_normal((16, 16))
    meter = Known(W, budget=150)
    with pytest.raises(gh.BudgetExceeded) as caught:
        run(meter)
    known, columns = caught.value.known, len(caught.value.known["b"])
    np.testing.assert_allclose(known["W_b"], known["b"] @ W.T, atol=1e-12)
    assert columns > 0
    rest = 16 - columns
    assert caught.value.needed == (rest * 16 if run is full else max(1, columns * rest))


# Low rank.


@pytest.mark.parametrize("sizes", [[1.0] * 5, [1.0, 1e-1, 1e-2, 1e-3, 1e-4], [1.0, 1e-2, 1e-4, 1e-6, 1e-8]])
def test_a_rank_is_found_without_a_score_in_vain(sizes):
    """Singular values down to a hundred times the noise are told from it at once, not by looking outside again.

    40 scores for each of five columns, six for the one that is not new, eight looks outside, five for each of the rest.
    """
    d, r = 40, len(sizes)
    meter = Known(of_spectrum(d, sizes), 1e-12, spoil=mildly)
    found = low_rank(meter, np.random.default_rng(0))
    assert found.rank == r
    least = r * d + (d - r) * r
    assert meter.count <= least + (r + 1) + 8
    assert np.linalg.norm(found.W - meter.W) <= found.bound
    assert found.confidence == 0.999


@pytest.mark.parametrize("spoil", SIGNS)
@pytest.mark.parametrize("rank", [None, 3])
def test_bounds_of_low_rank_hold(spoil, rank):
    for seed in range(10):
        meter = Known(of_spectrum(24, [1.0, 0.5, 0.3], seed), 1e-7, seed=seed, spoil=SIGNS[spoil])
        found = low_rank(meter, np.random.default_rng(seed), rank=rank)
        assert found.rank == 3
        assert np.linalg.norm(found.W - meter.W) <= found.bound * (1 + 1e-9)
        assert found.bound <= 1e-3
        assert rank is None or found.confidence == 1.0


@pytest.mark.parametrize("faint", [1e-2, 1e-4])
def test_what_is_faint_outside_of_the_span_is_found_or_bounded(faint):
    """A part that no column shows much of, larger and smaller than the noise."""
    for seed in range(20):
        W = of_spectrum(20, [1.0, 1.0, faint], seed)
        meter = Known(W, 1e-3, seed=seed)
        found = low_rank(meter, np.random.default_rng(seed))
        assert np.linalg.norm(found.W - W) <= found.bound * (1 + 1e-9)


def test_looks_outside_bound_what_hides_there():
    """For a part of rank one, the hardest, as often as the stated confidence says; and not by far too much."""
    d, ratios = 16, []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        R = np.outer(rng.standard_normal(d), rng.standard_normal(d))
        columns = Columns(Known(R))
        _, _, bound = read_outside(columns, np.zeros((d, 0)), rng, np.inf)
        ratios.append(bound / np.linalg.norm(R))
    assert sum(ratio < 1 for ratio in ratios) <= 3
    assert np.median(ratios) < 10


def test_a_look_outside_ends_at_the_first_that_sees_something():
    meter = Known(np.eye(8), 1e-3)
    seen, noise, bound = read_outside(Columns(meter), np.eye(8)[:, :3], np.random.default_rng(0))
    assert seen > noise
    assert bound == np.inf
    assert meter.count == 1
    quiet = Known(np.diag([1.0, 1, 1, 0, 0, 0, 0, 0]), 1e-3, spoil=SIGNS["up"])
    rms, noise, bound = read_outside(Columns(quiet), np.eye(8)[:, :3], np.random.default_rng(0))
    assert quiet.count == 8
    assert rms == pytest.approx(1e-3, rel=0.01)
    assert noise == pytest.approx(1e-3)
    assert bound == pytest.approx(7 * np.sqrt(8 * 5) * 2e-3, rel=0.01)


def test_a_look_counts_drift_and_rounding():
    meter = Known(np.zeros((4, 4)), 1e-3, drift=0.25)
    assert read_outside(Columns(meter), np.zeros((4, 0)), np.random.default_rng(0))[1] == pytest.approx(0.251)
    seen, error = read_seen(Known(np.eye(4), rounding=0.5), 3.0, np.eye(4)[:1], np.eye(4)[None, :1], np.ones((1, 1)))
    assert (seen[0], error[0]) == (1.0, 1.5)


@pytest.mark.parametrize(("size", "new"), [(30.0, 1), (0.03, 0)])
def test_new_columns_are_told_from_noise(size, new):
    """One column of three leaves the span of two by that many times the noise of a score."""
    noise = 1e-6
    rng = np.random.default_rng(0)
    W = of_spectrum(20, [1.0, 1.0])
    meter = Known(W, noise, spoil=mildly)
    outside = rng.standard_normal(20)
    u = np.linalg.svd(W)[0][:, :2]
    outside -= u @ (u.T @ outside)
    meter.W = W + size * noise * 20 * np.outer(outside / np.linalg.norm(outside), meter.queries.vectors[2])
    columns = Columns(meter)
    columns.read(2)
    begun = columns.read_first(3, 1)
    values, level = new_columns(columns, begun)
    assert len(values) == 1
    assert (values[0] > level) == new
    assert 0.1 * noise < level < 100 * noise


def test_how_much_leaves_the_span_is_seen_at_its_size():
    """Combinations of keys that see nothing of the span have length 1."""
    W, extra = of_spectrum(30, [1.0, 2.0, 3.0]), 0.01
    meter = Known(W)
    rng = np.random.default_rng(0)
    e = rng.standard_normal((30, 4))
    meter.W = W + extra * e @ meter.queries.vectors[3:7]
    columns = Columns(meter)
    columns.read(3)
    values, _ = new_columns(columns, columns.read_first(7, 4))
    assert len(values) == 4
    assert np.sqrt(np.mean(values**2)) == pytest.approx(extra * np.sqrt(4), rel=0.5)


def test_keys_that_do_not_tell_columns_apart_are_no_error():
    A, B = np.zeros((2, 2)), np.ones((2, 3))
    np.testing.assert_allclose(solved_or_nearest(A, B), 0.0)
    np.testing.assert_allclose(solved_or_nearest(2 * np.eye(2), B), 0.5)


def test_scales_are_settled_while_columns_are_few():
    meter = Known(of_spectrum(200, np.ones(40)))
    low_rank(meter, np.random.default_rng(0))
    first = [count for count in meter.tunings if count <= 40][:4]
    assert first == [4, 8, 16, 32]
    small = Known(of_spectrum(7, [1.0]))
    low_rank(small, np.random.default_rng(0), rank=1)
    assert small.tunings == [1]  # before the columns inside of the span, but not by one column of seven scores


def test_how_many_columns_are_begun_at_once():
    class Rounds(Known):
        in_rounds = True

    meter, rounds = Known(np.eye(600)), Rounds(np.eye(600))
    assert [at_once(known, meter) for known in (0, 63, 64, 128)] == [1, 1, 2, 3]
    assert [at_once(known, rounds) for known in (0, 3, 10, 1000)] == [4, 4, 11, 100]
    assert at_once(50, Rounds(np.eye(12))) == 2
    assert at_once(50, Rounds(np.eye(3))) == 1


def test_an_accuracy_ends_it_early():
    W = of_spectrum(40, [1.0, 1.0, 1e-6, 1e-7, 1e-8])
    exact, early = Known(W, 1e-13), Known(W, 1e-13)
    assert low_rank(exact, np.random.default_rng(0)).rank == 5
    found = low_rank(early, np.random.default_rng(0), accuracy=0.1)
    assert found.rank == 2
    assert early.count < 0.6 * exact.count
    assert np.linalg.norm(found.W - W) <= found.bound <= 0.1


def test_full_rank_is_not_looked_for_in_vain():
    """Where stopping would save less than asking whether to stop, all columns are read."""
    meter = Known(np.random.default_rng(0).standard_normal((12, 12)))
    found = low_rank(meter, np.random.default_rng(0))
    assert (found.rank, meter.count) == (12, 144)
    assert found.confidence == 1.0


def test_full_rank_costs_hardly_more_in_rounds():
    """Columns are begun many at once there, and asking whether to stop costs more."""

    class Rounds(Known):
        in_rounds = True

    meter = Rounds(np.random.default_rng(0).standard_normal((24, 24)))
    assert low_rank(meter, np.random.default_rng(0)).rank == 24
    assert meter.count == 24 * 24
    assert len(meter.asked) <= 14


def test_a_W_of_zero_is_bounded():
    meter = Known(np.zeros((10, 10)), 1e-4)
    found = low_rank(meter, np.random.default_rng(0))
    assert found.rank == 0
    assert not found.W.any()
    assert 1e-3 < found.bound < 0.1
    assert meter.count == 1 + 8


def test_a_rank_that_the_columns_do_not_show_is_looked_for():
    """Three columns of a W of rank three, one part of which they hardly see: looks outside bound what is left."""
    d = 20
    meter = Known(np.zeros((d, d)), 1e-6)
    B = meter.queries.vectors
    meter.W = np.eye(d)[:, :2] @ B[:2] + np.outer(np.eye(d)[2], B[10])
    found = low_rank(meter, np.random.default_rng(0), rank=3)
    assert found.rank == 2
    assert np.linalg.norm(found.W - meter.W) == pytest.approx(1.0, rel=1e-3)
    assert found.bound >= 1.0
    assert found.confidence == 0.999


def test_columns_that_are_combinations_leave_the_span_by_their_errors():
    """`others = measured @ C`: each is off by what C makes of the errors of the measured ones."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        true = rng.standard_normal((5, 3))
        C = rng.standard_normal((3, 4))
        E = rng.standard_normal((6, 3))
        error = 1e-3
        E *= error / np.linalg.norm(E)
        bound = outside_error(true, true @ C, error, 0.0)
        assert np.linalg.norm(E @ C) <= bound
        assert bound <= error * np.linalg.norm(C, 2) * 1.1
        inner = outside_error(true, true @ C, error, 1e-2)
        least = np.linalg.svd(true, compute_uv=False)[-1]
        assert inner - bound == pytest.approx(error * 1e-2 / least / (1 - error / least))
    assert outside_error(1e-4 * np.eye(3), np.eye(3), 1e-3, 0.0) == np.inf


@pytest.mark.parametrize("stray", [False, True])
def test_keys_that_reach_outside_see_what_is_there(stray):
    """Then what is outside is missing, and moves the scores inside as well."""
    d = 16

    class Leaning(Known):
        def frame(self, Q, rng, exact=True):
            V = Q.T + (np.ones(d) / np.sqrt(d) if stray else 0.0)
            back = np.linalg.pinv(V @ Q)
            return Frame(V, Q @ back, float(np.linalg.norm(back, 2)))

    rng = np.random.default_rng(0)
    W = of_spectrum(d, [1.0, 1.0])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        faint = 1e-3 * np.outer(rng.standard_normal(d), rng.standard_normal(d)) / d
        meter = Leaning(W + faint, 1e-9, seed=seed)
        found = low_rank(meter, rng, accuracy=10.0)
        assert np.linalg.norm(found.W - meter.W) <= found.bound


def test_a_W_known_to_have_full_rank_is_read_whole():
    W = np.random.default_rng(0).standard_normal((5, 5))
    assert read_W(Known(W), np.random.default_rng(0), rank=5).rank == 5
    assert read_W(Known(W), np.random.default_rng(0), rank=2).rank == 2
