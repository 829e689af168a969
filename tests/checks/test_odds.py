"""The odds of one head: by how much errors of answers move the law, and which pairs are asked."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import odds, telling
from glasshead._checks.odds import Odds
from glasshead._errors import COPIED_KEY, EVERYWHERE
from glasshead._learned import LearnedHead
from tests.meters.promises import Promising, Relayed

D, U = 3, 2.0**-8
RNG = np.random.default_rng(5)
HEAD = gh.Attention(RNG.standard_normal((D, D)), RNG.standard_normal(D), key_bias=RNG.standard_normal(D), bias=-0.4)
TWO = gh.Attention(HEAD.W, np.stack([HEAD.v, 0.1 * HEAD.v[::-1]], axis=1), key_bias=HEAD.key_bias, bias=[-0.4, 0.1])
BOUNDS = dict.fromkeys(("bound", "bound_v", "bound_key_bias", "bound_bias"), 0.0)
FOUND = LearnedHead(model=HEAD, rank=D, confidence=1.0, **BOUNDS)


# How far off the law may be.


@pytest.mark.parametrize("outputs", [1, 4])
def test_errors_of_four_answers_move_the_law_by_their_weights(outputs):
    """Small ones: those of the pair, the key and the last token through p, the latter two also by their own weight."""
    p = np.array([0.02, 0.3, 0.9])
    swing = np.array([2.0, -1.0, 0.5])[:, None] * np.ones(outputs)
    many, one, key, last = each = [size * 1e-6 * np.ones(3) for size in (1.0, 2.0, 3.0, 5.0)]
    q, steep = telling.of_copies(p), telling.steepness(p)
    of_p = np.sqrt(outputs) * (one + p * key + (1 - p) * last)
    expected = many + q * key + (1 - q) * last + steep * of_p
    np.testing.assert_allclose(telling.errors_of_odds(p, each, swing), expected, rtol=1e-3)


@pytest.mark.parametrize(("p", "errors", "swing", "expected"), [
    (0.3, (0.0, 0.0, 0.1, 0.0), 1.0, 0.1 * 0.8 + 2.4 / 3.1 - 6.4 / 8.6),  # 0.3 + 0.1 / 3 or minus it, not 0.03
    (0.7, (0.0, 0.0, 0.0, 0.1), 1.0, 0.1 * (1 - 16 / 17) + 5.6 / 5.9 - 16 / 17),  # likewise
    (0.05, (0.0, 5.0, 0.0, 0.0), -2.0, 2 * (1 - 0.4 / 1.35)),  # any weight, but no more than all
    (0.9, (0.0, 5.0, 0.0, 0.0), -2.0, 2 * 7.2 / 7.3),
    (0.05, (1.0, 5.0, 2.0, 3.0), 0.5, 1.0 + 2.0 + 3.0 + 0.5 * (1 - 0.4 / 1.35)),
])  # fmt: skip
def test_large_errors_move_the_weight_that_they_move_it_by(p, errors, swing, expected):
    errors = [np.full(1, error) for error in errors]
    found = telling.errors_of_odds(np.full(1, p), errors, np.full((1, 1), swing))
    assert found[0] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("size", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("sides", range(16))
def test_no_errors_of_four_answers_move_the_law_by_more(size, sides):
    p, swing = np.array([0.0, 0.03, 0.3, 0.9, 1.0]), np.array([1.0, -0.5, 2.0, 1.0, -1.0])
    off = size * np.array([0.2, 0.4, 0.6, 1.0])
    truth = swing * telling.of_copies(p), swing * p, swing, 0 * swing
    signs = np.where(np.array([1, 2, 4, 8]) & sides, 1.0, -1.0)
    answers = [(y + sign * error)[:, None] for y, sign, error in zip(truth, signs, off, strict=True)]
    seen = Odds([], *answers, size=np.ones(5), thrice=None)
    allowed = telling.errors_of_odds(seen.p, [np.full(5, error) for error in off], seen.swing)
    assert (np.abs(seen.many - seen.predicted)[:, 0] <= allowed + 1e-12).all()


def test_a_key_and_a_last_token_that_are_answered_alike_say_nothing():
    same = np.ones((1, 1))
    seen = Odds([], same, same, same, same, size=np.ones(1), thrice=None)
    assert np.isfinite(telling.errors_of_odds(seen.p, [np.full(1, 0.1)] * 4, seen.swing)).all()
    np.testing.assert_array_equal(seen.predicted, same)


def test_the_weight_of_a_key_is_what_its_pair_is_answered_by():
    """Of all outputs, and a weight."""
    last, swing = np.array([[1.0, 2.0], [0.0, 1.0], [0.0, 1.0]]), np.array([[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
    one = last + np.array([[0.3], [-0.1], [1.2]]) * swing + np.array([[0.4, -0.3], [0.0, 5.0], [0.0, 5.0]])
    seen = Odds([], one, one, last + swing, last, size=np.ones(3), thrice=None)
    np.testing.assert_allclose(seen.p, [0.3, 0.0, 1.0])
    np.testing.assert_allclose(seen.predicted[0], last[0] + 2.4 / 3.1 * swing[0])


@pytest.mark.parametrize(("promise", "inner", "most", "expected"), [
    ({"tolerance": 0.5}, None, None, 0.5 + 2.0**-20 * 10 * 2.0),
    ({"tolerance": 0.5}, None, 1e-6, 0.5 + 2.0**-20 * 10 * 2.0),  # no less than was promised
    ({}, None, 1e-6, 3e-6),
    ({"rtol": 0.25}, None, None, 0.25 * 3.0 + 2.0**-53 * 10 * 2.0),
    ({"rtol": 1e-16}, None, None, 3e-16 + 2.0**-53 * 10 * 2.0),
    ({"rtol": 0.25, "tolerance": 0.5}, None, 1e-6, 0.5 + 0.25 * 3.0 + 2.0**-53 * 10 * 2.0),
    ({"rtol": 0.25}, {"rtol": 0.0}, None, 0.25 * 10 * 2.0),  # the wrapper's own, of the size
    ({"roundoff": 2.0**-10}, None, None, 2.0**-10 * 4 * 2.0),  # so few digits that scores have none to lose
])  # fmt: skip
def test_how_far_off_an_answer_may_be(promise, inner, most, expected):
    """By (4 + 2 sqrt(d)) roundings of the numbers that it is made of, or by a share of its largest number."""
    oracle = Relayed(9, inner=inner, **{"roundoff": 2.0**-20} | promise)
    error = telling.answer_error(oracle, np.array([2.0]), np.array([[1.0, -3.0]]), most)
    if most is not None and "tolerance" in promise and "rtol" not in promise:
        expected = min(expected, 3e-6)
    assert error == pytest.approx(expected, rel=1e-9, abs=0.0)


def test_the_numbers_that_an_answer_to_a_pair_is_made_of():
    pairs = np.array([[[3.0, 4.0, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]])
    for model in (HEAD, TWO):
        expected = np.array([5.0, 2.0]) * np.linalg.norm(model.v) + 0.4
        np.testing.assert_allclose(telling.sizes_of(model, pairs), expected)


# What the same tokens thrice show.


@pytest.mark.parametrize(("thrice", "seen"), [
    ([[1.0, -2.0], [0.0, 0.5]], U),  # one rounding at least
    ([[1.0, -2.2], [0.0, 0.45]], 4 * 0.1),
    ([[1.0, -2.6], [0.1, 0.5]], 4 * np.sqrt((0.3**2 + 0.2**2) / 2)),
    ([[1.0, -2.0], [0.0, 90.0]], 4 * np.sqrt(0.5)),  # no more than all of it
])  # fmt: skip
def test_the_share_that_answers_to_the_same_tokens_thrice_are_off_by(thrice, seen):
    answers = np.array([[1.0, -2.0], [0.0, 0.5]])
    assert odds.relative_error(Promising(D, roundoff=U), np.array(thrice), answers) == pytest.approx(seen)
    assert odds.relative_error(Promising(D, roundoff=U), np.zeros((1, 2)), np.zeros((1, 2))) == U


def noisy(level, count=60_000, swing=-1.0):
    """The odds of one head, every answer off by that share of its size, in the root mean square; of two outputs, the
    second one always 0."""
    rng = np.random.default_rng(0)
    p, size = np.resize([0.02, 0.3, 0.9], count), np.resize([1.0, 5.0], count)

    def answer(share):
        y = swing * share + level * size * rng.standard_normal(count)
        return np.stack([y, np.zeros(count)], axis=1)

    q = telling.of_copies(p)
    kinds = [answer(share) for share in (q, p, 1.0, 0.0)]
    return Odds([np.zeros((2, D))] * count, *kinds, size=size, thrice=np.concatenate([answer(q), answer(p)]))


def test_how_far_off_the_law_typically_is():
    """As far as independent errors of that size carry, for every weight and every size of answers."""
    for level in (1e-4, 3e-4):
        misfits = noisy(level).misfits(Promising(D, roundoff=1e-9))
        for kind in range(6):
            assert np.sqrt(np.mean(misfits[kind::6] ** 2)) == pytest.approx(1.0, abs=0.03)


def of_four(p):
    q, steep = telling.of_copies(p), telling.steepness(p)
    return np.sqrt(1 + steep**2 + (q - steep * p) ** 2 + (1 - q - steep * (1 - p)) ** 2)


def test_answers_that_happen_to_agree_are_off_by_a_third_of_a_rounding():
    seen = noisy(0.0, 6)
    np.testing.assert_allclose(seen.typical(Promising(D, roundoff=U)), 0.3 * U * seen.size * of_four(seen.p))


def test_more_pairs_are_counted_with_the_first():
    """Each with its own two answers to the same tokens thrice."""
    whole = noisy(1e-3, 60)

    def part(which):
        halves = [half[which] for half in np.split(whole.thrice, 2)]
        kinds = {name: getattr(whole, name)[which] for name in ("many", "one", "key", "last", "size")}
        return Odds(whole.pairs[which], **kinds, thrice=np.concatenate(halves))

    both = part(slice(20)).with_more(part(slice(20, None)))
    assert len(both.pairs) == 60
    np.testing.assert_array_equal(both.misfits(Promising(D, roundoff=U)), whole.misfits(Promising(D, roundoff=U)))
    np.testing.assert_array_equal(both.thrice, whole.thrice)


def test_answers_may_be_off_by_what_the_same_tokens_thrice_show():
    """No more than that, and no more than by some roundings of their format."""
    seen, oracle = noisy(1e-3, 600), Promising(D, roundoff=U)
    most = odds.relative_error(oracle, seen.thrice, np.concatenate([seen.many, seen.one]))
    for answers in (seen.many, seen.last):
        expected = np.minimum(most * np.abs(answers[:, 0]), 4 * U * seen.size)
        np.testing.assert_allclose(seen.errors(oracle, answers), expected)
    unasked = Odds(seen.pairs, seen.many, seen.one, seen.key, seen.last, size=seen.size, thrice=None)
    np.testing.assert_allclose(unasked.errors(oracle, seen.last), 4 * U * seen.size)


class Misfit(Promising):
    """A head of whose answers those to the same tokens thrice are off, by less than a rounding, and those to copies by
    so many times what is typical then."""

    def __init__(self, times, roundoff=U):
        super().__init__(D, roundoff=roundoff)
        self.times = times

    def __call__(self, X):
        self.queries += len(X)
        pairs = X[:, [0, -1]]
        p, size = HEAD.weights(pairs)[:, 0], telling.sizes_of(HEAD, pairs)
        uneven = np.where(X[:, 0, 0] > 0, 1.1, 0.9)  # some pairs are further off than others
        copied = uneven * self.times * 0.31 * self.rounds * of_four(p) * (X.shape[1] in (9, 27))
        off = copied + np.sqrt(2) * 0.31 * self.rounds * (X.shape[1] in (6, 27))
        return HEAD(X) + off * size


@pytest.mark.parametrize(("times", "more", "ok"), [
    (0.9, False, True),
    (1.05, True, True),  # 48 more probes
    (1.7, True, True),
    (1.8, True, False),
    (3.0, False, False),  # by a single pair
])  # fmt: skip
def test_in_a_narrow_format_misfits_count_together(times, more, ok):
    oracle = Misfit(times)
    broken = odds.check_odds(oracle, FOUND, np.random.default_rng(0), 16, measured=True)
    assert oracle.queries == 6 * (16 + 48 * more)
    assert (broken is None) == ok
    assert ok or broken.law == COPIED_KEY
    plain, fine = Misfit(times), Misfit(times, 2.0**-12)
    assert odds.check_odds(plain, FOUND, np.random.default_rng(0), 16) is None
    assert plain.queries == 4 * 16
    odds.check_odds(fine, FOUND, np.random.default_rng(0), 16, measured=True)
    assert fine.queries == 6 * 16


class Near(LearnedHead):
    """A head whose neighbours answer by its bound otherwise, and by twice that."""

    def neighbours(self, share, count, rng):
        return [lambda X, times=times: TWO(X) + times * self.bound for times in (1.0, 2.0)]


@pytest.mark.parametrize(("promise", "bounds"), [
    ({}, {}),
    ({"tolerance": 0.2}, {}),
    ({"rtol": 0.2}, {}),
    ({}, {"bound": 0.5}),
    ({}, {"bound_v": 0.1, "bound_bias": 0.3}),
])  # fmt: skip
@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize(("times", "ok"), [(0.99, True), (1.01, False)])
def test_answers_that_obey_the_law_are_held_against_the_model(promise, bounds, kind, times, ok):
    """Within a twentieth of the numbers in an answer, beyond what was promised and what bounds leave open."""
    pairs = list(np.random.default_rng(0).standard_normal((3, 2, D)) * np.array([0.3, 1.0, 3.0])[:, None, None])
    found, oracle = Near(**vars(FOUND) | {"model": TWO} | bounds), Promising(D, **promise)
    asked = odds.asked_about(pairs)
    answers = [np.stack([np.ravel(TWO(x)) for x in asked[3 * i : 3 * i + 3]]) for i in range(4)]
    size = telling.sizes_of(TWO, np.stack(pairs))
    alone = np.linalg.norm(asked[3 * kind + 1]) * found.bound_v + found.bound_bias
    level = 0.05 * size[1] + promise.get("tolerance", 0.0) + 3 * 2 * found.bound + alone * (kind >= 2)
    y, rtol = answers[kind][1], promise.get("rtol", 0.0)
    y[0] += times * np.copysign((level + rtol * abs(y[0])) / (1 - times * rtol), y[0])  # a share of what is answered
    assert abs(y[0]) > abs(y[1])
    broken = odds.evidence_of_change(
        oracle, found, Odds(pairs, *answers, size=size, thrice=None), np.random.default_rng(0)
    )
    assert (broken is None) == ok
    assert ok or broken.law == EVERYWHERE


# Which pairs are asked.


@pytest.mark.parametrize(("rtol", "times"), [(0.0, 1.0), (2.0**-8, 1.0), (0.0, 0.0)])
def test_imagined_heads_break_the_law_as_real_ones_would(rtol, times):
    """By as much in relation to what is allowed; of a size so small that they add to what the law says. Beside a head
    without scores their own are such as tokens like these can tell."""
    head = gh.Attention(times * HEAD.W, HEAD.v, key_bias=HEAD.key_bias, bias=HEAD.bias)
    rng, oracle = np.random.default_rng(2), Promising(D, roundoff=2.0**-18, rtol=rtol)
    pairs = rng.standard_normal((20, 2, D))
    values = head(pairs[:4].reshape(8, 1, D)).reshape(4, 2) - np.array([0.0, 0.02])
    pairs[:4] -= values[:, :, None] * HEAD.v / (HEAD.v @ HEAD.v)  # some are hardly answered: errors are a share of more
    shown = telling.shown_by(oracle, head, pairs, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    flat = 1 / np.median(np.linalg.norm(pairs, axis=2).prod(axis=1))
    steep = max(head.W_norm, flat) * 2 ** rng.uniform(-2, 2, 32)
    of_key, of_last, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in rng.standard_normal((3, 32, D)))
    size = telling.sizes_of(HEAD, pairs)
    faintest = size[:, None] / 64
    for h in range(0, 32, 5):
        second = gh.Attention(steep[h] * np.outer(of_key[h], of_last[h]), 1e-6 * v[h])
        answers = [
            np.stack([np.ravel(head(x) + second(x)) for x in odds.asked_about(list(pairs))])[20 * i : 20 * i + 20]
            for i in range(4)
        ]
        seen = Odds(list(pairs), *answers, size=size, thrice=None)
        errors = [telling.answer_error(oracle, size, np.maximum(np.abs(each), faintest)) for each in answers]
        allowed = telling.errors_of_odds(seen.p, errors, seen.swing)
        misfit = np.abs(seen.many - seen.predicted)[:, 0] / 1e-6
        np.testing.assert_allclose(shown[:, h], misfit / allowed, rtol=1e-2, atol=1e-3 * shown[:, h].max())


@pytest.mark.parametrize("max_norm", [None, 2.0])
@pytest.mark.parametrize("outputs", [1, 2])
def test_pairs_that_are_hardly_answered(max_norm, outputs):
    """One token or both moved along v, to a 64th of their answer; not much longer, and no longer than can be sent."""
    oracle, kept = Promising(D, max_norm=max_norm), 0
    model = gh.Attention(HEAD.W, HEAD.v, bias=1.5) if outputs == 1 else gh.Attention(HEAD.W, np.ones((D, 2)))
    for pair in np.random.default_rng(0).standard_normal((50, 2, D)):
        faint = list(telling.faintly_answered(oracle, model, pair))
        values = pair @ HEAD.v + 1.5
        moved = pair - np.outer(63 / 64 * values, HEAD.v) / (HEAD.v @ HEAD.v)
        np.testing.assert_allclose(moved @ HEAD.v + 1.5, values / 64)
        longest = np.minimum(np.sqrt(2) * np.linalg.norm(pair, axis=1), max_norm or np.inf)
        first, second = (np.linalg.norm(moved, axis=1) <= longest).tolist()
        expected = [[moved[0], pair[1]]] * first + [[pair[0], moved[1]]] * second + [list(moved)] * (first and second)
        assert len(faint) == len(expected) * (outputs == 1)
        for each, want in zip(faint, expected, strict=False):
            np.testing.assert_allclose(each, want)
        kept += len(faint)
    assert (kept > 20) == (outputs == 1)


def chosen_of(monkeypatch, probes, show):
    """The pairs chosen where each shows so much of every imagined head, by the numbers of those drawn and after."""
    drawn = []

    def shown_by(oracle, model, pairs, rng):
        drawn.extend(pairs)
        return show(len(pairs), probes * telling.PAIRS_DRAWN)

    monkeypatch.setattr(telling, "shown_by", shown_by)
    chosen = telling.telling_pairs(Promising(D), FOUND, probes, np.random.default_rng(0))
    return [next(i for i, x in enumerate(drawn) if np.array_equal(x, each)) for each in chosen]


def test_pairs_are_chosen_that_show_what_those_before_do_not(monkeypatch):
    """Of those drawn first, and of all: the best in the geometric mean, then what adds most to it, none twice."""

    def show(pairs, drawn):
        half = np.arange(32) < 16
        shown = np.ones((pairs, 32))
        shown[5], shown[6] = np.where(half, 300.0, 2.0), np.where(half, 200.0, 2.0)
        shown[7] = np.where(np.arange(32) < 1, 1e4, 1.0)  # a larger mean, which is not geometric
        shown[drawn + 1] = np.where(half, 1.0, 100.0)
        shown[8] = np.where(half, 1.0, 50.0)
        return shown

    first, second, third, fourth = chosen_of(monkeypatch, 4, show)
    assert (first, second) == (5, 4 * telling.PAIRS_DRAWN + 1)
    assert third == 7
    assert len({first, second, third, fourth}) == 4


def test_every_other_pair_is_as_it_was_drawn(monkeypatch):

    def show(pairs, drawn):
        return 1 + np.arange(pairs)[:, None] * (np.arange(pairs)[:, None] % 32 == np.arange(32))

    chosen = chosen_of(monkeypatch, 6, show)
    assert [i < 6 * telling.PAIRS_DRAWN for i in chosen] == [True, False] * 3
