"""Answers beside what was expected of them: how far apart, and which one is shown."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import held_out, one_head
from glasshead._checks.compared import Compared
from glasshead._learned import LearnedHead, LearnedVector, suited_length
from tests.meters.promises import Promising

X = list(np.random.default_rng(0).standard_normal((3, 2, 4)))


def test_the_largest_error_of_each_answer_counts():
    compared = Compared(
        X, np.array([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]]), np.array([[1.0, 2.5], [3.0, 4.0], [4.0, -6.0]]), 0.75
    )
    np.testing.assert_allclose(compared.off, [0.5, 0.0, 1.0])
    np.testing.assert_allclose(compared.excess, [2 / 3, 0.0, 4 / 3])
    assert not compared.holds
    assert compared.largest == 6.0
    assert compared.residual() == pytest.approx(1 / 6)
    assert compared.residual(np.array([1.0, 1.0, 10.0])) == pytest.approx(0.5)
    evidence = compared.evidence("a law")
    assert evidence.law == "a law"
    assert evidence.query is X[2]
    assert evidence.expected == "expected 4 within 0.75 as output 0"
    assert evidence.got == "5"


def test_each_answer_may_have_an_allowance_of_its_own():
    compared = Compared(X, np.array([1.0, 2.0, 3.0]), np.array([1.1, 2.3, 3.0]), np.array([0.2, 0.2, 0.0]))
    np.testing.assert_allclose(compared.excess, [0.5, 1.5, 0.0])
    assert compared.evidence("a law").expected == "expected 2.3 within 0.2"
    assert Compared(X, np.ones(3), np.ones(3), 0.0).evidence("a law") is None


def test_where_nothing_is_allowed_any_difference_is_too_much():
    compared = Compared(X, np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0 + 1e-12]))
    assert list(compared.excess) == [0.0, 0.0, np.inf]
    assert not compared.holds


def test_exactly_what_is_allowed_holds():
    assert Compared(X, np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 3.0]), 0.5).holds


def test_answers_of_nothing_have_a_residual():
    assert Compared(X, np.zeros(3), np.zeros(3)).residual() == 0.0
    assert Compared(X, np.zeros(3), np.array([0.0, 0.25, 0.0])).residual() == 0.25


@pytest.mark.parametrize("said", [True, False])
def test_yes_and_no_are_shown_as_such(said):
    got = np.array([True, False, said])
    want = np.array([True, False, not said])
    evidence = Compared(X, got, want).evidence("a law")
    assert (evidence.expected, evidence.got) == (f"expected {'no' if said else 'yes'}", "yes" if said else "no")


# Fresh sequences.


def test_fresh_sequences_have_all_lengths_and_the_last_is_asked_twice():
    oracle = Promising(5, lambda X: X.sum(axis=(1, 2)), roundoff=2.0**-20)
    fresh = held_out.read_fresh(oracle, (3.0, 30.0), np.random.default_rng(0))
    assert [X.shape[:2] for X in oracle.asked] == [
        (1, 1),
        (2, 2),
        (2, 4),
        (2, 16),
        (2, 64),
        (1, 64),
    ]
    assert oracle.queries == held_out.QUERIES == 10
    assert len(fresh.X) == len(fresh.got) == 9
    np.testing.assert_array_equal(oracle.asked[-1][0], oracle.asked[-2][1])
    np.testing.assert_array_equal(fresh.again, fresh.got[-1:])
    longest = [np.linalg.norm(x, axis=1).max() for x in fresh.X]
    assert longest[0] <= 3.0 * 2.0**-10 < 10 * longest[0]  # a single token is short
    for i, length in enumerate(longest[1:], 1):
        assert length <= (3.0, 30.0)[i % 2]  # sizes take turns
        assert length > (3.0, 30.0)[i % 2] / 6
    assert oracle.stage == held_out.CHECKING


def test_gaussian_tokens_are_cut_at_twice_their_usual_length():
    Z = np.random.default_rng(0).standard_normal((400, 3, 4))
    scaled = held_out.unit_scale(Z)
    norms = np.linalg.norm(Z, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=-1), np.minimum(norms / 4, 1.0))
    assert (norms > 4).any()


def fresh(got, again):
    return held_out.Fresh([np.zeros((len(got), 1, 2))], np.asarray(got), np.asarray(again))


@pytest.mark.parametrize(("again", "holds"), [(1.19, True), (1.21, False)])
def test_two_answers_to_one_sequence_may_differ_by_twice_as_much(again, holds):
    check = held_out.judged_fresh(fresh([3.0, 1.0], [again]), np.array([3.0, 1.0]), np.full(2, 0.1), "a law")
    assert (check.evidence is None) == holds
    if not holds:
        assert "same answer" in check.evidence.law
    assert check.compared == 2


def test_fresh_answers_are_judged_one_by_one():
    want, allowed = np.array([3.0, 1.25]), np.array([0.1, 0.1])
    check = held_out.judged_fresh(fresh([3.0, 1.0], [1.0]), want, allowed, "a law")
    assert check.evidence.law == "a law"
    assert check.residual == pytest.approx(0.25 / 3)
    check = held_out.judged_fresh(fresh([3.0, 1.0], [1.0]), want, 3 * allowed, "a law", np.array([3.0, 1.0]))
    assert check.evidence is None
    assert check.residual == pytest.approx(0.25)


# How long tokens are.


def learned(scale=1.0, bound=0.0, W=None, **given):
    model = gh.Attention(scale * np.eye(4) if W is None else W, np.ones(4))
    bounds = {"bound_v": 0.0, "bound_key_bias": 0.0, "bound_bias": 0.0} | given
    return LearnedHead(model=model, rank=4, bound=bound, confidence=1.0, **bounds)


def test_tokens_have_the_length_that_suits_the_scores():
    oracle = Promising(4, roundoff=2.0**-53)
    (size,) = one_head.token_sizes(oracle, learned(), np.random.default_rng(0))
    assert size == pytest.approx(suited_length(4, 2.0, 0.0))
    assert one_head.token_sizes(Promising(4, max_norm=1e-3), learned(), np.random.default_rng(0))[0] <= 1e-3


def test_a_mean_is_checked_with_the_longest_tokens_too():
    oracle = Promising(4, max_norm=100.0)
    sizes = one_head.token_sizes(oracle, learned(0.0), np.random.default_rng(0))
    assert sizes[1] == oracle.reach


def test_where_bounds_say_nothing_shorter_tokens_are_asked_as_well():
    """Scores of tokens of the usual length are off by more than one; shorter ones say more."""
    sizes = one_head.token_sizes(Promising(4), learned(bound=0.5), np.random.default_rng(0))
    assert len(sizes) == 2
    assert sizes[1] < sizes[0] / 3
    steps = np.log(sizes[0] / sizes[1]) / np.log(4)
    assert steps == pytest.approx(round(steps))
    best = learned(bound=0.5)
    vague = [
        one_head.vagueness(
            Promising(4), best, size * held_out.unit_scale(np.random.default_rng(0).standard_normal((4, 4, 4)))
        )
        for size in sizes
    ]
    assert vague[0] > 0.1 > vague[1]


def test_the_longest_of_those_lengths_that_are_nearly_as_good():
    """With a bound on v as well, what tokens say gets no better below some length: the longest is taken."""
    sizes = one_head.token_sizes(Promising(4), learned(bound=0.5, bound_v=1e-3), np.random.default_rng(0))
    finer = one_head.token_sizes(Promising(4), learned(bound=0.5, bound_v=1e-9), np.random.default_rng(0))
    assert sizes[0] == finer[0]
    assert finer[1] < sizes[1] < sizes[0]


def test_a_length_that_is_as_vague_as_any_is_asked_once():
    """An error of v is as large a share of short tokens as of long ones."""
    assert len(one_head.token_sizes(Promising(4), learned(bound_v=10.0), np.random.default_rng(0))) == 1


def test_vagueness_is_what_is_allowed_over_the_largest_answer_of_a_token():
    class Allowing(LearnedHead):
        def allowed(self, X, oracle):
            return np.full(len(X), 0.5)

    found = Allowing(**vars(learned()))
    X = np.ones((2, 3, 4))
    X[0, 0] = -2.0
    assert one_head.vagueness(Promising(4), found, X) == pytest.approx(0.5 / 8)


# Heads in vector answers.


@pytest.mark.parametrize(("off", "ok"), [(3.9, True), (4.1, False)])
def test_vector_answers_may_be_off_by_four_roots_of_a_rounding(off, ok):

    model = gh.MultiHead([gh.Attention(W * np.eye(4), np.eye(4)) for W in (1.0, 3.0)])
    found = LearnedVector(model=model, rank=(4, 4), value_rank=(4, 4), leaves=(False, False), error=0.0)
    u = 2.0**-24
    oracle = Promising(4, roundoff=u)
    largest = 0.0

    def box(X):
        nonlocal largest
        y = model(X)
        largest = max(largest, np.abs(y).max())
        return y

    oracle.f = box
    assert held_out.check_held_out_vector(oracle, found, np.random.default_rng(0)).evidence is None
    usual = max(np.linalg.norm(x, axis=-1).max() for x in oracle.asked)
    assert 0.2 < usual / suited_length(4, 6.0, 0.0) <= 1.0  # by the largest W
    oracle.f = lambda X: model(X) + off * np.sqrt(u) * largest * (X.shape[1] == 4) / (1 + off * np.sqrt(u))
    check = held_out.check_held_out_vector(oracle, found, np.random.default_rng(0))
    assert (check.evidence is None) == ok
