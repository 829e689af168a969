"""One-bit answers: the oracle, the bisection, the meter, and heads recovered from signs, with bounds and counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh
from glasshead._checks.signs import SIGN_QUERIES as QUERIES
from glasshead._checks.signs import check_held_out_signs
from glasshead._learners.signs.learn import learn_sign_attention
from glasshead._linalg import cone
from glasshead._meters import Halfspace, Unbounded, find_exponents, find_intervals
from glasshead._meters.bisection import comparing_lengths
from glasshead._meters.sign import SignMeter
from glasshead._oracles import box as box_module
from glasshead._oracles import signs as voting_module
from glasshead._oracles.signs import Voting

from .helpers import IMPOSTORS, Impostors, head, low_rank, spectrum


class Rounds(gh.SignOracle):
    """Counts requests as well as queries."""

    rounds = 0

    def __call__(self, X):
        self.rounds += 1
        return super().__call__(X)


def learn(oracle, bits=None, rank=None, seed=0):
    """A head from signs, checked on fresh queries as `gh.recover` does."""
    rng = np.random.default_rng(seed)
    learned = learn_sign_attention(oracle, rng, rank, bits=bits)
    assert check_held_out_signs(oracle, learned, rng).evidence is None
    return learned


def unit(target: gh.Attention) -> gh.Attention:
    """The same signs, with v of norm 1."""
    size = float(np.linalg.norm(target.v))
    return gh.Attention(target.W, target.v / size, key_bias=target.key_bias, bias=target.bias / size)


def off_W(found, target) -> float:
    return float(np.linalg.norm(found.model.W - target.W))


def assert_bounded(learned, target):
    truth = unit(target)
    assert off_W(learned, truth) <= learned.bound
    assert np.linalg.norm(learned.model.v - truth.v) <= learned.bound_v
    assert np.linalg.norm(learned.model.key_bias - truth.key_bias) <= learned.bound_key_bias
    assert abs(learned.model.bias - truth.bias) <= learned.bound_bias


# The oracle


@pytest.mark.parametrize(
    "answer",
    [
        lambda y: y > 0,
        lambda y: (y > 0).astype(int),
        lambda y: np.sign(y),
        lambda y: y,
        lambda y: y.astype(np.float32),
        lambda y: (y > 0).tolist(),
        lambda y: (y > 0)[:, None],
    ],
    ids=["bools", "0 and 1", "-1 and 1", "numbers", "float32", "a list", "a column"],
)
def test_all_kinds_of_answers_are_the_same_bools(answer):
    target, X = head(3), np.random.default_rng(0).standard_normal((50, 4, 3))
    oracle = gh.SignOracle(lambda X: answer(target(X)), dim=3)
    answers = oracle(X)
    assert answers.dtype == bool
    assert np.array_equal(answers, target(X) > 0)
    assert oracle.queries == 50
    assert oracle.answers == Voting(oracle).answers == "sign"


@pytest.mark.parametrize("label", [1.0, 0.5, 10.0, 1e-3])
def test_labels_say_nothing_about_digits(label):
    """They are numbers with few digits, all of them, and the box behind them may have many."""
    target = head(3)
    oracle = gh.SignOracle(lambda X: label * np.sign(target(X)), dim=3)
    assert off_W(gh.recover(oracle, accuracy=1e-9), target) <= 1e-9
    assert oracle.roundoff == 2.0**-53


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda X: np.zeros(len(X) + 1), r"expected answers of shape \(3,\), one per sequence, got \(4,\)"),
        (lambda X: np.zeros((len(X), 2)), r"one yes or no per sequence, got 2 answers to each: .*f\(X\)\[:, 0\]"),
        (lambda X: np.zeros((len(X), 1, 1)), r"expected answers of shape \(3,\)"),
        (lambda X: np.array([0.0, np.nan, 0.0]), "expected finite answers, got nan for query 1 "),
        (lambda X: np.zeros(len(X)) + 1j, "expected bools, 0 and 1, or real numbers as answers, got dtype complex128"),
        (lambda X: ["yes", "no", "no"], "expected bools, 0 and 1, or real numbers"),
        (lambda X: X.no_such_thing, "the box raised AttributeError: .*no_such_thing.*3 sequences of 2 tokens in dim"),
    ],
)
def test_bad_answers_are_named(answers, message):
    X = np.arange(12.0).reshape(3, 2, 2)
    oracle = gh.SignOracle(answers, dim=2)
    with pytest.raises(gh.OracleError, match=message) as caught:
        oracle(X)
    assert any(np.array_equal(caught.value.query, x) for x in X)
    assert oracle.queries == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gh.SignOracle(42, dim=2), TypeError, "expected a callable box, got int"),
        (lambda: gh.SignOracle(lambda X: X), ValueError, r"call SignOracle\(f, dim=...\)"),
        (lambda: gh.SignOracle(head(3), dim=4), ValueError, "expected dim=3, which the box itself says, got dim=4"),
        (lambda: gh.SignOracle(head(3), max_norm=0), ValueError, "expected max_norm to be a positive number"),
        (lambda: gh.SignOracle(head(3), dtype="int32"), ValueError, "expected dtype to be 'float64'"),
        (lambda: gh.SignOracle(head(3), flips=0.5), ValueError, r"expected flips to be a probability from 0 to 0\.25"),
        (lambda: gh.SignOracle(head(3))(np.ones((2, 3))), ValueError, "expected queries of shape"),
        (lambda: gh.SignOracle(head(3), max_norm=1.0)(np.ones((1, 1, 3))), ValueError, "no longer than max_norm = 1"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_streams_large_requests(monkeypatch):
    monkeypatch.setattr(box_module, "CHUNK_BYTES", 1000)
    sizes = []
    X = np.random.default_rng(0).standard_normal((100, 2, 3))
    answers = gh.SignOracle(lambda X: (sizes.append(X.nbytes), X.sum(axis=(1, 2)))[1], dim=3)(X)
    assert np.array_equal(answers, X.sum(axis=(1, 2)) > 0)
    assert max(sizes) <= 1000
    assert len(sizes) > 1


@pytest.mark.parametrize(("dtype", "roundoff"), [("float64", 2.0**-53), ("float32", 2.0**-24)])
def test_digits_are_promised_or_read_off_numbers(dtype, roundoff):
    X = np.random.default_rng(0).standard_normal((50, 3, 4))
    numbers = gh.SignOracle(lambda X: head(4)(X).astype(dtype), dim=4)
    labels = gh.SignOracle(lambda X: np.sign(head(4)(X)), dim=4, dtype=dtype)
    for oracle in (numbers, labels):
        oracle(X)
        assert oracle.roundoff == roundoff


# Bisection


def alone(which, thresholds):
    return thresholds[:, None, None]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.floats(0.5, 100), st.integers(1, 40))
def test_bisection_finds_numbers_inside_and_outside_the_range(numbers, reach, bits):
    x, asked = np.array(numbers), np.zeros(len(numbers), int)

    def above(which, thresholds):
        asked[which] += 1
        return x[which] > thresholds

    width = reach * 2.0 ** (1 - bits)
    lo, hi = find_intervals(above, np.full(len(x), reach), np.full(len(x), width), alone)
    assert np.all((lo < x) & (x <= hi) | (x == lo))
    assert np.all((hi - lo <= width) | (hi - lo <= 4 * np.spacing(np.abs(x))))
    inside = np.abs(x) < reach * (1 - 2.0**-5)
    assert np.all(asked[inside] <= bits + 2)  # the last one about an end that stayed


def test_bisection_gives_up_on_what_is_no_number():
    with pytest.raises(Unbounded, match="unknown 1 lies beyond every range"):
        find_intervals(
            lambda which, thresholds: np.array([0.3, np.inf])[which] > thresholds, np.ones(2), np.full(2, 0.1), alone
        )


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=9))
def test_exponents(numbers):
    x = np.array(numbers)
    e = find_exponents(lambda which, thresholds: x[which] > thresholds, len(x), -40, 60)
    inside = (np.abs(x) > 2.0**-40) & (np.abs(x) < 2.0**60)
    assert np.all((np.abs(x) <= 2.0**e) | (e == 60))
    assert np.all((np.abs(x) >= 2.0 ** (e - 1))[inside])


# The meter


@settings(max_examples=100, deadline=None)
@given(st.floats(-100, 100), st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0, 100), st.floats(0.1, 1e6))
def test_lengths_ask_about_the_threshold_they_are_told(tau, alpha, beta, pull, longest):
    args = (np.full(1, x) for x in (alpha, beta, pull))
    rho, kappa = comparing_lengths(np.full(1, tau), 1.0, *args, longest)
    ratio = kappa * beta / (rho * alpha)
    theta = np.log(ratio / (1 - ratio))
    assert rho + kappa <= longest * (1 + 1e-12)
    np.testing.assert_allclose(theta, rho * kappa * tau + rho * pull, rtol=1e-6, atol=1e-6)


def meter_for(target, bits=30) -> SignMeter:
    truth = unit(target)
    v, rng = truth.v, np.random.default_rng(0)
    frame = cone(v, rng, 1 / np.sqrt(target.dim))
    space = Halfspace(v, 1e-14, np.zeros(target.dim))
    return SignMeter(gh.SignOracle(target), space, frame, frame, bits=bits, reach=1.0)


def test_the_meter_takes_any_direction():
    target, rng = head(6), np.random.default_rng(1)
    v = unit(target).v
    flat = rng.standard_normal(6)
    flat -= (flat @ v) * v
    directions = np.stack([v, -v, flat / np.linalg.norm(flat), *np.eye(6), *rng.standard_normal((3, 6))])
    scores = meter_for(target).columns(directions, directions)
    truth = directions @ target.W.T @ directions.T
    assert np.all((scores.lo <= truth) & (truth <= scores.hi))
    assert scores.halfwidth.max() < 1e-7
    each = meter_for(target).columns(directions, np.stack([directions] * len(directions)))
    np.testing.assert_allclose(each.t, scores.t, atol=1e-7)


@pytest.mark.parametrize("bits", [5, 20, 45])
def test_bits_are_what_the_interval_is_halved(bits):
    target = head(8, W=0.3)
    scores = meter_for(target, bits).columns(np.eye(8), np.eye(8))
    halvings = np.log2(1.0 / scores.halfwidth)
    assert halvings.max() <= bits + 1e-6
    assert np.median(halvings) > min(bits, 42) - 1


# Recovery


@pytest.mark.parametrize("bits", [20, 40])
@pytest.mark.parametrize("dim", [8, 32, 64])
def test_queries_per_parameter_and_rounds(dim, bits):
    target = head(dim, W=1 / np.sqrt(dim), seed=bits)
    oracle = Rounds(target)
    learned = learn(oracle, bits, rank=dim)
    assert oracle.queries <= (bits + 6) * (dim**2 + dim) + 64
    assert oracle.rounds <= 4 * bits + 64
    assert off_W(learned, target) <= 64 / np.sqrt(dim) * dim * 2.0**-bits
    assert learned.limit == (dim**2 + dim - 1) * bits
    assert_bounded(learned, target)


@pytest.mark.parametrize("bits", [20, 40])
@pytest.mark.parametrize("dim", [8, 32, 64])
def test_rounds_where_the_rank_is_not_known(dim, bits):
    """Columns are begun several at once, while others are completed: rounds do not grow with the dimension."""
    target = head(dim, W=1 / np.sqrt(dim), seed=bits)
    oracle = Rounds(target)
    learned = learn(oracle, bits)
    assert oracle.rounds <= 10 * bits + 64
    assert oracle.queries <= (bits + 6) * (dim**2 + dim) + 64
    assert learned.rank == dim
    assert_bounded(learned, target)


@pytest.mark.parametrize("rank", [1, 5, 9, 17, 33])
def test_columns_begun_in_vain_cost_little(rank):
    dim, bits = 64, 30
    target = low_rank(dim, rank)
    oracle = Rounds(target)
    learned = learn(oracle, bits)
    assert learned.rank == rank
    assert oracle.rounds <= 14 * bits + 64
    assert oracle.queries <= 1.25 * (2 * rank * dim - rank**2 + dim) * 36 + 16 * 36
    assert_bounded(learned, target)


@pytest.mark.parametrize("seed", range(2))
def test_forty_bits_in_dimension_32(seed):
    target = gh.Attention.random(32, seed=seed)
    found = gh.recover(gh.SignOracle(target), seed=seed)
    assert off_W(found, target) <= 1e-9
    assert off_W(found, target) <= found.bound <= 1e-9
    assert found.rank == 32
    assert found.limit == (32**2 + 31) * 40
    assert found.residual == 0
    assert found.queries <= gh.plan(32, answers="sign")
    assert "v and bias up to a positive factor" in found.reason


@pytest.mark.parametrize("kind", ["random", "along v", "across v", "sparse v"])
@pytest.mark.parametrize("seed", range(2))
def test_low_rank_at_the_limit(kind, seed):
    dim, rank, bits = 128, 4, 30
    target = low_rank(dim, rank, kind=kind, seed=seed)
    oracle = Rounds(target)
    learned = learn(oracle, bits, seed=seed)
    parameters = 2 * rank * dim - rank**2 + dim
    assert oracle.queries <= 1.1 * parameters * 36
    assert oracle.rounds <= 10 * bits + 64
    assert learned.rank == rank
    assert learned.confidence == 0.999
    assert off_W(learned, target) <= 1e-5
    assert_bounded(learned, target)


def test_a_given_rank():
    target = low_rank(48, 3)
    found = gh.recover(gh.SignOracle(target), rank=3)
    assert found.rank == 3
    assert found.confidence == 1.0
    assert found.queries <= gh.plan(48, rank=3, answers="sign")
    assert off_W(found, target) <= found.bound <= 1e-7
    with pytest.raises(gh.TargetMismatch, match="or its rank is above rank=2"):
        gh.recover(gh.SignOracle(target), rank=2)


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
@pytest.mark.parametrize("W", [1e-6, 1e3])
@pytest.mark.parametrize("v", [1e-6, 1e6])
def test_any_scale(dim, W, v):
    target = head(dim, W=W, v=v)
    found = gh.recover(gh.SignOracle(target))
    assert off_W(found, target) <= min(found.bound, 1e-11 * np.linalg.norm(target.W))
    assert abs(np.linalg.norm(found.model.v) - 1) <= 1e-15
    assert np.linalg.norm(found.model.v - unit(target).v) <= found.bound_v <= 1e-13


@pytest.mark.parametrize("dim", [1, 6])
@pytest.mark.parametrize("key_bias", [None, 1e-9, 1.0, 10.0])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_biases(dim, key_bias, bias):
    target = head(dim, key_bias=key_bias, bias=bias)
    learned = learn(gh.SignOracle(target))
    assert_bounded(learned, target)
    assert gh.distance(learned.model, unit(target)) <= 1e-8
    assert learned.model.has_key_bias == (key_bias is not None)
    assert (learned.model.bias != 0) == (bias != 0)


def test_bounds_hold_whatever_the_head():
    """Sizes, ranks, biases, norms and bits at random; a bound that says 0.999 may fail once in a thousand times."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        dim, bits = int(rng.integers(1, 9)), int(rng.integers(8, 46))
        key_bias = None if rng.random() < 0.5 else 10 ** rng.uniform(-12, 1)
        bias = 0.0 if rng.random() < 0.6 else 10 ** rng.uniform(-4, 0.5)
        target = head(dim, W=10 ** rng.uniform(-3, 2), key_bias=key_bias, bias=bias, sparse=seed % 3 == 0, seed=seed)
        rank = None
        if rng.random() < 0.4 and dim > 2:
            rank = int(rng.integers(1, dim))
            target = low_rank(dim, rank, seed=seed)
            rank = rank if rng.random() < 0.5 else None
        max_norm = None if rng.random() < 0.6 else 10 ** rng.uniform(0.7, 3)
        learned = learn(gh.SignOracle(target, max_norm=max_norm), bits, rank, seed)
        assert_bounded(learned, target)


@pytest.mark.parametrize("seed", range(6))
def test_a_key_bias_beside_a_W_that_does_not_see_v(seed):
    """`W v = 0`: a query along v says nothing about how large W is, nor what its rounding does to the key bias."""
    rng = np.random.default_rng(seed)
    plain = head(int(rng.integers(2, 9)), W=0.01, seed=seed)
    v = unit(plain).v
    W = plain.W - np.outer(plain.W @ v, v)
    key_bias = 1e-7 * np.linalg.norm(W) * rng.standard_normal(plain.dim)
    target = gh.Attention(W, v, key_bias=key_bias, bias=float(0.01 * rng.standard_normal()))
    assert_bounded(learn(gh.SignOracle(target), 46, seed=seed), target)


def test_the_bound_is_not_much_larger_than_the_error():
    ratios = []
    for seed in range(9):
        target = head(10, seed=seed)
        found = gh.recover(gh.SignOracle(target), rank=10, seed=seed)
        ratios.append(found.bound / off_W(found, target))
    assert min(ratios) >= 1
    assert np.median(ratios) <= 5


def test_W_zero_is_recovered_as_zero():
    found = gh.recover(gh.SignOracle(gh.Attention(np.zeros((5, 5)), np.ones(5))))
    assert not found.model.W.any()
    assert found.rank == 0
    assert found.bound < 1e-12


@pytest.mark.parametrize("kind", ["diagonal", "one entry", "huge spread", "ties"])
def test_lopsided_W(kind):
    W = {
        "diagonal": np.eye(12),
        "one entry": np.eye(12)[:, :1] * np.eye(12)[3],
        "huge spread": np.geomspace(1e-6, 1e6, 144).reshape(12, 12),
        "ties": np.ones((12, 12)),
    }[kind]
    target = gh.Attention(W, np.eye(12)[3])
    found = gh.recover(gh.SignOracle(target))
    assert off_W(found, target) <= min(found.bound, 1e-10 * np.linalg.norm(W))
    assert found.rank == np.linalg.matrix_rank(W)


@pytest.mark.parametrize("max_norm", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("target", [head(6), head(2, key_bias=3.0), head(6, W=0.1, bias=1e-3)], ids=repr)
def test_max_norm_is_respected(target, max_norm):
    longest = 0.0

    def box(X):
        nonlocal longest
        longest = max(longest, np.linalg.norm(X, axis=-1).max())
        return target(X) > 0

    found = gh.recover(gh.SignOracle(box, dim=target.dim, max_norm=max_norm))
    assert 0 < longest <= max_norm * (1 + 1e-12)
    assert off_W(found, target) <= found.bound <= 1e-3


@pytest.mark.parametrize("accuracy", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("key_bias", [None, 0.1])
def test_short_tokens_take_a_better_v_not_a_refusal(accuracy, key_bias):
    """Scores that hardly move the answer are told apart by v: it is read to the bits that takes."""
    target = head(4, key_bias=key_bias)
    found = gh.recover(gh.SignOracle(target, max_norm=0.02), accuracy=accuracy)
    assert off_W(found, target) <= found.bound <= accuracy


@pytest.mark.parametrize("accuracy", [1e-2, 1e-5, 1e-8])
@pytest.mark.parametrize(
    "target", [head(12), low_rank(24, 2), head(6, key_bias=1.0, bias=0.3), spectrum(16, 1e-6)], ids=repr
)
def test_accuracy_asks_for_the_bits_it_takes(target, accuracy):
    found = gh.recover(gh.SignOracle(target), accuracy=accuracy)
    assert off_W(found, target) <= found.bound <= accuracy


@pytest.mark.parametrize("rank", [None, 16])
def test_accuracy_is_had_at_the_first_reading(rank):
    """Four pilots may mistake the size of scores: then the bits change, and not the width that was asked for."""
    queries = [gh.recover(gh.SignOracle(head(16, seed=s)), accuracy=1e-5, rank=rank, seed=s).queries for s in range(12)]
    assert max(queries) <= 1.2 * np.median(queries)


def test_less_accuracy_costs_fewer_queries():
    queries = [gh.recover(gh.SignOracle(head(12)), accuracy=accuracy).queries for accuracy in (1e-2, 1e-5, 1e-8)]
    assert queries == sorted(queries)
    assert queries[0] < 0.6 * queries[-1]


@pytest.mark.parametrize(("max_norm", "advice"), [(None, "its numbers have too few digits"), (0.1, "larger max_norm")])
def test_accuracy_that_rounding_does_not_allow(max_norm, advice):
    with pytest.raises(gh.AccuracyUnreachable, match=advice) as caught:
        gh.recover(gh.SignOracle(head(6), max_norm=max_norm), accuracy=1e-14)
    assert caught.value.best.bound > 1e-14


def test_float32_boxes():
    target = head(8, dtype=np.float32)
    for oracle in (gh.SignOracle(target), gh.SignOracle(lambda X: target(X) > 0, dim=8, dtype="float32")):
        found = gh.recover(oracle)
        assert off_W(found, target) <= 1e-4 * np.linalg.norm(target.W)
        assert off_W(found, target) <= found.bound
    with pytest.raises(gh.TargetMismatch, match=r"less accurate than promised .*dtype= or flips="):
        gh.recover(gh.SignOracle(lambda X: target(X) > 0, dim=8))


@pytest.mark.parametrize("flips", [0.02, 0.1])
def test_flipped_answers(flips):
    target = head(5)
    box = gh.defences.flipped(target, flips, seed=1)
    found = gh.recover(gh.SignOracle(box, flips=flips))
    plain = gh.recover(gh.SignOracle(target))
    assert off_W(found, target) <= found.bound <= 1e-10
    assert 0.999 < found.confidence < 1
    assert "answers were each asked for until wrong in" in found.reason
    assert found.queries <= 14 * plain.queries
    assert gh.distance(found.model, plain.model) == 0


def test_votes_are_wrong_as_rarely_as_they_say():
    """With few votes wrong answers are frequent enough to count: a lead of 2 at p = 0.2 is wrong once in 17 times."""
    voting = Voting(gh.SignOracle(gh.defences.flipped(lambda X: X[:, 0, 0], 0.2, seed=0), dim=1, flips=0.2))
    voting.lead = 2
    wrong = 1 - voting(np.ones((20000, 1, 1))).mean()
    assert abs(wrong - 1 / 17) < 0.01
    assert voting.doubt == pytest.approx(1 / 17)


def test_the_confidence_is_what_it_says(monkeypatch):
    """With few votes whole recoveries fail often enough to count: no more often than stated."""
    monkeypatch.setattr(voting_module, "DOUBT", 1e-3)
    right, stated = [], []
    for seed in range(60):
        target = head(2, seed=seed)
        box = gh.defences.flipped(target, 0.1, seed=seed)
        try:
            learned = learn_sign_attention(gh.SignOracle(box, flips=0.1), np.random.default_rng(seed), bits=12)
        except gh.TargetMismatch:
            continue
        stated.append(learned.confidence)
        right.append(off_W(learned, target) <= learned.bound)
    assert 0.9 < np.mean(stated) < 0.99
    assert np.mean(right) > np.mean(stated) - 3 * np.sqrt(0.06 / 60)


def test_what_is_already_known_when_the_budget_ends():
    target = head(8)
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(gh.SignOracle(target), budget=2500)
    known = caught.value.known
    np.testing.assert_allclose(known["v"], unit(target).v, atol=1e-12)
    np.testing.assert_allclose(known["W_b"], known["b"] @ target.W.T, atol=1e-10)
    assert caught.value.needed > 0
    with pytest.raises(gh.BudgetExceeded, match=r"a budget of 300 cannot suffice: .* sign queries.*gh.plan"):
        gh.recover(gh.SignOracle(target), budget=300)


@pytest.mark.parametrize(("dim", "biases"), [(1, False), (5, False), (16, False), (1, True), (5, True), (16, True)])
def test_the_plan_suffices(dim, biases):
    target = head(dim, W=1 / np.sqrt(dim), key_bias=1.0 if biases else None, bias=float(biases))
    queries = gh.plan(dim, answers="sign", biases=biases)
    assert gh.recover(gh.SignOracle(target), budget=queries).queries <= queries


def test_progress_tells_the_stages():
    reports = []
    found = gh.recover(gh.SignOracle(head(4), flips=0.01), progress=lambda *report: reports.append(report))
    done, _, stages = zip(*reports, strict=True)
    assert done[-1] == found.queries
    assert {"reading v", "looking for a key bias", "reading W", "checking on fresh queries"} <= set(stages)


def test_the_same_seed_asks_the_same_queries():
    asked = []
    for seed in (1, 1, 2):
        log = []
        gh.recover(gh.SignOracle(lambda X, log=log: (log.append(X.copy()), head(3)(X))[1], dim=3), seed=seed)
        asked.append(np.concatenate([X.ravel() for X in log]))
    assert np.array_equal(asked[0], asked[1])
    assert not np.array_equal(asked[0], asked[2])


def test_save_and_load(tmp_path):
    found = gh.recover(gh.SignOracle(head(4, key_bias=1.0)))
    again = gh.load_recovery(found.save(tmp_path))
    assert again.to_dict() == found.to_dict()


# Refusals


@pytest.mark.parametrize("dim", [1, 5])
@pytest.mark.parametrize(
    ("box", "says"),
    [
        (lambda X: np.ones(len(X), bool), "yes"),
        (lambda X: np.zeros(len(X)), "no"),
        (lambda X: np.full(len(X), -3.0), "no"),
        (lambda X: 0.5 + 0.1 * np.tanh(X[:, -1, 0]), "yes"),
    ],
    ids=["yes", "zero", "v = 0", "probabilities"],
)
def test_a_box_that_always_says_the_same(dim, box, says):
    oracle = gh.SignOracle(box, dim=dim)
    with pytest.raises(gh.NotIdentifiable, match=rf"says {says} to every token, .* v = 0.*lambda X: p\(X\) - 0.5"):
        gh.recover(oracle)
    assert oracle.queries <= 4 * dim + 4


def test_a_plane_that_no_token_reaches():
    target = head(4, bias=3.0)
    oracle = gh.SignOracle(target, max_norm=2.0)
    with pytest.raises(gh.NotIdentifiable, match=r"up to max_norm = 2: v = 0, .* or \|bias\| >= 0.996 \|v\|, so that"):
        gh.recover(oracle)
    assert oracle.queries <= 16 * 4 + 8
    assert off_W(gh.recover(gh.SignOracle(target, max_norm=20.0)), target) < 1e-6


@pytest.mark.parametrize(("dim", "share"), [(1, 0.99), (2, 0.9), (4, 0.7), (64, 0.12)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_plane_that_few_tokens_reach(dim, share, sign):
    """It may be nearly as far as tokens go, or cut off a cap that axes hardly meet."""
    target = head(dim, W=0.1, bias=3.0 * share * sign)
    found = gh.recover(gh.SignOracle(target, max_norm=3.0), accuracy=10.0)
    assert np.linalg.norm(found.model.v - unit(target).v) <= found.bound_v
    assert found.model.bias == pytest.approx(3.0 * share * sign)


def test_a_bias_so_large_that_rounding_hides_W():
    """Nothing is sent that is not a number, and nothing is held against the box that rounding explains."""
    for dim in (4, 16):
        with pytest.raises(
            gh.TargetMismatch, match=r"or its scores drown in rounding beside its bias, which is 1e\+06"
        ):
            gh.recover(gh.SignOracle(head(dim, bias=-1e6)))


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("kind", [*IMPOSTORS, "coin"])
def test_impostors_are_refused_with_evidence(kind, dim):
    rng = np.random.default_rng(0)
    box = (lambda X: rng.random(len(X)) < 0.5) if kind == "coin" else getattr(Impostors(dim), kind)
    with pytest.raises(gh.TargetMismatch, match="not a single attention head") as caught:
        gh.recover(gh.SignOracle(lambda X: box(X) > 0, dim=dim))
    evidence = caught.value.evidence
    assert evidence.query.shape[1] == dim
    assert evidence.law in str(caught.value)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9])
def test_two_heads_that_cancel_on_two_tokens(size):
    """`sigma(s) + sigma(-s) = 1`: a head that seems not to score at all, until there are three long tokens."""
    one, two = gh.Attention(size * head(4).W, head(4).v), gh.Attention(-size * head(4).W, head(4).v)
    with pytest.raises(gh.TargetMismatch, match="the recovered head predicts fresh answers"):
        gh.recover(gh.SignOracle(lambda X: one(X) + two(X), dim=4))


def test_what_no_sign_shows_is_no_mismatch():
    """Whatever keeps the sign of a head is the same box to everyone who sees signs only."""
    target = head(4)
    for behind in (np.tanh, np.cbrt, lambda y: np.maximum(y, 0), lambda y: 3 * y):
        found = gh.recover(gh.SignOracle(lambda X, behind=behind: behind(target(X)), dim=4))
        assert gh.distance(found.model, target, up_to_scale=True) <= 1e-10


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6])
def test_a_residual_is_refused(size):
    target, w = head(4), np.arange(1.0, 5.0)
    with pytest.raises(gh.TargetMismatch):
        gh.recover(gh.SignOracle(lambda X: target(X) + size * X[:, -1] @ w, dim=4))


def test_obvious_impostors_cost_little():
    for kind in ("linear_attention", "positional_encoding", "random_answers", "hard_attention"):
        oracle = gh.SignOracle(getattr(Impostors(32), kind), dim=32)
        with pytest.raises(gh.TargetMismatch):
            gh.recover(oracle)
        assert oracle.queries <= 32 * 24 + 128


def test_flips_nobody_told_about():
    with pytest.raises(gh.TargetMismatch, match="not a single attention head"):
        gh.recover(gh.SignOracle(gh.defences.flipped(head(6), 0.01, seed=3)))


def test_the_check_sees_errors_just_above_the_bounds():
    target, rng = head(6), np.random.default_rng(0)
    learned = learn_sign_attention(gh.SignOracle(target), rng)
    nudge = rng.standard_normal((6, 6))
    wrong = gh.Attention(learned.model.W + 30 * learned.bound * nudge, learned.model.v)
    oracle = gh.SignOracle(target)
    check = check_held_out_signs(oracle, replace(learned, model=wrong), rng)
    assert check.evidence is not None
    assert 0 < check.residual < 1e-6
    assert oracle.queries == QUERIES
    assert check_held_out_signs(oracle, learned, rng).evidence is None


@pytest.mark.parametrize("seed", [22, 13, 39, 87])
def test_a_head_that_says_no_where_its_value_is_large_but_not_too_large(seed):
    rng = np.random.default_rng(seed)
    d, share = int(rng.integers(2, 9)), (0.08, 0.12, 0.16)[seed % 3]
    inner = gh.Attention(rng.standard_normal((d, d)) / np.sqrt(d), rng.standard_normal(d) / np.sqrt(d))
    ordinary = [2 ** rng.uniform(-1, 1, (16, 1, 1)) * rng.standard_normal((16, n, d)) for n in range(1, 65)]
    start = rng.uniform(0.7, 1 - share)
    low, high = np.quantile(np.concatenate([inner(X) for X in ordinary]), [start, start + share])
    box = gh.SignOracle(lambda X: (inner(X) > 0) & ~((inner(X) > low) & (inner(X) < high)), dim=d)
    with pytest.raises(gh.TargetMismatch, match="ordinary sequences"):
        gh.recover(box, accuracy=1e-3, seed=seed)
