"""Laws and noise: how far off a law may be, what is asked for it, and noise that nobody promised."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

import glasshead as gh
from glasshead._checks import cause, family_laws, laws, noise, odds
from glasshead._checks.laws import LAWS, Asked, Claim, Slack, refuse_broken
from glasshead._checks.noise import Noise, Unpromised
from glasshead._checks.promise import as_printed, find_promise, read_roughness, rms, round_number
from glasshead._errors import ANY_ORDER, ASKED_AGAIN, ONE_TOKEN, STRAIGHT_RAYS, TWO_COPIES, Evidence
from glasshead._learned import LearnedHead
from glasshead._linalg import orthonormal_frame
from glasshead._meters import ValueMeter, Values, value
from tests.meters.promises import Promising

D = 4
V = np.array([1.0, -2.0, 0.5, 1.5])
HEAD = gh.Attention(np.random.default_rng(0).standard_normal((D, D)), V)


def sequences(n=3, count=2):
    return np.random.default_rng(1).standard_normal((count, n, D))


# The table.


@pytest.mark.parametrize("law", LAWS)
def test_a_head_obeys_every_law(law):
    """Weighted answers of one head add up to what the values say."""
    s = sequences({laws.OPPOSITE_TOKENS: 2}.get(law, 3 if law == ANY_ORDER or "twice" in law else 1))
    if law == laws.HARDLY_APART:
        s = s[:, :1] + 1e-9 * sequences(2)
    answers = [HEAD(X) for X in LAWS[law].sequences(s)]
    total = sum(weight * answer for weight, answer in zip(LAWS[law].weights, answers, strict=True))
    expected = {1: s[:, 0] @ V if s.shape[1] == 1 else 0.0}.get(len(answers), 0.0)
    np.testing.assert_allclose(total, expected, atol=1e-7)
    assert LAWS[law].weights[0] == 1.0


def test_the_sequences_of_laws():
    s = sequences(4)
    first, moved = laws.reordered(s)
    assert first is s
    np.testing.assert_array_equal(moved, s[:, [1, 2, 0, 3]])
    np.testing.assert_array_equal(laws.copied(3)(s[:, :1])[0], s[:, [0, 0, 0]])
    x, z = s[:, 0], s[:, 1]
    plus, minus, alone, zero = laws.opposite(s[:, :2])
    np.testing.assert_array_equal(plus, np.stack([z + x, z], axis=1))
    np.testing.assert_array_equal(minus, np.stack([z - x, z], axis=1))
    np.testing.assert_array_equal(alone[:, 0], x)
    assert not zero.any()


def test_what_a_law_allows():
    """The promise of each answer that it weighs, the error of the total, and a share of the size of answers."""
    slack = Slack(loose=1e-3, roundings=16.0)
    oracle = Promising(D, tolerance=0.5, rtol=0.1, roundoff=2.0**-10)
    claim = Claim(STRAIGHT_RAYS, sequences(1), 0.0, 0.25)
    each = (0.5 + 0.1 * 8.0) / 0.9
    assert slack.allowed(oracle, 8.0, claim) == pytest.approx(4 * each + 0.25 + (1e-3 + 16 * 2.0**-10) * 8.0)
    assert slack.allowed(oracle, 8.0, claim, promise=0.0) == pytest.approx(0.25 + (1e-3 + 16 * 2.0**-10) * 8.0)
    assert slack.allowed(oracle, 8.0, replace(claim, law=ONE_TOKEN)) == pytest.approx(each + 0.25 + 0.133, rel=1e-2)


def test_each_sequence_is_asked_once():
    asked = []

    def ask(X):
        asked.append(X.copy())
        return HEAD(X)

    one, three = sequences(1, 1), sequences(3, 1)
    answers = Asked(ask)
    claims = [Claim(ASKED_AGAIN, one), Claim(TWO_COPIES, one), Claim(ANY_ORDER, three)]
    outcomes = answers.read(*claims)
    assert [len(X) for X in asked] == [1, 1, 1, 2]  # twice the same, never in one batch; two copies; both orders
    assert all(outcome.off.max() < 1e-12 for outcome in outcomes)
    answers.read(*claims)
    assert len(asked) == 4
    fresh = Asked(ask)
    fresh.remember(one, HEAD(one))
    fresh.read(Claim(TWO_COPIES, one))
    assert len(asked) == 5
    assert answers.largest == pytest.approx(max(np.abs(HEAD(X)).max() for X in asked))


def test_a_total_that_nobody_knows_is_not_held_against_the_box():
    one = sequences(1, 2)
    outcome = Asked(HEAD).read(Claim(ONE_TOKEN, one, np.array([np.nan, 5.0])))[0]
    assert outcome.off[0] == 0.0
    assert outcome.off[1] == pytest.approx(abs(one[1, 0] @ V - 5.0))


def test_the_first_broken_law_is_shown_from_the_origin():
    one = sequences(1, 2)
    claims = [Claim(ONE_TOKEN, one, one[:, 0] @ V), Claim(ONE_TOKEN, one, one[:, 0] @ V + [0.0, 0.2])]
    outcomes = Asked(HEAD).read(*claims)
    refuse_broken(claims, outcomes, lambda claim: 0.21, "no")
    with pytest.raises(gh.TargetMismatch, match="no") as caught:
        refuse_broken(claims, outcomes, lambda claim: 0.19, "no", np.ones(D))
    np.testing.assert_allclose(caught.value.evidence.query, one[1] + 1)


# Laws of one head, and of several in vector answers.


def off_by(amount, which):
    """The head, off by that much for sequences of so many tokens."""
    return lambda X: HEAD(X) + amount * (X.shape[1] == which)


VALUES = Values(V, 0.0, 1e9)


def head_laws(f, **promise):
    token = np.array([0.5, 0.5, 0.5, 0.5])
    oracle = Promising(D, f, **{"roundoff": 2.0**-53} | promise)
    return laws.check_head_laws(oracle, VALUES, token, np.asarray(token @ V), np.random.default_rng(0)), oracle


@pytest.mark.parametrize("which", [2])
@pytest.mark.parametrize(("off", "ok"), [(0.9e-6, True), (1.2e-6, False)])
def test_a_law_of_one_head_may_be_off_by_a_millionth(which, off, ok):
    size = np.linalg.norm(V)
    if ok:
        assert head_laws(off_by(off * size, which))[0] is None
        return
    with pytest.raises(gh.TargetMismatch, match="not a single attention head"):
        head_laws(off_by(off * size, which))


def test_a_promise_excuses_what_it_covers():
    noise, _ = head_laws(off_by(1.9e-3, 2), tolerance=1e-3)
    assert noise is None
    with pytest.raises(gh.TargetMismatch, match="or its answers are less accurate than promised"):
        head_laws(off_by(2.1e-3, 2), tolerance=1e-3)


def test_laws_of_one_head_cost_four_queries():
    assert head_laws(HEAD)[1].queries == 4


@pytest.mark.parametrize(("share", "ok"), [(0.05, True), (0.08, False)])
def test_tokens_hardly_apart_are_answered_by_their_mean(share, ok):
    """Any share but a half, by more than a sixteenth, would be a residual connection's."""
    layer = gh.MultiHead([gh.Attention(HEAD.W, np.eye(D))])

    def f(X):
        return layer(X) + share * (X[:, -1] - X[:, 0]) * (X.shape[1] == 2)

    def check():
        token = np.full(D, 0.5)
        oracle = Promising(D, f, roundoff=2.0**-53)
        laws.check_layer_laws(oracle, np.eye(D), np.zeros(D), token, token, np.random.default_rng(0))

    if ok:
        check()
        return
    with pytest.raises(gh.TargetMismatch):
        check()


# Laws of sums and of heads behind networks.


@pytest.mark.parametrize(("off", "ok"), [(0.8e-6, True), (3e-6, False)])
def test_sums_obey_their_laws_to_a_millionth_of_the_largest_answer(off, ok):
    two = gh.MultiHead([HEAD, gh.Attention(HEAD.W.T, V[::-1].copy())], bias=3.0)
    largest = 3.0

    def f(X):
        return two(X) + off * largest * (X.shape[1] == 3)

    # Three copies and any order are asked of three tokens; only one side of either is off.
    assert family_laws.check_sum_laws(Promising(D, f, roundoff=2.0**-53), np.random.default_rng(0)) == ok


def test_a_change_is_seen_beyond_eight_errors():
    tau = 1e-3

    def f(X, times):
        return np.full(len(X), 1.0) + times * tau * (X.shape[1] == 3)

    for times, seen in ((7.9, 0.0), (8.1, 8.1 * tau)):
        oracle = Promising(D, lambda X, times=times: f(X, times), tolerance=tau)
        assert family_laws.read_largest_change(oracle, np.random.default_rng(0)) == pytest.approx(seen)
        assert oracle.queries == 3
    relative = Promising(D, lambda X: f(X, 5.0), rtol=1e-3)
    assert family_laws.read_largest_change(relative, np.random.default_rng(0)) == 0.0


@pytest.mark.parametrize(("off", "ok"), [(0.8e-8, True), (1.3e-8, False)])
def test_heads_behind_networks_obey_theirs_to_a_hundred_millionth(off, ok):
    size = []

    def f(X):
        y = np.tanh(HEAD(X)) + 1
        size.append(np.abs(y).max())
        return y + off * max(size) * (X.shape[1] == 8)

    def check():
        return family_laws.check_front_laws(Promising(D, f, roundoff=2.0**-53), np.random.default_rng(0))

    if ok:
        assert check() == pytest.approx(max(size))
        return
    with pytest.raises(gh.TargetMismatch):
        check()


def test_typical_answers_say_how_large_rounding_is():
    """In float32 an answer that cancels is judged by the others."""
    u, calls = 2.0**-24, []

    def f(X):
        calls.append(X.shape)
        y = np.full(len(X), 1e-6)
        if len(X) == 8:
            y[:] = 1.0
        return y + 40 * u * (X.shape[1] == 8)

    assert family_laws.check_front_laws(Promising(D, f, roundoff=u), np.random.default_rng(0)) == pytest.approx(1.0)
    assert calls[-1] == (8, 4, D)


# Noise.


def unpromised(fresh=True):
    return Unpromised(VALUES, np.ones((1, D)), fresh)


@pytest.mark.parametrize(("narrow", "times"), [(False, 8 * (D + 8)), (True, 4)])
def test_how_far_two_answers_of_a_box_without_noise_may_differ(narrow, times):
    u = 2.0**-8 if narrow else 2.0**-53
    oracle = Promising(D, HEAD, roundoff=u)
    assert noise.repeatable(oracle, 3.0) / (3.0 * u) == pytest.approx(times)
    one = np.ones((1, D))
    off = noise.repeatable(oracle, 3.0)
    assert noise.find_unpromised(oracle, VALUES, one, 1.0, 1.0 + 1.01 * off, 3.0).fresh
    if not narrow:
        assert noise.find_unpromised(oracle, VALUES, one, 1.0, 1.0 + 0.99 * off, 3.0) is None


@pytest.mark.parametrize(("times", "once"), [(1.0, True), (6.0, False)])
def test_whether_answers_were_rounded_once(times, once):
    """Mean squares of deviations are three times what one rounding makes of them, at most."""
    u = 2.0**-8

    def f(X):
        y = X[:, 0] @ V
        mantissa, exponent = np.frexp(y)
        rounded = np.ldexp(np.round(mantissa * 2**8) / 2**8, exponent)
        return y + times * (rounded - y)

    values = Values(V, 0.0, 1.0)
    assert noise.check_rounded_once(Promising(D, f, roundoff=u), values) == once
    seen = noise.find_unpromised(Promising(D, f, roundoff=u), values, np.ones((1, D)), 1.0, 1.0, 1.0)
    assert (seen is not None) == once
    assert seen is None or not seen.fresh


class Noisy:
    """`x . v` with Gaussian noise: a size that is always there, and a share of the answer."""

    def __init__(self, size=0.0, share=0.0, seed=0):
        self.size, self.share, self.rng = size, share, np.random.default_rng(seed)

    def __call__(self, X):
        y = X[:, 0] @ V
        return y + (self.size + self.share * np.abs(y)) * self.rng.standard_normal(len(X))


def test_noise_is_no_larger_than_the_estimate_in_99_of_100_cases():
    estimates = [
        noise.read_noise(Promising(D, Noisy(0.1, seed=seed), max_norm=100.0), unpromised()) for seed in range(200)
    ]
    sizes = np.array([found.size for found in estimates])
    assert np.mean(sizes < 0.1) < 0.03
    assert np.median(sizes) < 0.15
    assert all(found.share == 0.0 for found in estimates if found.size < 0.3)


def test_noise_that_is_a_share_of_the_answer():
    estimates = [
        noise.read_noise(Promising(D, Noisy(0.001, 0.01, seed), max_norm=1000.0), unpromised()) for seed in range(60)
    ]
    shares = np.array([found.share for found in estimates])
    assert np.mean(shares < 0.01) < 0.05
    assert np.median(shares) < 0.02


def test_a_cautious_deviation():
    assert noise.cautious(1.0, 16) == pytest.approx(np.sqrt(15 / chi2.ppf(0.01, 15)))
    assert str(Noise(0.1)) == "noise of about 0.1"
    assert str(Noise(0.1, 0.02)) == "noise of about 0.1 and 2.0% of the answer"


def test_noise_costs_sixteen_answers_of_two_tokens():
    oracle = Promising(D, Noisy(0.1), max_norm=100.0)
    noise.read_noise(oracle, unpromised())
    assert [X.shape for X in oracle.asked] == [(2, 1, D)] * 16
    lengths = np.linalg.norm(oracle.asked[0][:, 0], axis=1)
    np.testing.assert_allclose(lengths, [1.0, oracle.reach])


@pytest.mark.parametrize(("share", "ok"), [(0.05, True), (0.2, False)])
def test_noise_of_a_tenth_of_the_answer_is_no_noise(share, ok):
    def read():
        return noise.read_noise(Promising(D, Noisy(1e-6, share), max_norm=1000.0), unpromised())

    if ok:
        assert read().share > 0
        return
    with pytest.raises(gh.TargetMismatch, match="answered differently each time"):
        read()


def test_noise_that_hides_the_answer_is_refused():
    with pytest.raises(gh.TargetMismatch, match="noise hides it"):
        noise.read_noise(Promising(D, Noisy(100.0), max_norm=1.0), unpromised())


def test_answers_that_drift_are_no_noise():
    steady, drifting = np.random.default_rng(0).standard_normal(16), np.arange(16.0)
    noise.refuse_drift(steady, unpromised())
    noise.refuse_drift(np.ones(16), unpromised())
    with pytest.raises(gh.TargetMismatch, match="drift, from 0 to 15"):
        noise.refuse_drift(drifting, unpromised())
    wandering = np.cumsum(steady)
    ratio = np.mean(np.diff(wandering) ** 2) / np.var(wandering, ddof=1)
    assert ratio > 0.1  # so that a limit ten times smaller would not notice the next
    slow = np.r_[np.zeros(8), np.ones(8)] + 0.1 * steady
    assert 0.1 < np.mean(np.diff(slow) ** 2) / np.var(slow, ddof=1) < 0.3
    with pytest.raises(gh.TargetMismatch, match="drift"):
        noise.refuse_drift(slow, unpromised())


# Promises that would help.


def mismatch():
    return gh.TargetMismatch("no", Evidence("a law", np.ones((1, D)), "this", "that"))


def advised(f, **promise):
    oracle = Promising(D, f, **{"roundoff": 2.0**-53} | promise)
    return str(find_promise(oracle, mismatch(), np.random.default_rng(0))), oracle


def rough(size=0.0, share=0.0):
    """The same noise for the same question."""

    def f(X):
        y = X[:, 0] @ V
        return y + (size + share * np.abs(y)) * np.sin(1e7 * X.sum(axis=(1, 2)))

    return f


def test_noise_that_is_always_the_same_is_told_by_rays():
    said, oracle = advised(rough(1e-3))
    assert "then promise tolerance=" in said
    promised = float(said.split("tolerance=")[1].split(" ")[0])
    assert 1e-3 <= promised <= 5e-3
    assert oracle.queries == 6 * 3 + 6 * 5
    said, _ = advised(rough(share=1e-3))
    assert 1e-3 <= float(said.split("rtol=")[1].split(" ")[0]) <= 1e-2


@pytest.mark.parametrize(
    "f", [lambda X: X[:, 0] @ V, lambda X: np.tanh(0.05 * X[:, 0] @ V), lambda X: np.linalg.norm(X[:, 0], axis=1) ** 2]
)
def test_straight_rays_and_bends_need_no_promise(f):
    said, _ = advised(f)
    assert "promise" not in said


@pytest.mark.parametrize(("share", "told"), [(0.1, False), (0.9, True)])
def test_where_only_some_answers_are_off_no_promise_is_advised(share, told):
    """Most rays are straight then, and the others say nothing about how far off an answer may be."""
    noisy = rough(1e-3)

    def f(X):
        chosen = np.modf(1e3 * np.abs(X.sum(axis=(1, 2))))[0] < share
        return np.where(chosen, noisy(X), X[:, 0] @ V)

    said, _ = advised(f)
    assert STRAIGHT_RAYS in said
    assert ("then promise" in said) == told


def test_who_promised_something_is_told_nothing():
    _, oracle = advised(rough(1e-3), tolerance=1e-6)
    assert oracle.queries == 0


def test_the_noise_of_second_differences():
    rng = np.random.default_rng(0)
    rays = rng.standard_normal((4000, D))
    ends, level = read_roughness(Promising(D, Noisy(0.1)), rays, 0.25)
    assert rms(level) == pytest.approx(0.1, rel=0.05)
    assert ends.shape == (4000,)
    bend = Promising(D, lambda X: X[:, 0, 0] ** 2)
    _, far = read_roughness(bend, np.ones((1, D)), 0.25)
    _, close = read_roughness(bend, np.ones((1, D)), 0.125)
    assert far == pytest.approx([2 * 0.25**2 / np.sqrt(6)])
    assert far == pytest.approx(4 * close)


def significant(digits):
    """A head's one-row answers, and a bias, so printed."""

    def f(X, bias=0.0):
        y = X[:, 0] @ V + bias
        unit = 10.0 ** (np.floor(np.log10(np.abs(y))) - digits + 1)
        return np.round(y / unit) * unit

    return f


@pytest.mark.parametrize("digits", [8, 9, 11, 12])
@pytest.mark.parametrize("bias", [0.0, 17.0, 1e6])
def test_printed_digits_are_an_rtol(digits, bias):
    """Under a large bias they look like decimals for tokens of any ordinary length."""
    said, oracle = advised(lambda X: significant(digits)(X, bias))
    assert f"promise rtol={0.5 * 10.0 ** (1 - digits):g} " in said
    assert oracle.queries == 6 * (8 if bias == 0 else 11)


@pytest.mark.parametrize("bias", [0.0, 17.0, 1e6])
def test_printed_decimals_are_a_tolerance(bias):
    said, _ = advised(lambda X: np.round(X[:, 0] @ V + bias, 4))
    assert "promise tolerance=5e-05 " in said


@pytest.mark.parametrize("decimals", [6, 3])
def test_noise_coarser_than_the_digits_of_answers_is_what_is_promised(decimals):
    """Though by little: twice what the last of three decimals may be off by."""
    said, _ = advised(lambda X: np.round(rough(1e-3)(X), decimals))
    assert 1e-3 <= float(said.split("tolerance=")[1].split(" ")[0]) <= 5e-3


def test_noise_under_a_large_bias_is_a_share_if_it_grows_in_the_end():
    said, _ = advised(lambda X: (X[:, 0] @ V + 1e5) * (1 + 1e-6 * np.sin(1e7 * X.sum(axis=(1, 2)))))
    assert 1e-6 <= float(said.split("rtol=")[1].split(" ")[0]) <= 1e-5
    said, _ = advised(lambda X: rough(1e-3)(X) + 1e5)
    assert 1e-3 <= float(said.split("tolerance=")[1].split(" ")[0]) <= 5e-3


def test_which_numbers_are_printed():
    rng = np.random.default_rng(0)
    y = 10 ** rng.uniform(-3, 3, 40)
    assert as_printed(y, "rtol") is None
    assert as_printed(np.zeros(3), "rtol") is None
    assert as_printed(np.full(2, 1e-320), "rtol") is None
    assert as_printed(np.round(y, 3), "rtol") == ("tolerance", 0.5e-3)
    assert as_printed(np.array([float(f"{x:.4g}") for x in y]), "tolerance") == ("rtol", pytest.approx(0.5e-3))
    alike = np.round(1 + 8 * rng.random(40), 3)  # four digits, and three decimals
    assert as_printed(alike, "rtol") == ("rtol", pytest.approx(0.5e-3))
    assert as_printed(alike, "tolerance") == ("tolerance", 0.5e-3)
    assert as_printed(np.round(np.r_[y, 1e11 * y], 5), "rtol") == ("tolerance", 0.5e-5)


@pytest.mark.parametrize(("x", "expected"), [(1.0, 1.0), (1.1, 2.0), (0.021, 0.05), (5.1e3, 1e4), (2.0, 2.0)])
def test_round_numbers(x, expected):
    assert round_number(x) == pytest.approx(expected)


# Sizes and errors of what laws compare.


@pytest.mark.parametrize(("off", "ok"), [(4.5e-6, True), (5.5e-6, False)])
def test_a_layer_in_float32_may_be_off_by_64_roundings_more(off, ok):
    layer = gh.MultiHead([gh.Attention(HEAD.W, np.eye(D))], bias=np.ones(D))
    u = 2.0**-24
    token = np.full(D, 0.5)
    size = 1.0 + 0.5  # the bias, and what the largest entry of a token makes of the largest column
    assert 1e-6 + 64 * u == pytest.approx(4.81e-6, rel=1e-2)

    def f(X):
        return layer(X) + off * size * np.all(token == X, axis=2)[:, :1] * (X.shape[1] == 2)

    def check():
        oracle = Promising(D, f, roundoff=u)
        laws.check_layer_laws(oracle, np.eye(D), np.ones(D), token, layer(token[None]), np.random.default_rng(0))

    if ok:
        check()
        return
    with pytest.raises(gh.TargetMismatch):
        check()


@pytest.mark.parametrize(("times", "ok"), [(0.95, True), (1.1, False)])
def test_the_error_of_a_predicted_answer_is_that_of_bias_and_v(times, ok):
    """`sqrt(d)` errors of an entry times the length of the token, and that of the bias, beyond the promise."""
    tau, step = 1e-3, 4.0
    values = Values(V, 0.0, step)
    token = np.full(D, 0.5)
    oracle = Promising(D, None, tolerance=tau, roundoff=2.0**-53)
    allowed = tau + values.bias_error(oracle) + 2.0 * values.entry_error(oracle) + 1e-6 * np.linalg.norm(V)

    def f(X):
        return HEAD(X) + times * allowed * (X.shape[1] <= 2)

    oracle.f = f

    def check():
        return laws.check_head_laws(
            oracle, values, token, np.asarray(f(token[None, None])[0]), np.random.default_rng(0)
        )

    if ok:
        assert check() is None
        return
    with pytest.raises(gh.TargetMismatch, match="not a single attention head"):
        check()


def mixing(roundoff=2.0**-53, key_bias=None):
    frame = orthonormal_frame(D, np.random.default_rng(0))
    return ValueMeter(Promising(D, roundoff=roundoff), VALUES, frame, frame, key_bias=key_bias)


def mixture(third, width=0.0, roundoff=2.0**-53, sizes=(0.5, 0.25)):
    """Logits of two keys and of their mixture, each known within a width."""
    keys = np.eye(D)[:3].copy()
    share = value.mix_third_key(keys)
    s = np.array([*sizes, share * sum(sizes) + third])
    value.refuse_mixed_keys(mixing(roundoff), np.zeros(D), keys, share, (s, s - width, s + width))
    return share, keys


def test_the_third_key_is_a_mixture_as_long_as_the_others():
    share, keys = mixture(0.0)
    assert share == pytest.approx(np.sqrt(0.5))
    np.testing.assert_allclose(keys[2], share * (keys[0] + keys[1]))
    assert np.linalg.norm(keys[2]) == pytest.approx(1.0)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(
    ("off", "width", "sizes", "ok"),
    [
        (0.9e-4, 0.0, (0.5, 0.25), True),
        (1.1e-4, 0.0, (0.5, 0.25), False),
        (3e-4, 0.0, (4.0, 2.0), True),  # of a logit of 4 and more
        (6e-4, 0.0, (4.0, 2.0), False),
        (2.4e-3 + 0.9e-4, 1e-3, (0.5, 0.25), True),  # (1 + sqrt 2) widths
        (2.5e-3 + 1.1e-4, 1e-3, (0.5, 0.25), False),
    ],
)
def test_mixtures_of_keys_have_mixtures_of_logits(sign, off, width, sizes, ok):
    if ok:
        mixture(sign * off, width, sizes=sizes)
        return
    with pytest.raises(gh.TargetMismatch, match="expected a logit of"):
        mixture(sign * off, width, sizes=sizes)


def test_rounding_inside_the_box_excuses_a_mixture():
    u = 2.0**-24
    keys = 2 * np.eye(D)[:3]
    s = np.array([0.5, 0.25, 0.0])
    level = value.mixture_rounding(mixing(u), np.full(D, 1.5), keys, s)
    assert level == pytest.approx(4 * 8 * u * (2.0 + 3.0) * (100 * 2 * 0.5 / 2.0))
    biased = value.mixture_rounding(mixing(u, np.full(D, 10.0)), np.full(D, 1.5), keys, s)
    assert biased == pytest.approx(4 * 8 * u * 5.0 * (50.0 + 20.0))
    plain = value.mixture_rounding(mixing(u), np.zeros(D), np.eye(D)[:3], np.array([0.5, 0.25]))
    mixture(0.99e-4 + 0.99 * (1 + np.sqrt(2)) * plain, roundoff=u)
    with pytest.raises(gh.TargetMismatch):
        mixture(1.01e-4 + 1.01 * (1 + np.sqrt(2)) * plain, roundoff=u)


# A bias beside the noise.


def biased_answers(bias, u=2.0**-8, times=1.0):
    def f(X):
        y = X[:, 0] @ V + bias
        mantissa, exponent = np.frexp(y)
        return y + times * (np.ldexp(np.round(mantissa * 2**8) / 2**8, exponent) - y)

    return f


def test_one_rounding_of_a_large_bias_is_one_rounding():
    """The bias was rounded when it was read, once with the token and once without."""
    f = biased_answers(37.3)
    read = Values(V, float(f(np.zeros((1, 1, D)))[0]), 1e9)
    assert noise.check_rounded_once(Promising(D, f, roundoff=2.0**-8), read)
    assert not noise.check_rounded_once(Promising(D, biased_answers(37.3, times=8.0), roundoff=2.0**-8), read)


@pytest.mark.parametrize("bias", [-50.0, 50.0])
def test_noise_is_compared_with_what_tokens_add_to_the_bias(bias):
    seen = Unpromised(Values(V, bias, 1.0), np.ones((1, D)), True)
    box = Noisy(0.1)
    found = noise.read_noise(Promising(D, lambda X: box(X) + bias, max_norm=100.0), seen)
    assert 0.08 < found.size < 0.3
    hidden = Noisy(3.0)
    with pytest.raises(gh.TargetMismatch, match="noise hides it"):
        noise.read_noise(Promising(D, lambda X: hidden(X) + bias, max_norm=0.5), seen)


def test_short_answers_may_show_noise_that_long_ones_hide():
    """Where long answers have too few digits for it."""

    def f(X, rng=np.random.default_rng(0)):  # noqa: B008
        y = X[:, 0] @ V
        return y + 1e-3 * rng.standard_normal(len(X)) * (np.abs(y) < 100)

    found = noise.read_noise(Promising(D, f, max_norm=1e6), unpromised())
    assert 0.8e-3 < found.size < 3e-3
    assert found.share == 0.0


@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
@pytest.mark.parametrize(("times", "ok"), [(0.9, True), (1.1, False)])
def test_eight_copies_of_a_key_have_eight_times_its_odds(tolerance, times, ok):
    """Within twice the error of an answer, once as it is and once as it moves what the law makes of it."""
    bounds = {"bound": 0.0, "bound_v": 0.0, "bound_key_bias": 0.0, "bound_bias": 0.0}
    found = LearnedHead(model=HEAD, rank=D, confidence=1.0, **bounds)
    allowed = []

    def f(X):
        y = HEAD(X)
        if X.shape[1] != 9:
            return y
        p = HEAD.weights(X[:, [0, -1]])[:, 0]
        steep = 8 / (1 + 7 * p) ** 2
        size = np.linalg.norm(X, axis=2).max(axis=1) * np.linalg.norm(V)
        error = tolerance + 2.0**-53 * (4 + 2 * np.sqrt(D)) * size
        allowed.append(2 * (1 + steep) * error)
        return y + times * allowed[-1]

    oracle = Promising(D, f, tolerance=tolerance, roundoff=2.0**-53)
    broken = odds.check_odds(oracle, found, np.random.default_rng(0))
    assert oracle.queries == odds.ODDS_QUERIES == 8
    if tolerance:
        assert (broken is None) == ok
    else:
        assert broken is None or not ok


@pytest.mark.parametrize("bias", [0.0, 40.0])
def test_a_signal_is_what_tokens_add_to_a_bias_on_either_side(bias):
    """Values against the bias, as large as it: noise is seen all the same."""
    seen = Unpromised(Values(-V, bias, 1.0), np.ones((1, D)), True)
    box = Noisy(0.1)
    found = noise.read_noise(Promising(D, lambda X: bias + box(X), max_norm=50.0), seen)
    assert 0.08 < found.size < 0.3


@pytest.mark.parametrize("promise", [{"tolerance": 0.1}, {"rtol": 0.1}])
def test_answers_differ_beyond_two_errors(promise):
    oracle = Promising(D, roundoff=2.0**-53, **promise)
    assert not cause.differ(oracle, 1.0, 0.81)
    assert cause.differ(oracle, 1.0, 0.9, 0.75)
    assert not cause.differ(Promising(D, roundoff=2.0**-53), 1.0, 1.0)


def test_answers_of_many_numbers_differ_beyond_roundings_of_the_largest():
    many = np.array([1e3, 1e-9])
    assert not cause.differ(Promising(D, roundoff=2.0**-53), many, many + np.array([1e-4, 0.0]))
    assert cause.differ(Promising(D, roundoff=2.0**-53), many, many + np.array([1e-2, 0.0]))


@pytest.mark.parametrize("given", [{"tolerance": 1e-3}, {"rtol": 1e-3}, {"answers": "sign"}, {"roundoff": 2.0**-24}])
def test_where_tokens_are_rounded_is_asked_of_exact_answers_in_double_precision_only(given):
    oracle = Promising(D, HEAD, **{"roundoff": 2.0**-53} | given)
    assert not cause.find_rounded_tokens(oracle)
    assert oracle.queries == 0


def test_a_cause_that_is_not_the_order_shows_no_order():
    """The query token is the first one: the two sequences are for boxes in which all tokens have places."""
    with pytest.raises(gh.TargetMismatch, match="the query token seems to be the first one") as refused:
        gh.recover(gh.ValueOracle(lambda X: HEAD(X[:, ::-1]), dim=D), family="attention")
    assert "orders" not in refused.value.known


def test_how_much_of_all_copies_grows_with_the_weight_of_one():
    p = np.linspace(0.05, 0.95, 7)
    slope = (odds.of_copies(p + 1e-6) - odds.of_copies(p - 1e-6)) / 2e-6
    np.testing.assert_allclose(odds.steepness(p), slope, rtol=1e-6)


@pytest.mark.parametrize("promise", [{"tolerance": 3.0}, {"rtol": 0.9}])
def test_the_last_answers_may_be_off_by_what_is_promised(promise):
    """From the model: the law itself holds, as all of them are off alike."""
    found = LearnedHead(model=HEAD, rank=D, confidence=1.0, bound=0.0, bound_v=0.0, bound_key_bias=0.0, bound_bias=0.0)
    moved = {"tolerance": lambda X: HEAD(X) + 2.9, "rtol": lambda X: 3 * HEAD(X)}
    (name,) = promise
    for seed in range(4):
        oracle = Promising(D, moved[name], roundoff=2.0**-53, max_norm=4.0, **promise)
        assert odds.check_odds(oracle, found, np.random.default_rng(seed)) is None
        oracle = Promising(D, moved[name], roundoff=2.0**-53, max_norm=4.0, **{name: 1e-6})
        assert odds.check_odds(oracle, found, np.random.default_rng(seed)) is not None
