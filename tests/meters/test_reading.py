"""Readings: intervals that hold against whoever answers within the promise, and are no wider than he can make them."""

import numpy as np
import pytest
from scipy.special import expit

from glasshead._meters import reading
from glasshead._meters.meter import AlwaysSaturated, find_coarse_scale, find_logit_scale
from glasshead._meters.reading import Values, logit, outputs_error, read_logits

from .promises import Promising


def rel(bound, reached):
    """A bound that holds, and is reached."""
    assert reached <= bound * (1 + 1e-9)
    assert reached >= bound * (1 - 1e-6)


# The promise.


@pytest.mark.parametrize("rtol", [0.0, 0.2])
def test_the_truth_may_be_larger_than_the_answer(rtol):
    """A truth T is answered by `T - tolerance - rtol T` at worst: seen from the answer that is further away."""
    oracle = Promising(3, tolerance=0.5, rtol=rtol)
    truth = 7.0
    answer = truth - 0.5 - rtol * truth
    rel(Values(np.ones(3), 0.0, 1.0).promise(oracle, answer), truth - answer)


def test_a_readout_adds_up_the_errors_of_all_outputs():
    values = Values(np.ones(3), 0.0, 1.0, readout=np.array([1.0, -2.0]))
    answers = np.array([[3.0, 5.0]])
    assert values.of(answers) == -7.0
    assert values.size(answers) == 13.0
    rel(values.promise(Promising(3, tolerance=0.1), 0.0), 0.3)
    assert Values(np.ones(3), 0.0, 1.0).size(np.array([-4.0])) == 4.0


@pytest.mark.parametrize("rtol", [0.0, 0.1])
def test_errors_of_bias_and_v_are_what_an_adversary_can_reach(rtol):
    v, bias, step = np.array([4.0, -1.0]), 2.0, 8.0
    oracle = Promising(2, tolerance=0.1, rtol=rtol)
    lie = lambda truth, sign: truth + sign * (0.1 + rtol * abs(truth))  # noqa: E731
    read_bias = lie(bias, -1)
    read_v = np.array([lie(bias + 32.0, 1) - read_bias, -8.0]) / step
    values = Values(read_v, read_bias, step)
    rel(values.bias_error(oracle), bias - read_bias)
    error = read_v[0] - v[0]
    assert error * (1 - 1e-9) <= values.entry_error(oracle) <= error * (1 + 3 * rtol) * (1 + 1e-9)


def test_a_bias_at_another_origin_counts():
    oracle = Promising(2, tolerance=0.1)
    plain, moved = Values(np.ones(2), 1.0, 1.0), Values(np.ones(2), 1.0, 1.0, ground=5.0, unsure=0.25)
    assert (plain.backdrop, moved.backdrop) == (1.0, 5.0)
    assert moved.bias_error(oracle) == pytest.approx(plain.bias_error(oracle) + 0.25)
    assert moved.entry_error(oracle) == pytest.approx(plain.entry_error(oracle) + 0.25)


def in_float32(v, bias, X):
    """One-row answers of a float32 box."""
    return (X.astype(np.float32) @ v.astype(np.float32) + np.float32(bias)).astype(np.float64)


@pytest.mark.parametrize("bias", [0.0, 3.0, 1e6])
def test_rounding_of_one_row_answers_is_bounded_and_not_by_far(bias):
    rng, d, step, u = np.random.default_rng(0), 64, 256.0, 2.0**-24
    worst = 0.0
    for _ in range(50):
        v = rng.standard_normal(d).astype(np.float32).astype(float)
        read_bias = in_float32(v, bias, np.zeros((1, d)))[0]
        read = (in_float32(v, bias, step * np.eye(d)) - read_bias) / step
        values, oracle = Values(read, read_bias, step), Promising(d, roundoff=u)
        bound = values.entry_error(oracle)
        assert np.abs(read - v).max() <= bound
        worst = max(worst, np.abs(read - v).max() / bound)
        assert values.bias_error(oracle) == pytest.approx(2 * u * abs(bias))
    assert worst > (0.1 if bias == 1e6 else -1.0)
    assert bound <= (d + 8) * u * np.abs(v).max() + 5 * u * bias / step


def test_v_read_along_itself_is_bounded_in_its_parts():
    """Across v by the root of d entries, along v by one answer; both are in the error of an entry."""
    d, step = 9, 16.0
    v = np.full(d, 2.0)
    oracle = Promising(d, tolerance=0.5)
    plain, along = Values(v, 0.0, step), Values(v, 0.0, step, along=True)
    rel(along.along_error(oracle), 0.5)
    rel(along.across_error(oracle), 0.5 * 3)
    rel(plain.entry_error(oracle), 1.0 / step)
    rel(along.entry_error(oracle), np.hypot(1.0, 1.0 / 3) / step)
    relative = Promising(d, rtol=0.1)
    far = Values(v * [-1, 1, 1, 1, 1, 1, 1, 1, 1], 1.0, step, along=True)
    assert far.along_error(relative) == pytest.approx(0.1 / 0.9 * (6 * step + 1))
    assert far.across_error(relative) == pytest.approx(0.1 / 0.9 * 3 * (2 * step + 1))


def test_v_moves_with_the_bias_that_it_was_read_against():
    """`step v = P (answers - bias) + u (answer along u - bias)`, with everything else exact."""
    rng = np.random.default_rng(0)
    v, step, off = rng.standard_normal(5), 8.0, 1e-6
    u = v / np.linalg.norm(v)
    P = np.eye(5) - np.outer(u, u)
    read = (P @ (step * v - off) + u * (step * v @ u - off)) / step
    np.testing.assert_allclose(read - v, off * Values(v, 0.0, step, along=True).per_bias, atol=1e-14)


def test_rounding_of_all_of_v_counts_its_rows_and_one_along():
    oracle = Promising(8, roundoff=2.0**-24)
    one = Values(np.eye(8)[0] * 3, 0.5, 4.0, along=True)
    each = 2.0**-24 * (16 * 3 * 4.0 + 2 * 0.5) / 4.0
    assert one.rounding(oracle) == pytest.approx(3 * each)


def test_outputs_are_bounded_by_the_largest():
    v, bias = np.array([[1.0, -4.0], [2.0, 3.0]]), np.array([0.5, -6.0])
    of_v, of_bias = outputs_error(Promising(2, tolerance=0.1), v, bias, 2.0)
    assert of_bias == pytest.approx(0.1)
    assert of_v == pytest.approx(2 * 0.2 / 2.0)
    of_v, of_bias = outputs_error(Promising(2, rtol=0.01), v, bias, 2.0)
    assert of_bias == pytest.approx(0.06 / 0.99)


# Logits.


@pytest.mark.parametrize("s", [-3.0, -0.5, 0.0, 1.0, 4.0])
def test_the_interval_of_a_logit_is_what_an_adversary_can_make_of_it(s):
    swing, answer, spread = 2.0, 0.01, 0.02
    ends = []
    for e in (-answer, 0.0, answer):
        for f in (-spread, 0.0, spread):
            # What is read is off by e, and the swing is really by f another.
            true_swing = swing + f
            signal = expit(s) * true_swing + e
            (read, lo, hi), impossible = logit(*(np.array([x]) for x in (signal, swing, answer, spread)))
            assert not impossible[0]
            assert lo[0] <= s <= hi[0]
            assert lo[0] <= read[0] <= hi[0]
            ends.append(min(s - lo[0], hi[0] - s) / (hi[0] - lo[0]))
    assert min(ends) < 0.02  # so that a smaller interval would have been noticed


def test_what_no_weight_explains_is_impossible():
    answer, spread = np.full(4, 0.1), np.full(4, 0.2)
    signal, swing = np.array([-0.11, -0.09, 1.31, 1.29]), np.ones(4)
    assert list(logit(signal, swing, answer, spread)[1]) == [True, False, True, False]


def test_a_logit_beyond_all_weights_ends_where_its_interval_does():
    """The signal may be 0, so nothing bounds the logit from below: the estimate is the end that is known."""
    (s, lo, hi), _ = logit(np.array([0.0, 1.0]), np.ones(2), np.full(2, 1e-3), np.zeros(2))
    assert (lo[0], hi[1]) == (-np.inf, np.inf)
    assert s[0] == hi[0] == pytest.approx(np.log(1e-3 / 0.999))
    assert s[1] == lo[1] == pytest.approx(-s[0])
    (s, lo, hi), _ = logit(np.array([0.0, 1.0]), np.ones(2), np.zeros(2), np.zeros(2))
    assert hi[0] == -reading.LARGEST_LOGIT
    assert lo[1] == reading.LARGEST_LOGIT
    assert list(s) == [-reading.LARGEST_LOGIT, reading.LARGEST_LOGIT]
    (s, lo, hi), _ = logit(np.array([0.0, 1.0]), np.ones(2), np.full(2, 2.0), np.zeros(2))
    assert list(s) == [-reading.LARGEST_LOGIT, reading.LARGEST_LOGIT]  # where nothing is known at either end


def interval(s, below, above):
    return tuple(np.array([x]) for x in (s, s - below, s + above))


def test_what_is_beyond_a_limit_for_certain():
    inf = np.inf
    assert reading.beyond(interval(7.0, 0.5, 0.5), 6.0)[0]
    assert reading.beyond(interval(-7.0, 0.5, 0.5), 6.0)[0]
    assert not reading.beyond(interval(6.2, 0.5, 0.5), 6.0)[0]  # it may be less
    assert reading.beyond(interval(2.0, 1.0, inf), 6.0)[0]  # open, and not zero
    assert reading.beyond(interval(-2.0, inf, 1.0), 6.0)[0]
    assert not reading.beyond(interval(2.0, 3.0, inf), 6.0)[0]  # open, but it may be zero
    assert not reading.beyond(interval(2.0, inf, inf), 6.0)[0]
    assert not reading.beyond(interval(2.0, 1.0, 1.0), 6.0)[0]


def test_what_stands_out_of_its_error():
    assert reading.stands_out(interval(1.0, 0.2, 0.24))[0]
    assert not reading.stands_out(interval(1.0, 0.2, 0.26))[0]
    assert not reading.stands_out(interval(-1.0, 0.26, 0.2))[0]
    assert not reading.stands_out(interval(1.0, np.inf, 0.1))[0]
    assert not reading.stands_out(interval(1.0, 0.1, np.inf))[0]


# Logits that are asked again.


class Head:
    """Logits of one head for keys `(m, n, 1)` and queries `(m, 1)`, read within `blur` of the weight."""

    def __init__(self, slope=1.0, blur=1e-3, offset=0.0):
        self.slope, self.blur, self.offset, self.asked = slope, blur, offset, []

    def __call__(self, q, keys):
        self.asked.append(keys[..., 0].copy())
        s = self.slope * q[:, None, 0] * keys[..., 0]
        weight = expit(s) + self.offset
        with np.errstate(divide="ignore"):
            lo, hi = (
                np.log(np.clip(weight + e, 0, 1)) - np.log(np.clip(1 - weight - e, 0, 1))
                for e in (-self.blur, self.blur)
            )
        return s.copy(), lo, hi


def refuse(q, key):
    raise AlwaysSaturated(float(q[0]), float(key[0]))


def test_saturated_logits_are_asked_again_shorter_and_scaled_back():
    q, keys = np.ones((1, 1)), np.array([[[1.0], [-2.0], [40.0]]])
    head = Head()
    (s, lo, hi), shrunk = read_logits(head, refuse, q, keys, 6.0, guaranteed=False)
    np.testing.assert_allclose(s[0], [1.0, -2.0, 40.0])
    assert (lo[0] <= s[0]).all()
    assert (s[0] <= hi[0]).all()
    assert list(shrunk[0, :2]) == [1.0, 1.0]
    assert shrunk[0, 2] == pytest.approx(1.5 / 40.0)  # to a logit of 1.5, where it is read best
    assert [len(np.ravel(asked)) for asked in head.asked] == [3, 1]
    assert (hi - lo)[0, 2] < 0.5


def test_keys_of_negative_logits_are_shortened_as_much():
    head = Head()
    (s, _, _), shrunk = read_logits(head, refuse, np.ones((1, 1)), np.array([[[-40.0]]]), 6.0, guaranteed=False)
    assert s[0, 0] == pytest.approx(-40.0)
    assert shrunk[0, 0] == pytest.approx(1.5 / 40.0)


def test_a_key_is_at_least_halved():
    """An open interval around a small logit may need a shorter key as well."""
    lengths = []

    def read(q, keys):
        lengths.append(float(keys[0, 0, 0]))
        s = np.full(keys.shape[:2], 1.0)
        return s, s - 0.1, s + (np.inf if len(lengths) < 3 else 0.1)

    read_logits(read, refuse, np.ones((1, 1)), np.ones((1, 1, 1)), 6.0, guaranteed=False)
    assert lengths == [1.0, 0.5, 0.25]


def test_what_saturates_at_any_length_is_refused():
    """In rounds of at most 20, each at a fraction of the length."""

    def always(q, keys):
        big = np.full(keys.shape[:2], 50.0)
        return big, big - 1, big + 1

    with pytest.raises(AlwaysSaturated, match=r"2\.0, 7\.0"):
        read_logits(always, refuse, np.array([[2.0]]), np.array([[[7.0]]]), 6.0, guaranteed=False)


def test_guaranteed_intervals_are_met_with_each_other():
    """A logit lies in every interval that was read for it; which reading it came from is said."""
    first = iter([(10.0, 9.9, 10.1), (0.7, 0.5, 0.9)])

    def read(q, keys):
        s, lo, hi = next(first)
        return tuple(np.full(keys.shape[:2], end) for end in (s, lo, hi))

    (_, lo, hi), shrunk = read_logits(read, refuse, np.ones((1, 1)), np.ones((1, 1, 1)), 6.0, guaranteed=True)
    # The second was read with the key at 0.15: 4.7 from 3.3 to 6; no logit is in both, and the nearer end counts.
    assert lo[0, 0] == pytest.approx(9.9)
    assert hi[0, 0] == pytest.approx(6.0)
    assert shrunk[0, 0] == 0.0


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize(("times", "again"), [(7.0, False), (14.0, True)])
def test_a_logit_much_less_certain_than_its_neighbours_is_asked_again(guaranteed, times, again):
    """From 2.5 sqrt(16) = 10 times the median width on, where it is larger than 3: it would spoil its column."""
    asked = []

    def read(q, keys):
        asked.append(keys.shape[:2])
        s = keys[..., 0].copy()
        half = np.where(np.abs(s) > 3, times, 1.0) * 0.01
        return s, s - half, s + half

    keys = np.ones((1, 16, 1))
    keys[0, 5] = 4.0
    (s, lo, hi), _ = read_logits(read, refuse, np.ones((1, 1)), keys, 6.0, guaranteed)
    assert asked[1:] == ([(1, 1)] if guaranteed and again else [])
    np.testing.assert_allclose(s[0], keys[0, :, 0])
    if guaranteed and again:
        assert hi[0, 5] - lo[0, 5] == pytest.approx(0.02 * 4 / 1.5)


def test_small_logits_are_not_asked_again_however_uncertain():
    def read(q, keys):
        assert len(q) == 2  # once
        s = keys[..., 0].copy()
        half = np.where(s > 2, 1.0, 1e-3)
        return s, s - half, s + half

    keys = np.ones((2, 16, 1))
    keys[0, 0] = 2.5
    read_logits(read, refuse, np.ones((2, 1)), keys, 6.0, guaranteed=True)


def test_many_neighbours_forgive_more():
    """With 64 of them from 2.5 * 8 = 20 times the median width on."""
    asked = []

    def read(q, keys):
        asked.append(len(q))
        s = keys[..., 0].copy()
        half = np.where(np.abs(s) > 3, 16.0, 1.0) * 0.01
        return s, s - half, s + half

    keys = np.ones((1, 64, 1))
    keys[0, 5] = 4.0
    read_logits(read, refuse, np.ones((1, 1)), keys, 6.0, guaranteed=True)
    assert asked == [1]


# Scales.


def pilot(size, blur=1e-6, asked=None, seed=0):
    """Pilot logits of scores of that rms, at a scale."""
    rng = np.random.default_rng(seed)

    def read(scale, count):
        if asked is not None:
            asked.append((scale, count))
        s = scale * size * rng.choice([-1.0, 1.0], (1, count))
        weight = expit(s)
        with np.errstate(divide="ignore"):
            lo, hi = (np.log(np.clip(weight + e, 0, 1)) - np.log(np.clip(1 - weight - e, 0, 1)) for e in (-blur, blur))
        return s, lo, hi

    return read


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("target", [0.01, 0.5, 1.0])
def test_scales_are_found_from_afar(size, target):
    asked = []
    scale = find_logit_scale(pilot(size, asked=asked), 1.0, 1e12, 2.0**-53, 6.5, target)
    assert scale * size == pytest.approx(target, rel=1e-6)
    assert len(asked) <= 8
    assert sum(count for _, count in asked) <= 18
    assert asked[-1][0] * size == pytest.approx(target, rel=1e-6)  # the fine look is at the coarse scale found


def test_a_scale_is_capped():
    assert find_logit_scale(pilot(1e-3), 1.0, 50.0, 2.0**-53, 6.5) == 50.0
    asked = []
    find_logit_scale(pilot(1e-12, asked=asked), 100.0, 50.0, 2.0**-53, 6.5)
    assert max(scale for scale, _ in asked) == 50.0


def test_where_nothing_shows_the_scale_that_bounds_scores_best():
    """The interval of a score that is 0 is narrowest, per unit of scale, at the largest scale."""
    assert find_logit_scale(pilot(0.0), 1.0, 1e3, 2.0**-53, 6.5) == 1e3


def test_scores_that_never_fade_are_no_softmax():
    def read(scale, count):
        s = np.full((1, count), 50.0)
        return s, s - 1, s + 1

    with pytest.raises(AlwaysSaturated):
        find_logit_scale(read, 1.0, 1e3, 2.0**-53, 6.5)


def test_between_invisible_and_saturated():
    """Answers so coarse that a logit of 1 does not stand out, nor one of 4 fit: the scale in between."""
    scale = find_logit_scale(pilot(1.0, blur=0.2), 1e-3, 1e6, 2.0**-53, 6.5)
    assert 0.2 < scale < 20


def test_more_pilots_settle_it_where_asked_for():
    asked = []
    find_logit_scale(pilot(1.0, asked=asked), 1.0, 10.0, 2.0**-53, 6.5, pilots=16)
    assert [count for _, count in asked] == [2, 4, 12]


def test_pilots_that_saturate_make_the_scale_shorter():
    """Two pilots that see nothing by chance, and others that saturate."""
    calls = []

    def read(scale, count):
        calls.append(scale)
        s = np.full((1, count), scale * (1.0 if len(calls) == 1 else 100.0))
        return s, s - 1e-6, s + 1e-6

    scale = find_logit_scale(read, 1.0, 10.0, 2.0**-53, 6.5)
    assert calls[2] == pytest.approx(calls[1] / 6.5)
    assert scale == pytest.approx(1 / np.sqrt((4 * 100.0**2 + 2) / 6), rel=1e-6)


def test_a_scale_at_which_nothing_shows_grows_stride_by_stride():
    asked = []

    def read_pilot(scale, count):
        asked.append(scale)
        interval = (2.0, 1.9, 2.1) if scale >= 100 else (0.0, -1.0, 1.0)
        return tuple(np.array([each]) for each in interval)

    scale, scores = find_coarse_scale(read_pilot, 10.0, 1e6, 4.0, 8.0, 1.0)
    assert asked == [10.0, 40.0, 160.0]
    assert scale == 80.0
    np.testing.assert_allclose(scores, 2 / 160)


def test_a_logit_that_the_last_round_settles_is_no_reason_to_refuse():
    asked = []

    def read(q, keys):
        asked.append(len(q))
        size = 1.0 if len(asked) == 1 + reading.MAX_REASKS else 20.0
        return tuple(np.full(keys.shape[:2], size + off) for off in (0.0, -0.1, 0.1))

    def refuse(q, key):
        raise AssertionError("it is known by now")

    (s, _, _), shrunk = read_logits(read, refuse, np.ones((1, 2)), np.ones((1, 1, 2)), 10.0, False)
    assert len(asked) == 1 + reading.MAX_REASKS
    assert np.isfinite(s).all()
    assert 0 < shrunk[0, 0] < 1
