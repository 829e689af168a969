"""The held-out check of a head behind a network: what errors of scores excuse, and where it looks."""

from dataclasses import replace

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import front
from glasshead._learned.kinds import LearnedFront
from glasshead._meters import Crossings, Place
from tests.meters.promises import Promising

D = 4
RNG = np.random.default_rng(0)
W, KEY_BIAS = RNG.standard_normal((D, D)), 0.5 * RNG.standard_normal(D)
A = RNG.standard_normal((D, 5))


def attended(X, weights=W, key_bias=KEY_BIAS):
    s = np.einsum("bnd,bd->bn", X, X[:, -1] @ weights.T + key_bias)
    raised = np.exp(s - s.max(axis=1, keepdims=True))
    return np.einsum("bn,bnd->bd", raised / raised.sum(axis=1, keepdims=True), X)


def box(X, weights=W):
    return np.tanh(attended(X, weights) @ A + 0.3 * X[:, -1:, 0]).sum(axis=1)


def learned(found=W, behind=box, **given):
    model = gh.FrontHead(found, key_bias=KEY_BIAS, behind=behind)
    known = {"bound": 1e-9, "bound_key_bias": 1e-9, "noise": 1e-14, "scale": 1.0, "score_error": 1e-9} | given
    return LearnedFront(model=model, rank=D, confidence=0.99, **known)


def oracle(f=box, **promise):
    return Promising(D, f, **{"roundoff": 2.0**-53} | promise)


# What is excused.


def test_what_tokens_see_of_the_scores():
    found = learned()
    W_norm, bias = np.linalg.norm(W), np.linalg.norm(KEY_BIAS)
    pull = np.hypot(W_norm * 3.0 / 2, bias) / 2
    assert front.pull(found, 3.0) == pytest.approx(pull)
    assert front.score_rounding(oracle(roundoff=1e-8), found, 3.0) == pytest.approx(8 * 8 * 1e-8 * 3.0 * pull)
    assert front.closeness(found, 3.0) == pytest.approx(min(1.0, 1 / (3.0 * pull)))
    assert front.closeness(found, 1e-9) == 1.0


def test_what_typically_differs_is_what_pull_says():
    """Scores of Gaussian tokens of that rms length, over their length."""
    rng = np.random.default_rng(0)
    X = 3.0 * rng.standard_normal((4000, 2, D)) / 2
    s = np.einsum("bd,bd->b", X[:, 0], X[:, 1] @ W.T + KEY_BIAS)
    assert front.pull(learned(), 3.0) == pytest.approx(np.sqrt(np.mean(s**2)) / 3.0, rel=0.1)


def test_what_errors_and_noise_excuse():
    answers = np.array([[[0.0], [2.0]], [[1.0], [1.5]]])
    found = learned(bound=1e-6, bound_key_bias=1e-7, noise=1e-12)
    near, size = 0.25, 3.0
    score = 2 * near * size * (1e-6 * size + 1e-7) + front.score_rounding(oracle(), found, size)
    loose = min(1e-8, 1e-6 * 2 * near * size * front.pull(found, size))
    assert front.most_allowed(oracle(), found, size, near, answers) == pytest.approx(
        (loose + 2 * score) * 2.0 + 8 * 1e-12, rel=1e-6
    )
    faint = front.most_allowed(oracle(), replace(found, bound=0.0, bound_key_bias=0.0, noise=0.0), 1e-5, 1.0, answers)
    assert faint == pytest.approx(
        (1e-6 * 2e-5 * front.pull(found, 1e-5) + 2 * front.score_rounding(oracle(), found, 1e-5)) * 2.0
        + 8 * 4 * 2.0**-53,
        rel=1e-3,
    )


def test_never_as_much_as_another_W():
    answers = np.array([[[0.0], [2.0]]])
    vague = learned(bound=1e3, noise=1e-3)
    assert front.most_allowed(oracle(), vague, 1.0, 1.0, answers) == pytest.approx(0.05 * 2.0 + 4e-3)
    promised = front.most_allowed(oracle(tolerance=0.1), vague, 1.0, 1.0, answers)
    assert promised == pytest.approx(0.1 + 4 * 0.2, rel=1e-6)


# Where it looks.


def test_tokens_are_those_that_W_was_read_with_or_longer():
    d, bias, size = D, np.linalg.norm(KEY_BIAS), np.linalg.norm(W)
    for scale in (1e-3, 0.5, 0.9, 10.0):
        score = scale * (scale * size / d + bias / 2)
        expected = scale * np.clip(np.sqrt(1 / score), 1.0, 3.0)
        assert front.front_token_size(learned(scale=scale), 1e9) == pytest.approx(expected)
    assert front.front_token_size(learned(scale=10.0), 8.0) == 4.0


def test_sequences_share_their_last_token():
    X = front.sequences_with_one_last(3.0, 0.1, 50, D, np.random.default_rng(0))
    assert X.shape == (2, 50, D)
    np.testing.assert_array_equal(X[0, -1], X[1, -1])
    apart = np.linalg.norm(X[:, :-1] - X[:, -1:], axis=2)
    assert apart.max() <= 0.1 * 4 * 3.0
    wide = front.sequences_with_one_last(3.0, 1.0, 2000, D, np.random.default_rng(0))
    assert np.sqrt(np.mean(np.sum(wide**2, axis=2))) == pytest.approx(3.0, rel=0.05)
    assert np.linalg.norm(wide, axis=2).max() <= 6.0 + 1e-9


def test_a_right_head_is_accepted_and_a_wrong_one_is_not():
    rng = np.random.default_rng
    check = front.check_held_out_front(oracle(), learned(), rng(0))
    assert check.evidence is None
    assert check.compared == 14
    assert check.residual < 1e-10
    wrong = W + 1e-4 * rng(1).standard_normal((D, D))
    assert front.check_held_out_front(oracle(), learned(wrong), rng(0)).evidence is not None
    vague = front.check_held_out_front(oracle(), learned(wrong, bound=1e-2), rng(0))
    assert vague.evidence is None


def test_a_head_read_near_zero_is_also_tried_on_ordinary_tokens():
    """Where the box is another one for tokens of length one."""

    def elsewhere(X):
        far = np.linalg.norm(X[:, -1], axis=1) > 0.3
        return np.where(far, box(X, 2 * W), box(X))

    found = learned(behind=elsewhere, scale=1e-2)
    check = front.check_held_out_front(oracle(elsewhere), found, np.random.default_rng(0))
    assert check.compared == 14 + 6
    assert check.evidence is not None
    usual = front.check_held_out_front(oracle(), learned(scale=0.5), np.random.default_rng(0))
    assert usual.compared == 14
    rounded = front.check_held_out_front(oracle(roundoff=1e-3), learned(scale=1e-2), np.random.default_rng(0))
    assert rounded.compared == 14  # ordinary tokens would tell nothing
    short = front.check_held_out_front(oracle(max_norm=0.05), learned(scale=1e-2), np.random.default_rng(0))
    assert short.compared == 14


def test_ordinary_tokens_can_be_sent():
    """None is twice as long as they usually are."""
    plain = oracle(max_norm=1.0)
    check = front.check_held_out_front(plain, learned(scale=1e-3), np.random.default_rng(0))
    assert check.compared == 20
    longest = max(np.linalg.norm(X, axis=2).max() for X in plain.asked)
    assert 0.4 < longest <= 1.0


# Ordinary tokens behind a normalisation.


@pytest.mark.parametrize(("off", "ok"), [(0.9e-6, True), (1.1e-6, False)])
def test_ordinary_tokens_agree_to_a_millionth_of_the_range(off, ok):
    def f(X):
        return box(X, 0.3 * W)

    head = gh.FrontHead(0.3 * W, key_bias=KEY_BIAS, behind=f)
    plain = oracle(f)
    assert front.check_ordinary_tokens(plain, head, np.random.default_rng(0))
    (asked,) = plain.asked
    assert asked.shape[1:] == (4, D)
    assert 3 <= len(asked) <= 8
    shift = off * np.ptp(f(asked))
    shifted = oracle(lambda X: f(X) + shift)
    assert front.check_ordinary_tokens(shifted, head, np.random.default_rng(0)) == ok
    coarse = oracle(lambda X: f(X) + shift, roundoff=2.0**-24)  # four roots of a rounding are more
    assert front.check_ordinary_tokens(coarse, head, np.random.default_rng(0))


def test_ordinary_tokens_are_of_ordinary_size():
    head = gh.FrontHead(0.1 * W, behind=lambda X: attended(X, 0.1 * W, 0.0)[:, 0])
    plain = oracle(lambda X: attended(X, 0.1 * W, 0.0)[:, 0])
    assert front.check_ordinary_tokens(plain, head, np.random.default_rng(0))
    assert np.sqrt(np.mean(plain.asked[0][:, -1] ** 2)) == pytest.approx(0.5, rel=0.3)
    small = oracle(plain.f, max_norm=0.4)
    assert front.check_ordinary_tokens(small, head, np.random.default_rng(0))
    assert np.sqrt(np.mean(small.asked[0][:, -1] ** 2)) == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize(("fits", "scatter"), [(0.5, 0.3), (0.2, 0.1), (0.06, 0.03)])
def test_scores_that_are_too_large_are_asked_closer_together(fits, scatter):
    """Where a shorter sequence exists for tokens that near to the last one only."""

    class Near(gh.FrontHead):
        def can_shorten(self, X):
            return np.std(X[:-1] - X[-1]) < 0.5 * fits

    def f(X):
        return box(X, 0.1 * W)

    plain = oracle(f)
    assert front.check_ordinary_tokens(plain, Near(0.1 * W, key_bias=KEY_BIAS, behind=f), np.random.default_rng(0))
    asked = plain.asked[0]
    assert np.std(asked[:, :-1] - asked[:, -1:]) == pytest.approx(0.5 * scatter, rel=0.4)


def test_where_nothing_can_be_shortened_nothing_is_said():
    class Never(gh.FrontHead):
        def can_shorten(self, X):
            return False

    plain = oracle()
    assert not front.check_ordinary_tokens(plain, Never(W, behind=box), np.random.default_rng(0))
    assert plain.queries == 0


def test_a_wrong_normalised_head_is_noticed():
    wrong = gh.FrontHead(0.3 * W, key_bias=KEY_BIAS, behind=lambda X: box(X, 0.31 * W))
    assert not front.check_ordinary_tokens(oracle(lambda X: box(X, 0.31 * W)), wrong, np.random.default_rng(0))
    right = gh.FrontHead(0.31 * W, key_bias=KEY_BIAS, behind=lambda X: box(X, 0.31 * W))
    assert front.check_ordinary_tokens(oracle(lambda X: box(X, 0.31 * W)), right, np.random.default_rng(0))


# Yes and no.


def test_where_an_answer_changes_between_two_sequences():
    plain = Promising(D, lambda X: X[:, 0, 0] > 0.3, answers="sign")
    no, yes = np.zeros((1, D)), np.ones((1, D))
    _, _, share = front.find_change(plain, no, yes)
    assert share == pytest.approx(0.3, abs=2.0**-35)
    assert plain.queries == 36


class Sides:
    """A head before a plane: yes where the attention output lies beyond it."""

    def __init__(self, weights=W, at=1.0):
        self.weights, self.at = weights, at

    def __call__(self, X):
        return attended(np.asarray(X), self.weights, 0.0)[:, 0] > self.at


def sides(truth=None, found=W, bits=30, score_error=1e-7, **given):
    truth = truth or Sides()
    plain = Promising(D, truth, answers="sign", roundoff=2.0**-53, **given)
    ruler = Crossings(plain, np.eye(D)[0], 1.0, bits, np.random.default_rng(0))
    model = gh.FrontHead(found, behind=truth)
    known = {"bound": 1e-6, "bound_key_bias": 1e-6, "noise": 0.0, "scale": 1.0, "score_error": score_error}
    head = LearnedFront(model=model, rank=D, confidence=0.99, **known)
    return front.check_held_out_front_signs(ruler, head, Place(np.zeros(D), 0.5, 0.2)), plain


def test_changes_of_the_answer_are_those_of_shorter_sequences():
    check, plain = sides()
    assert check.evidence is None
    assert 4 <= check.compared <= 7
    assert check.residual == 0.0
    assert {X.shape[1] for X in plain.asked if len(X) == 16} == set(range(2, 9))


@pytest.mark.parametrize(("off", "ok"), [(1e-7, True), (1e-2, False)])
def test_a_head_that_changes_elsewhere_is_noticed(off, ok):
    wrong = W + off * np.random.default_rng(1).standard_normal((D, D))
    check, _ = sides(found=wrong)
    assert (check.evidence is None) == ok
    assert (check.residual > 0) == (not ok)
    vague, _ = sides(found=wrong, score_error=0.05)
    assert vague.evidence is None  # within four times what is known


def test_how_near_to_a_change_is_asked():
    """A millionth of the way, or what bounds and rounding allow."""
    for error, at in ((0.0, 1e-6), (1e-3, 4e-3), (1.0, 0.25)):
        assert f"to {at:.1e}" in sides(score_error=error)[0].words
    faint, _ = sides(Sides(1e-5 * W), 1e-5 * W, score_error=0.0)
    score = 0.5 * 1e-5 * np.linalg.norm(W) / D
    assert f"to {1e-3 * score:.1e}" in faint.words


def test_where_all_answers_are_alike_nothing_is_compared():
    for at in (-1e9, 1e9):
        check, _ = sides(Sides(at=at))
        assert (check.residual, check.evidence, check.compared) == (None, None, 0)


def test_sequences_around_a_change_can_be_sent():
    ruler = Crossings(
        Promising(D, Sides(), answers="sign", max_norm=2.0), np.eye(D)[0], 1.0, 20, np.random.default_rng(0)
    )
    X = front.around_the_change(ruler, Place(np.zeros(D), 0.5, 0.2), 5)
    assert X.shape == (16, 5, D)
    norms = np.linalg.norm(X, axis=2)
    assert norms.max() == pytest.approx(ruler.oracle.reach)
    np.testing.assert_allclose(norms[:, -1], 0.5)
    ruler.oracle.max_norm = None
    X = front.around_the_change(ruler, Place(np.zeros(D), 0.5, 0.2), 5)
    ahead = X[:, :-1, 0].mean(axis=1)
    assert -0.6 < ahead.min() < 1
    assert 2.5 < ahead.max() <= 4.5
    assert np.abs(X[:, :-1, 1:]).max() <= 0.5
