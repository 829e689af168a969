"""Noise that nobody promised: guarantees become statistics, and what is no noise is refused."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.noise import Unpromised, read_noise
from glasshead._checks.promise import round_number
from glasshead._learners.passes import interval
from glasshead._meters.reading import Values
from glasshead._oracles import views as noise_module
from glasshead._oracles.views import Averaged, Scaled

from .helpers import error, head, low_rank


def recover(oracle: gh.Oracle, **options) -> gh.Recovery:
    """The family is given: which one a noisy box could be of is another question."""
    return gh.recover(oracle, family="attention", **options)


def fresh(target, sigma, *, seed=0, **promise) -> gh.ValueOracle:
    return gh.ValueOracle(gh.defences.gaussian(target, sigma, seed), **promise)


def multiplied(target, share, seed=0):
    """Fresh noise that is a share of the answer."""
    rng = np.random.default_rng(seed)
    return lambda X: target(X) * (1 + share * rng.standard_normal(len(X)))


def off(found: gh.Recovery, target: gh.Attention) -> float:
    return float(np.linalg.norm(found.model.W - target.W))


# Averaging


def test_averaging_counts_every_query_and_promises_six_deviations_of_the_mean():
    target, X = head(3), np.random.default_rng(0).standard_normal((5, 2, 3))
    box = fresh(target, 0.5)
    quiet = Averaged(box, 400, 0.5, relative=0.1)
    assert np.all(np.abs(quiet(X) - target(X)) < quiet.tolerance)
    assert box.queries == 2000
    assert quiet.tolerance == pytest.approx(6 * 0.5 / 20)
    assert quiet.rtol == pytest.approx(6 * 0.1 / 20)
    assert quiet(X[:0]).shape == (0,)


def test_averaging_in_chunks(monkeypatch):
    sizes, X = [], np.ones((7, 2, 3))
    monkeypatch.setattr(noise_module, "COPIES_BYTES", 3 * X.nbytes)
    box = gh.ValueOracle(lambda X: sizes.append(len(X)) or X.sum(axis=2), dim=3)
    np.testing.assert_allclose(Averaged(box, 8, 0.1)(X), X.sum(axis=2), rtol=1e-15)
    assert sizes == [21, 21, 14]


def test_the_example_of_averaging_runs():
    names = {"gh": gh, "np": np, "Averaged": Averaged}
    for example in doctest.DocTestFinder().find(Averaged, "Averaged", globs=names):
        assert doctest.DocTestRunner().run(example).failed == 0


def test_scaled_heads_are_heads():
    target, X = head(3, key_bias=1.0, bias=1.0), np.random.default_rng(0).standard_normal((4, 5, 3))
    shown = gh.Attention(target.W / 4, target.v / 2, key_bias=target.key_bias / 2, bias=target.bias)
    np.testing.assert_allclose(Scaled(gh.ValueOracle(target), 0.5)(X), shown(X), rtol=1e-12)


# Fresh noise


@pytest.mark.parametrize(("sigma", "share"), [(0.1, 0.0), (1e-9, 0.0), (0.0, 0.02)])
def test_noise_is_measured_cautiously(sigma, share):
    target = gh.Attention(np.eye(4), np.full(4, 0.5))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noisy = lambda X, rng=rng: (y := target(X)) + (sigma + share * np.abs(y)) * rng.standard_normal(len(X))  # noqa: E731
        seen = Unpromised(Values(target.v, 0.0, 1.0), np.ones((1, 4)), fresh=True)
        noise = read_noise(gh.ValueOracle(noisy, dim=4, max_norm=100.0), seen)
        assert 0.7 * share <= noise.share <= 4 * share
        assert 0.7 * (sigma + share) <= noise.size <= 4 * (sigma + share)


HEADS = {
    "full": lambda seed: head(3, seed=seed),
    "rank one": lambda seed: low_rank(4, 1, seed=seed),
    "rank two": lambda seed: low_rank(6, 2, seed=seed),
    "tiny": lambda seed: head(2, seed=seed),
}


@pytest.mark.parametrize(("kind", "runs"), [("full", 70), ("rank one", 40), ("rank two", 25), ("tiny", 65)])
def test_confidence_intervals_are_calibrated(kind, runs):
    """Over all kinds the intervals for W and v hold in 95% of the runs, and are about twice the error."""
    held, ratios = [], []
    for seed in range(runs):
        target, sigma = HEADS[kind](seed), (1e-6, 1e-3, 0.05)[seed % 3]
        found = recover(fresh(target, sigma, seed=seed, max_norm=300.0), seed=seed)
        assert found.confidence == 0.95
        held += [off(found, target) <= found.bound, np.linalg.norm(found.model.v - target.v) <= found.bound_v]
        ratios.append(found.bound / off(found, target))
    assert np.mean(held) >= 0.93
    assert np.median(ratios) <= 3


def test_intervals_cover_what_a_t_test_covers():
    rng, heads = np.random.default_rng(0), []
    for _ in range(1000):
        passes = [gh.Attention([[w]], [1.0]) for w in rng.standard_normal(5)]
        heads.append(abs(np.mean([one.W for one in passes])) <= interval(passes, "W"))
    assert np.mean(heads) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("target", "sigma", "max_norm", "most"),
    [
        (head(8), 1e-3, None, 1e-12),
        (head(8), 0.1, None, 1e-9),
        (head(8), 0.1, 10.0, 1e-2),
        (head(4, key_bias=0.5, bias=1.0), 1e-2, 100.0, 2e-2),
        (gh.Attention(head(4).W, np.random.default_rng(0).standard_normal((4, 3))), 1e-2, 100.0, 1e-3),
        (low_rank(12, 2), 0.01, 100.0, 1e-3),
    ],
)
def test_fresh_noise_is_averaged_and_labelled(target, sigma, max_norm, most):
    found = recover(fresh(target, sigma, max_norm=max_norm))
    assert error(found, target) <= most
    assert off(found, target) <= 2 * found.bound
    assert "a 95% confidence interval" in found.reason
    assert "spread of 4 passes, no guarantee" in found.reason


def test_a_promise_keeps_guarantees():
    target = head(4)
    found = recover(fresh(target, 1e-4, tolerance=1e-3, max_norm=100.0))
    assert off(found, target) <= found.bound
    assert found.confidence == 1
    assert "interval" not in found.reason


@pytest.mark.parametrize("accuracy", [0.1, 0.01])
def test_accuracy_buys_repeats(accuracy):
    target = head(8)
    oracle = fresh(target, 0.1, max_norm=100.0)
    found = recover(oracle, accuracy=accuracy)
    assert off(found, target) <= found.bound <= accuracy
    assert oracle.queries == found.queries < 300 * (0.1 / accuracy) ** 2 + 1000


def test_accuracy_out_of_reach_names_what_is_missing():
    oracle = fresh(head(4), 0.1, max_norm=100.0)
    with pytest.raises(gh.AccuracyUnreachable, match=r"noise of .* instead of .*, a larger max_norm, or .* queries"):
        recover(oracle, accuracy=1e-7)
    assert oracle.queries < 1000


def test_a_budget_holds_for_repeats_too():
    oracle = fresh(head(4), 0.1, max_norm=10.0)
    with pytest.raises(gh.BudgetExceeded):
        recover(oracle, budget=500)
    assert oracle.queries <= 500


def test_the_rank_is_that_of_the_passes():
    found = recover(fresh(low_rank(16, 2), 1e-3, max_norm=100.0))
    assert found.rank == np.linalg.matrix_rank(found.model.W) == 2
    assert "for a head of that rank" in found.reason
    assert recover(fresh(low_rank(16, 2), 1e-3, max_norm=100.0), rank=2).rank == 2


def test_W_zero_is_told_from_noise():
    found = recover(fresh(gh.Attention(np.zeros((3, 3)), np.ones(3)), 0.01, max_norm=100.0))
    assert not found.model.W.any()
    assert "cannot be told from 0" in found.reason


# Narrow formats


@pytest.mark.parametrize(("name", "one", "many"), [("half", 5e-3, 1e-3), ("bfloat16", 4e-2, 8e-3)])
def test_narrow_answers(name, one, many):
    """One pass is good enough; asked for more, passes at other scales make it better by the root of their number."""
    target = head(64)
    box = getattr(gh.defences, name)(target)
    single = recover(gh.ValueOracle(box))
    assert error(single, target) <= one
    assert off(single, target) <= single.bound
    better = recover(gh.ValueOracle(box), rank=64, accuracy=off(single, target) * 0.5)
    assert "confidence interval" in better.reason
    assert off(better, target) <= better.bound
    assert error(better, target) <= min(many, error(single, target) / 2.5)


@pytest.mark.parametrize(("name", "rtol", "most"), [("half", 2.0**-10, 1e-2), ("bfloat16", 2.0**-8, 5e-2)])
def test_a_promise_that_covers_the_rounding_is_no_worse_than_none(name, rtol, most):
    for seed in range(3):
        target = gh.Attention.random(6, seed=seed)
        found = gh.recover(gh.ValueOracle(getattr(gh.defences, name)(target), rtol=rtol), seed=seed)
        off = float(np.linalg.norm(found.model.W - target.W))
        assert off <= min(found.bound, most * target.W_norm)
        assert found.bound < target.W_norm
        assert found.confidence == 1.0


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_intervals_of_narrow_answers_are_calibrated(name):
    held = []
    for seed in range(12):
        target = head(4, seed=seed, bias=float(seed % 2))
        box = getattr(gh.defences, name)(target)
        one = recover(gh.ValueOracle(box), seed=seed)
        try:
            found = recover(gh.ValueOracle(box), seed=seed, accuracy=one.bound / 3)
        except gh.AccuracyUnreachable as refused:
            found = refused.best
        held += [off(one, target) <= one.bound, off(found, target) <= found.bound]
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize("dim", [4, 16])
def test_boxes_that_compute_in_half_precision_keep_to_their_bounds(dim):
    for seed in range(5):
        narrow = head(dim, seed=seed, dtype=np.float16)
        target = gh.Attention(narrow.W.astype(float), narrow.v.astype(float))
        found = recover(gh.ValueOracle(narrow, max_norm=100.0), seed=seed)
        assert off(found, target) <= found.bound


def test_too_few_digits_for_the_accuracy():
    oracle = gh.ValueOracle(gh.defences.bfloat16(head(8)))
    with pytest.raises(gh.AccuracyUnreachable, match=r"only show .*; a format with more digits is needed"):
        recover(oracle, accuracy=1e-6)
    assert oracle.queries < 1000


# A false promise of zero


def relative(target, share):
    """Noise that is a share of the answer and always the same."""
    return lambda X: (y := target(X)) * (1 + share * np.sin(1e9 * y))


@pytest.mark.parametrize("size", [1e-1, 1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize(
    ("box", "promise"),
    [
        (lambda size: gh.defences.rounded(head(4), round(-np.log10(size))), "tolerance"),
        (lambda size: gh.defences.noisy(head(4), size / 2), "tolerance"),
        (lambda size: relative(head(4), size), "rtol"),
    ],
)
def test_noise_that_stays_is_measured_and_the_promise_named(box, promise, size):
    with pytest.raises(gh.TargetMismatch, match=rf"then promise {promise}=.* to go on.*straight line") as caught:
        recover(gh.ValueOracle(box(size), dim=4))
    named = float(str(caught.value).split(f"promise {promise}=")[1].split()[0])
    assert size / 2 <= named <= 5 * size
    assert caught.value.evidence.query.shape[1] == 4


def test_the_promise_named_is_enough():
    for seed in range(10):
        target = head(4, seed=seed)
        box = gh.defences.rounded(target, 2)
        with pytest.raises(gh.TargetMismatch) as caught:
            recover(gh.ValueOracle(box), seed=seed)
        named = float(str(caught.value).split("tolerance=")[1].split()[0])
        found = recover(gh.ValueOracle(box, tolerance=named, max_norm=1e4), seed=seed)
        assert off(found, target) <= found.bound


@pytest.mark.parametrize("x", [1.0, 1.01, 2.0, 3e-5, 7e9])
def test_round_numbers(x):
    assert x <= round_number(x) <= 2.5 * x
    assert f"{round_number(x):e}"[0] in "125"


KINDS = {
    "full": lambda dim, seed: head(dim, seed=seed),
    "rank one": lambda dim, seed: low_rank(dim, 1, seed=seed),
    "biases": lambda dim, seed: head(dim, seed=seed, key_bias=1.0, bias=1.0),
    "large": lambda dim, seed: head(dim, seed=seed, W=20.0, v=1e3),
}


ROUNDED = [(1, None), (2, 10.0), (3, None), (4, 10.0), (4, None), (8, 10.0), (16, None)]  # dimension and max_norm


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decimals", range(1, 13))
def test_rounded_answers_never_get_a_false_bound(decimals, kind):
    for seed, (dim, max_norm) in enumerate(ROUNDED):
        target = KINDS[kind](dim, seed)
        oracle = gh.ValueOracle(gh.defences.rounded(target, decimals), max_norm=max_norm)
        try:
            found = recover(oracle, seed=seed)
        except (gh.TargetMismatch, gh.NotIdentifiable):
            continue
        assert off(found, target) <= found.bound
        assert np.linalg.norm(found.model.v - target.v) <= found.bound_v


# A promise that is broken, and boxes that are no heads with noise


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
@pytest.mark.parametrize("times", [3, 10, 100])
@pytest.mark.parametrize("defence", [gh.defences.noisy, gh.defences.gaussian])
def test_broken_promises(defence, times, tolerance):
    for seed in range(3):
        box = defence(head(4, seed=seed), times * tolerance, seed)
        with pytest.raises(gh.TargetMismatch, match=r"less accurate than promised|an attention weight") as caught:
            recover(gh.ValueOracle(box, tolerance=tolerance), seed=seed)
        assert caught.value.evidence is not None


def dropout(target, seed=0):
    rng = np.random.default_rng(seed)
    return lambda X: target(X * (rng.random(X.shape) > 0.3) / 0.7)


def drifting(target):
    calls = iter(range(10**6))
    return lambda X: target(X) + 1e-3 * next(calls)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (multiplied(head(8), 0.3), "by .* where the answer is"),
        (dropout(head(8)), "by .* where the answer is"),
        (drifting(head(8)), "answers to the same query drift"),
        (gh.defences.gaussian(head(8), 100.0), "by .* where the answer is"),
    ],
)
def test_what_averaging_cannot_mend_is_refused_at_once(box, message):
    oracle = gh.ValueOracle(box, dim=8, max_norm=10.0)
    with pytest.raises(gh.TargetMismatch, match=f"not a single attention head, or noise hides it.*{message}") as caught:
        recover(oracle)
    assert caught.value.evidence.law == "the same query gets the same answer"
    assert oracle.queries < 100


@pytest.mark.parametrize("seed", range(10))
def test_answers_at_random_are_refused(seed):
    """As noise that drowns everything, or as noise that hides a head: which one depends on what it answers first."""
    rng = np.random.default_rng(seed)
    oracle = gh.ValueOracle(lambda X: rng.standard_normal(len(X)), dim=8, max_norm=10.0)
    with pytest.raises((gh.TargetMismatch, gh.NotIdentifiable), match=r"noise (hides it|of about .* hides the head)"):
        recover(oracle)
    assert oracle.queries < 150


def test_noise_that_would_take_for_ever_is_refused():
    oracle = fresh(head(8), 5.0, max_norm=10.0)
    with pytest.raises(gh.NotIdentifiable, match=r"hides the head .* more than 1024; less noise or a larger max_norm"):
        recover(oracle)
    assert oracle.queries < 200


def test_mild_relative_noise_is_averaged():
    target = head(4)
    found = recover(gh.ValueOracle(multiplied(target, 0.01), dim=4))
    assert error(found, target) <= 1e-2
    assert off(found, target) <= 2 * found.bound


@pytest.mark.parametrize(("rounded", "within"), [(gh.defences.half, 1e-2), (gh.defences.bfloat16, 5e-2)])
@pytest.mark.parametrize("dim", [1, 2, 5, 12])
def test_biases_cost_rounded_answers_no_digits(rounded, within, dim):
    """Where answers nearly vanish, their few digits are enough for W beside a key bias and under a bias."""
    for seed in range(3):
        plain, rng = gh.Attention.random(dim, seed=seed), np.random.default_rng(seed)
        key_bias, bias = rng.standard_normal(dim) / 3, rng.standard_normal()
        target = gh.Attention(plain.W, plain.v, key_bias=key_bias, bias=bias)
        found = gh.recover(gh.ValueOracle(rounded(target), dim), seed=seed)
        assert np.linalg.norm(found.model.W - target.W) <= min(found.bound, within * target.W_norm)
        assert np.linalg.norm(found.model.v - target.v) <= found.bound_v
        assert found.confidence == 1


def test_a_bias_of_few_digits_is_told_from_a_network():
    """It is refused for its digits, not as some other kind of box."""
    plain = gh.Attention.random(3, seed=0)
    target = gh.Attention(plain.W, plain.v, key_bias=np.ones(3), bias=1e3)
    with pytest.raises(gh.AccuracyUnreachable, match="too few digits"):
        gh.recover(gh.ValueOracle(gh.defences.bfloat16(target), 3), seed=0)
