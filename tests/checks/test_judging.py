"""The judge's rules, one by one: what is just allowed passes, and what is just not is refused."""

from dataclasses import replace

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import bounds, compared, held_out, judge, ordinary
from glasshead._checks import signs as sides
from glasshead._checks.answered import Answered, apart, ask_by_length, read_groups
from glasshead._checks.ordinary import Sequences
from glasshead._errors import ASKED_AGAIN
from glasshead._learned import HeldOut, LearnedFront, LearnedHead
from glasshead._learned.learned import Attending
from glasshead._linalg import rms
from tests.meters.promises import Promising, Relayed

HELD = HeldOut(1e-9, None, "words", compared=16)


def learned(W=None, bound=1e-6, v=(1.0, 2.0, 3.0), **given):
    model = gh.Attention(np.eye(3) if W is None else W, np.array(v))
    bounds = {"bound": bound, "bound_v": 1e-6, "bound_key_bias": 1e-6, "bound_bias": 1e-6} | given
    return LearnedHead(model=model, rank=3, confidence=1.0, **bounds)


def answered(off, name="users", *, extent=1.0, sizes=1.0, **known):
    """Answers that are so far off, and what is known about that: 0 unless said."""
    off = np.atleast_1d(np.asarray(off, float))
    n, X = len(off), list(np.random.default_rng(0).standard_normal((len(off), 2, 3)))
    parts = dict.fromkeys(("level", "typical", "furthest", "doubt", "chosen"), 0.0) | known
    each = {part: np.broadcast_to(float(value), n) for part, value in parts.items()}
    kind = Sequences(name, X, np.broadcast_to(float(sizes), n))
    return Answered(kind=kind, got=off[:, None], want=np.zeros((n, 1)), largest=1.0, extent=extent, **each)


# What is allowed.


def test_answers_may_be_off_by_a_hundredth_of_their_range_beyond_what_is_known():
    group = answered([0.0], level=0.001, furthest=0.002, extent=2.0, sizes=0.5)
    assert group.range == 1.0
    assert group.allowed == pytest.approx(0.01 + 0.001 + 3 * 0.002)
    assert replace(group, doubt=np.array([0.003])).allowed == pytest.approx(0.01 + 0.001 + 3 * 0.005)
    assert replace(group, doubt=np.array([np.inf])).strays.allowed == pytest.approx(0.01 + 0.001 + 3 * 0.002)
    assert group.allowed_share == pytest.approx(group.allowed)
    assert replace(group, extent=4.0).allowed_share == pytest.approx((0.02 + 0.007) / 2.0)


@pytest.mark.parametrize(("furthest", "open_end"), [(0.016, False), (0.017, True)])
def test_where_bounds_leave_a_twentieth_open_nothing_is_said(furthest, open_end):
    assert np.isinf(answered([0.0], furthest=furthest).allowed[0]) == open_end


def test_how_far_off_answers_are():
    group = answered([0.1, -0.3], level=0.3, typical=0.4, extent=2.0, sizes=2.0)
    np.testing.assert_allclose(group.off, [0.1, 0.3])
    np.testing.assert_allclose(group.share, [0.025, 0.075])
    np.testing.assert_allclose(group.expected, 0.5)
    assert group.worse == pytest.approx((0.04 + 0.36) / 2)
    doubted = replace(group, doubt=np.full(2, 0.4))
    np.testing.assert_allclose(doubted.expected, np.hypot(0.8, 0.3))
    assert doubted.seen == pytest.approx(np.sqrt(0.2))


def test_no_range_at_all_divides_nothing_by_zero():
    group = answered([0.0, 1e-100], extent=0.0)
    assert np.isfinite(group.share[0])
    assert group.share[1] > 1
    assert group.worse > 1


# What is asked.


def test_the_judge_asks_sequences_of_all_lengths():
    oracle = Promising(6)
    found = replace(learned(np.eye(6), v=np.ones(6)))
    kinds = ordinary.ordinary_sequences(oracle, found, np.random.default_rng(0))
    assert [kind.name for kind in kinds] == ["users", "suited", "larger", "single"]
    assert sum(len(kind.X) for kind in kinds) == ordinary.JUDGE_QUERIES["value"] == 46
    each = sorted(len(x) - 2 for x in kinds[2].X)  # one in each fifth of the range
    assert all(n * 63 / 5 - 1 < length < (n + 1) * 63 / 5 for n, length in enumerate(each))
    steps = zip([2, 3, 4, 6, 10, 16, 24, 40, 64, 65], map(len, kinds[1].X), strict=False)
    assert all(low <= length for low, length in steps)
    assert [len(kinds[1].X[place]) for place in (0, 1, -1)] == [2, 3, 64]
    assert [len(x) for x in kinds[3].X] == [1] * 4
    users, suited, larger, single = (kind.sizes for kind in kinds)
    assert 0.4 <= users.min() < 1 < users.max() <= 2.5
    assert 0.5 <= single.min() < 1 < single.max() <= 2
    best = found.suits(oracle.reach)[0]
    np.testing.assert_allclose(suited, best)
    assert (larger >= max(best, 1.0)).all()
    assert 4 < larger.max() / max(best, 1.0) <= 8
    for kind in kinds:
        for x, size in zip(kind.X, kind.sizes, strict=True):
            assert np.sqrt(np.mean(x**2)) == pytest.approx(size, rel=0.8)


def test_larger_tokens_are_larger_than_the_suited_ones():
    """Of a head with small scores, to which those of users say little."""
    found = learned(1e-4 * np.eye(6), v=np.ones(6))
    kinds = ordinary.ordinary_sequences(Promising(6), found, np.random.default_rng(0))
    assert (kinds[2].sizes >= found.suits(1e9)[0]).all()
    assert kinds[1].sizes.min() > 8


def test_the_largest_entry_of_last_tokens_takes_turns():
    kinds = ordinary.ordinary_sequences(Promising(11), learned(np.eye(11), v=np.ones(11)), np.random.default_rng(0))
    places = [int(np.abs(x[-1]).argmax()) for kind in kinds[:3] for x in kind.X]
    assert places == [place % 11 for place in range(28 + 9 + 5)]


@pytest.mark.parametrize("count", [20, 400])
def test_predictions_and_answers_are_kept_from_the_first_to_the_last(count):
    y = np.arange(float(count))[:, None]
    want, got = compared.compared_pairs([compared.Compared([np.zeros((1, 1))] * count, y, y + 0.5)])
    assert (want[0], want[-1]) == (0.5, count - 0.5)
    assert len(want) == len(got) == min(count, 128)


def test_tokens_are_no_longer_than_can_be_sent():
    found = learned(np.eye(6), v=np.ones(6))
    kinds = ordinary.ordinary_sequences(Promising(6, max_norm=1.5), found, np.random.default_rng(0))
    longest = [max(np.linalg.norm(x, axis=1).max() for x in kind.X) for kind in kinds]
    assert max(longest) <= 1.5
    assert longest[0] == pytest.approx(1.5, rel=1e-5)
    assert longest[2] == pytest.approx(1.5, rel=1e-5)


def test_sequences_that_a_model_says_nothing_about_are_not_asked():
    class Silent(LearnedHead):
        def says(self, x):
            return len(x) > 4

    found = Silent(**vars(learned(np.eye(6), v=np.ones(6))))
    kinds = ordinary.ordinary_sequences(Promising(6), found, np.random.default_rng(0))
    assert [kind.name for kind in kinds] == ["users", "suited", "larger"]
    assert all(len(kind.X) == len(kind.sizes) for kind in kinds)
    assert min(len(x) for kind in kinds for x in kind.X) > 4


def test_answers_come_back_in_the_order_of_the_sequences():
    X = [np.full((n, 1), i) for i, n in enumerate([3, 1, 3, 2])]
    said = ask_by_length(lambda B: B[:, 0, 0] + 10 * B.shape[1], X)
    np.testing.assert_allclose(said[:, 0], [30, 11, 32, 23])


def extent(group):
    """The range of answers less their bias, for tokens of size 1."""
    return np.ptp((group.got[:, 0] - np.median(group.got)) / group.kind.sizes)


def test_what_groups_know():
    """Levels from the promise and from rounding of the largest term; ranges per size; single tokens by users' range."""
    truth = learned(np.eye(4), v=(1.0, 0, 0, 0), bound=0.0, bound_v=0.0, bound_key_bias=0.0, bound_bias=0.0)
    oracle = Promising(4, lambda X: truth.model(X) + 0.5, tolerance=0.1, rtol=0.2, roundoff=2.0**-20)
    kinds = ordinary.ordinary_sequences(oracle, truth, np.random.default_rng(0))
    groups = read_groups(oracle, truth, HELD, kinds, np.random.default_rng(0))
    for group in groups:
        got = np.abs(group.got[:, 0])
        terms = np.array([truth.largest_term(x) for x in group.X])
        np.testing.assert_allclose(group.level, 0.1 + 0.2 * got + 4 * 2.0**-20 * np.maximum(terms, got))
        np.testing.assert_allclose(group.off, 0.5)
        np.testing.assert_allclose(group.furthest, 0.0)
        flat = np.array([x.mean(axis=0)[0] for x in group.X])
        np.testing.assert_allclose(group.chosen, np.abs(group.want[:, 0] - flat), atol=1e-12)
    for group in groups[:3]:
        assert group.extent == pytest.approx(extent(group))
        assert group.largest == pytest.approx(np.abs(group.got).max())
    alone = groups[3]
    assert alone.extent == max(extent(alone), groups[0].extent)
    assert alone.largest == max(np.abs(alone.got).max(), groups[0].largest)


def test_doubts_are_what_neighbours_say():
    """As far off as the bounds, six of them: the root of the mean square, and the largest."""
    found = learned(np.eye(4), v=np.ones(4), bound=0.01)
    oracle = Promising(4, found.model)
    kinds = ordinary.ordinary_sequences(oracle, found, np.random.default_rng(0))[:1]
    (group,) = read_groups(oracle, found, HELD, kinds, np.random.default_rng(1))
    around = [apart(model, group.X, group.want) for model in found.neighbours(0.0, 6, np.random.default_rng(1))]
    np.testing.assert_allclose(group.typical, np.sqrt(np.mean(np.square(around), axis=0)))
    np.testing.assert_allclose(group.furthest, np.max(around, axis=0))
    np.testing.assert_allclose(group.doubt, found.doubt(group.X, group.want))


# What is refused.


@pytest.mark.parametrize(("bound", "ok"), [(0.99, True), (1.01, False)])
def test_a_bound_as_large_as_W_says_nothing(bound, ok):
    found = learned(np.eye(4) / 2, v=np.ones(4), bound=bound)
    if ok:
        judge.refuse_unbounded(Promising(4), found, HELD)
        return
    with pytest.raises(gh.AccuracyUnreachable, match="a W of norm 1 was found, within 1, which says nothing"):
        judge.refuse_unbounded(Promising(4), found, HELD)


@pytest.mark.parametrize(("bound", "max_norm", "ok"), [(0.24, None, True), (0.26, None, False), (0.26, 1.0, True)])
def test_a_W_of_zero_is_known_to_move_no_score_by_one(bound, max_norm, ok):
    """Of tokens of length 2, which is usual in four dimensions, or of the longest that may be sent."""
    found = learned(np.zeros((4, 4)), v=np.ones(4), bound=bound)
    if ok:
        judge.refuse_unbounded(Promising(4, max_norm=max_norm), found, HELD)
        return
    with pytest.raises(gh.AccuracyUnreachable, match=r"W cannot be told from 0, nor from anything up to 0.26"):
        judge.refuse_unbounded(Promising(4, max_norm=max_norm), found, HELD)


def groups_off(users, suited, larger, single=0.0, **given):
    names = zip((users, suited, larger, single), ("users", "suited", "larger", "single"), strict=True)
    return [answered(np.broadcast_to(off, 11), name, **given) for off, name in names]


def boundless():
    """A head that nothing bounds."""
    return Attending(model=learned().model, rank=3, bound=None, bound_v=None, confidence=None)


def front():
    """A head behind a network that bends its output."""
    model = gh.FrontHead(np.eye(3), key_bias=np.zeros(3), behind=lambda X: np.tanh(X.mean(axis=1)).sum(axis=1))
    known = {"bound": 1e-6, "bound_key_bias": 1e-6, "noise": 0.0, "scale": 1.0, "score_error": 1e-6}
    return LearnedFront(model=model, rank=3, confidence=0.99, **known)


@pytest.mark.parametrize(
    ("offs", "bounded", "ok"),
    [
        ((0.04, 0.04, 0.04), True, True),
        ((0.04, 0.04, 0.06), True, False),
        ((0.04, 0.06, 0.04), False, False),
        ((0.04, 0.04, 0.04), False, True),
        ((0.04, 0.04, 0.04, 0.06), False, False),
    ],
)
def test_answers_off_by_a_twentieth_of_their_range_say_too_little(offs, bounded, ok):
    found = learned() if bounded else boundless()
    if ok:
        judge.refuse_void(found, HELD, groups_off(*offs))
        return
    with pytest.raises(gh.AccuracyUnreachable, match="answers are off by 6% of their range"):
        judge.refuse_void(found, HELD, groups_off(*offs))


@pytest.mark.parametrize(("offs", "ok"), [((0.06, 0.04, 0.06, 0.06), True), ((0.06, 0.06, 0.06, 0.06), False)])
def test_where_bounds_leave_all_open_one_size_of_tokens_must_agree(offs, ok):
    groups = groups_off(*offs, furthest=1.0)
    if ok:
        judge.refuse_void(learned(), HELD, groups)
        return
    with pytest.raises(gh.AccuracyUnreachable, match="answers are off by 6% of their range"):
        judge.refuse_void(learned(), HELD, groups)


def test_one_answer_in_eleven_may_be_close_to_a_tie():
    few, more = np.zeros(11), np.zeros(11)
    few[0], more[:2] = 1.0, 1.0
    judge.refuse_void(boundless(), HELD, groups_off(few, 0.0, 0.0))
    with pytest.raises(gh.AccuracyUnreachable):
        judge.refuse_void(boundless(), HELD, groups_off(more, 0.0, 0.0))


@pytest.mark.parametrize(("chosen", "ok"), [(0.5, True), (0.3, False), (0.0, True)])
def test_answers_off_by_a_tenth_of_what_attention_does_say_too_little(chosen, ok):
    groups = groups_off(0.04, 0.04, 0.04, 0.04, chosen=chosen)
    if ok:
        judge.refuse_void(learned(), HELD, groups)
        return
    with pytest.raises(gh.AccuracyUnreachable, match="answers are off by 13% of what attention does to them"):
        judge.refuse_void(learned(), HELD, groups)


class Hidden(LearnedHead):
    """A head of which nothing but answers speaks, and which off by a tenth answers by `shift` otherwise."""

    def hidden(self, share, rng):
        assert share == 0.1
        return [lambda X: np.full(len(X), self.bound)]


@pytest.mark.parametrize(("shift", "ok"), [(0.21, True), (0.19, False)])
@pytest.mark.parametrize("by", ["off", "level"])
def test_a_W_that_shows_in_no_answer_is_refused(shift, ok, by):
    """It must change some answer by twice what that is off, or may be."""
    found = Hidden(**vars(learned()) | {"bound": shift})
    groups = [answered([0.1]) if by == "off" else answered([0.0], level=0.1)]
    if ok:
        judge.refuse_unseen(found, HELD, groups, np.random.default_rng(0))
        return
    with pytest.raises(gh.AccuracyUnreachable, match="one head, number 1 of those found, shows in no answer"):
        judge.refuse_unseen(found, HELD, groups, np.random.default_rng(0))


def test_a_head_shows_where_it_changes_more_than_answers_of_that_kind_are_off():
    """Not where one of them happens to be right; answers are seen by the size of their tokens."""
    found = Hidden(**vars(learned()) | {"bound": 0.21})
    off = np.r_[0.0, np.full(10, 0.2)]
    with pytest.raises(gh.AccuracyUnreachable):
        judge.refuse_unseen(found, HELD, [answered(off)], np.random.default_rng(0))
    judge.refuse_unseen(found, HELD, [answered(off), answered(off / 10)], np.random.default_rng(0))


def test_heads_that_answers_have_to_show():
    """By their W, or else by their key bias; the mean of the tokens has no scores that could be off."""
    rng = np.random.default_rng(0)
    W, key_bias, v = rng.standard_normal((3, 3)), rng.standard_normal(3), rng.standard_normal(3)
    heads = [gh.Attention(W, v, key_bias=key_bias), gh.Attention(0 * W, v, key_bias=key_bias), gh.Attention(0 * W, v)]
    found = Attending(model=gh.MultiHead(heads), rank=(3, 0, 0), bound=None, bound_v=None, confidence=None)
    first, second = found.hidden(0.1, rng)
    assert np.linalg.norm(first.heads[0].W - W) == pytest.approx(0.1 * np.linalg.norm(W), rel=0.9)
    assert np.array_equal(first.heads[0].key_bias, key_bias)
    assert not np.array_equal(second.heads[1].key_bias, key_bias)
    assert not second.heads[1].W.any()
    assert np.array_equal(second.heads[0].W, W)


@pytest.mark.parametrize(("off", "level", "ok"), [(0.09, 0.0, True), (0.11, 0.0, False), (0.19, 0.1, True)])
def test_an_answer_off_by_a_tenth_of_the_largest_says_too_little(off, level, ok):
    """Beyond what was promised, whatever bounds leave open; half of it where these were proved."""
    groups = groups_off(np.r_[off, np.zeros(10)], 0.0, 0.0, level=level, furthest=1.0)
    judge.refuse_far(learned(), HELD, groups)
    measured = replace(learned(), confidence=0.99)
    if ok:
        judge.refuse_far(measured, HELD, groups)
        return
    with pytest.raises(gh.AccuracyUnreachable, match="an answer is off by 11% of the largest"):
        judge.refuse_far(measured, HELD, groups)
    further = groups_off(np.r_[off + 0.4, np.zeros(10)], 0.0, 0.0, level=level, furthest=1.0)
    with pytest.raises(gh.AccuracyUnreachable, match="an answer is off by 51% of the largest"):
        judge.refuse_far(learned(), HELD, further)


def test_of_an_average_of_passes_answers_of_one_size_have_to_do():
    class Averaged(LearnedHead):
        averaged = True

    groups = [answered([0.3]), answered([0.05], "suited"), answered([0.2], "larger")]
    average = Averaged(**vars(replace(learned(), confidence=0.95)))
    judge.refuse_far(average, HELD, groups)
    with pytest.raises(gh.AccuracyUnreachable, match="an answer is off by 20% of the largest"):
        judge.refuse_far(average, HELD, [groups[0], groups[2]])
    with pytest.raises(gh.AccuracyUnreachable, match="an answer is off by 30% of the largest"):
        judge.refuse_far(replace(learned(), confidence=0.95), HELD, groups)


@pytest.mark.parametrize(
    ("shift", "noise", "ok"), [(0.45, 0.0, True), (0.55, 0.0, False), (0.62, 0.05, False), (0.55, 1.0, True)]
)
def test_of_an_average_not_all_answers_may_be_off_the_same_way(shift, noise, ok):
    class Averaged(LearnedHead):
        averaged = True

    average, chance = Averaged(**vars(learned())), noise * np.random.default_rng(1).standard_normal(28)
    group = replace(answered(shift + chance), want=np.linspace(0.0, 1.0, 28)[:, None])
    group = replace(group, got=group.got + group.want)
    judge.refuse_shifted(learned(), HELD, [group])  # of which every answer counts
    judge.refuse_shifted(average, HELD, [replace(group, kind=group.kind._replace(name="suited"))])
    if ok:
        judge.refuse_shifted(average, HELD, [group])
        return
    with pytest.raises(gh.AccuracyUnreachable, match=r"all answers are off the same way, by 5\d% of"):
        judge.refuse_shifted(average, HELD, [group])


@pytest.mark.parametrize(("residual", "read_again", "ok"), [
    (0.019, False, True),
    (0.021, False, False),
    (0.049, True, True),  # every head was read once more, with fresh tokens
    (0.051, True, False),
])  # fmt: skip
def test_without_bounds_a_residual_of_a_fiftieth_says_too_little(residual, read_again, ok):
    class Read(Attending):
        pass

    Read.read_again = read_again
    check = replace(HELD, residual=residual)
    judge.refuse_far(learned(), check, [])
    if ok:
        judge.refuse_far(Read(**vars(boundless())), check, [])
        return
    with pytest.raises(gh.AccuracyUnreachable, match=r"off by [25]% of the largest, and no bound says"):
        judge.refuse_far(Read(**vars(boundless())), check, [])


@pytest.mark.parametrize(("worse", "doubt"), [(0.24, False), (0.26, True)])
def test_one_head_is_in_doubt_where_its_bounds_would_be_widened(worse, doubt):
    groups = [answered([np.sqrt(worse)], "suited", level=1.0), answered([0.0], "single", level=1.0)]
    assert bounds.in_doubt(Promising(3), learned(), groups) == doubt
    assert not bounds.in_doubt(Promising(3, tolerance=1.0), learned(), groups)


@pytest.mark.parametrize(("off", "doubt"), [(0.9, False), (1.1, True)])
def test_one_head_without_bounds_is_in_doubt_where_half_of_its_digits_are_off(off, doubt):
    groups = [answered([0.0]), answered([off * 2.0**-10])]
    assert bounds.in_doubt(Promising(3, roundoff=2.0**-20), boundless(), groups) == doubt
    assert not bounds.in_doubt(Promising(3, roundoff=2.0**-20), front(), groups)
    assert not bounds.in_doubt(Promising(3, roundoff=2.0**-20, rtol=1e-6), boundless(), groups)


# Bounds that are measured.


@pytest.mark.parametrize(("worse", "times"), [(0.24, 1.0), (0.26, 6 * np.sqrt(0.26)), (4.0, 12.0)])
@pytest.mark.parametrize("which", ["suited", "single"])
def test_bounds_are_as_wide_as_answers_show(worse, times, which):
    """From half of what was expected on, six times what was seen; W by suited tokens, v by single ones."""
    groups = [answered([np.sqrt(worse) if name == which else 0.0], name, level=1.0) for name in ("suited", "single")]
    groups = [replace(group, kind=group.kind._replace(X=[np.zeros((2, 3))])) for group in groups]  # no W shows there
    found = bounds.with_true_bounds(learned(), groups)
    assert found.bound / 1e-6 == pytest.approx(times if which == "suited" else 1.0)
    assert found.bound_v / 1e-6 == pytest.approx(times if which == "single" else 1.0)
    assert (found.confidence < 1) == (times > 1)


@pytest.mark.parametrize(("worse", "times"), [(0.24, 1.0), (0.26, 6 * np.sqrt(0.26)), (4.0, 12.0)])
def test_bounds_of_scores_are_as_wide_as_users_sequences_show(worse, times):
    found = bounds.with_bounds_of_users(Promising(3), learned(), [answered([np.sqrt(worse)], "users", level=1.0)])
    assert found.bound / 1e-6 == pytest.approx(times)
    assert found.bound_key_bias / 1e-6 == pytest.approx(times)
    assert (found.bound_v, found.bound_bias) == (1e-6, 1e-6)
    less = replace(learned(), confidence=0.99)
    far = [answered([2.0], "users", level=1.0)]
    assert bounds.with_bounds_of_users(Promising(3), less, far).bound == pytest.approx(8e-6)
    assert bounds.with_bounds_of_users(Promising(3, tolerance=1.0), less, far) is less  # by a promise


@pytest.mark.parametrize("which", ["users", "suited"])
@pytest.mark.parametrize(("worse", "times"), [(0.24, 1.0), (4.0, 12.0)])
def test_what_a_format_promises_is_not_known_to_be_true(worse, times, which):
    oracle = Relayed(3, roundoff=2.0**-9, rtol=2.0**-9, inner={"rtol": 0.0})
    assert bounds.by_format(oracle)
    groups = [answered([np.sqrt(worse) * (name == which)], name, level=1.0) for name in ("users", "suited")]
    found = bounds.with_bounds_of_users(oracle, learned(), groups)
    assert found.bound / 1e-6 == pytest.approx(times)
    said = Relayed(3, roundoff=2.0**-9, rtol=2.0**-9)
    assert bounds.with_bounds_of_users(said, learned(), groups).bound == 1e-6


def test_beside_a_bias_a_bound_of_W_is_as_wide_as_if_W_were_all_that_is_off():
    """Answers are expected to be off by 1, nearly all of it the bias; W off by its bound would move them by less."""
    found = learned(bound_bias=1.0)
    suited, single = answered([0.9], "suited", typical=1.0), answered([0.0], "single", typical=1.0)
    wide = bounds.with_true_bounds(found, [suited, single])
    rng, want = np.random.default_rng(1), found.model(np.stack(suited.X))
    near = [found.with_scores_off([(1e-6, 1e-6)], rng)(np.stack(suited.X)) - want for _ in range(400)]
    assert wide.bound == pytest.approx(6 * 0.9 * 1e-6 / np.sqrt(np.mean(np.square(near))), rel=0.5)
    assert wide.bound_v == found.bound_v


@pytest.mark.parametrize(("worse", "more", "ok"), [
    (0.45, 9.0, True),  # nothing is doubted, and nothing more asked
    (0.55, 0.0, True),  # it was chance
    (1.9, 0.68, True),  # (1.9 + 3 x 0.68) / 4 < 1
    (1.9, 0.72, False),
    (4.1, 0.0, False),  # no more is asked
])  # fmt: skip
def test_a_promise_that_answers_contradict_is_refused(worse, more, ok):
    found = learned(bound=0.0, bound_v=0.0, bound_key_bias=0.0, bound_bias=0.0)
    groups = [answered([np.sqrt(worse)], "suited", level=1.0), answered([0.0], "single", level=1.0)]
    oracle = Promising(3, lambda X: found.model(X) + np.sqrt(more), tolerance=1.0)
    broken = bounds.check_promise(oracle, found, HELD, groups, np.random.default_rng(0))
    assert (broken is None) == ok
    assert oracle.queries == (27 + 12 if 0.5 < worse <= 4 else 0) + (worse > 1)  # beyond the promise: asked again


@pytest.mark.parametrize(("length", "bound_v", "most"), [
    (2, 0.5, 1.5),  # what is typical by the bounds, and all that is promised, one on top of the other
    (2, 2.0, 1.5),
    (1, 0.2, 1.5),
    (1, 2.0, 5.0),  # as bounds of v leave open of a token of length 2
])  # fmt: skip
@pytest.mark.parametrize(("times", "ok"), [(1.98, True), (2.02, False)])
def test_a_promise_may_be_used_up_beside_the_bounds(length, bound_v, most, times, ok):
    """An answer that is off by twice as much may be chance, and one off by more is not."""
    found, x = learned(bound_v=bound_v, bound_bias=0.0), np.array([[0.0, 2.0, 0.0]] * length)
    name, other = ("single", "suited") if length == 1 else ("suited", "single")
    far = answered([times * most], name, level=1.0, typical=0.5)
    far = replace(far, kind=Sequences(name, [x], np.ones(1)))

    def f(X):
        return np.where(X[:, 0, 1] == 2.0, times * most, found.model(X))

    groups = [far, answered([0.0], other, level=1.0)]
    broken = bounds.check_promise(Promising(3, f, tolerance=1.0), found, HELD, groups, np.random.default_rng(0))
    assert (broken is None) == ok


@pytest.mark.parametrize(("off", "again", "rtol", "ok"), [
    (0.45, 9.0, 0.0, None),  # within the promise: nothing is asked again
    (0.55, 1.5, 0.0, True),
    (0.55, 1.6, 0.0, False),  # two answers, 1.05 apart, of which each may be off by a half
    (0.55, 2.5, 0.5, True),  # of the truth, which may be twice as large as the answer
    (0.55, 2.6, 0.5, False),
])  # fmt: skip
def test_an_answer_beyond_its_promise_is_asked_for_again(off, again, rtol, ok):
    oracle = Promising(3, lambda X: np.full(len(X), again), tolerance=1.0, rtol=rtol)
    broken = bounds.check_repeated(oracle, [answered([0.25] * 5 + [off] * 20, level=0.5)])
    assert oracle.queries == (0 if ok is None else 8)
    assert (broken is None) == (ok is not False)
    assert broken is None or broken.law == ASKED_AGAIN


def test_those_furthest_beyond_their_promise_are_asked_again():
    """Of all groups, in a promise of their own; no more than are beyond it."""
    off = np.arange(12.0)
    groups = [answered(off, level=1.0), answered(off, level=0.0), answered(off, level=20.0)]
    oracle = Promising(3, lambda X: np.zeros(len(X)), tolerance=1.0)
    assert bounds.check_repeated(oracle, groups) is not None
    (asked,) = oracle.asked
    np.testing.assert_array_equal(np.sort(asked[:, 0, 0]), np.sort([x[0, 0] for x in groups[0].X[8:] * 2]))
    few = Promising(3, lambda X: np.zeros(len(X)), tolerance=1.0)
    bounds.check_repeated(few, [answered(off, level=8.5)])
    assert few.queries == 3


@pytest.mark.parametrize(("residual", "bound"), [(1e-9, 1e-6), (1e-3, 4e-3 * np.sqrt(3))])
def test_a_bound_behind_a_network_says_no_more_than_answers_do(residual, bound):
    found = bounds.with_bounds_of_residual(learned(), residual)
    assert found.bound == pytest.approx(bound)
    assert found.bound_key_bias == pytest.approx(bound)
    for unknown in (learned(bound=0.0), replace(boundless(), model=gh.Block.random(3, 1))):
        assert bounds.with_bounds_of_residual(unknown, residual) is unknown


SHORT, FEW, HALF = 2.0**-53, 2.0**-20, 2.0**-8


@pytest.mark.parametrize(("promise", "inner", "off", "queries"), [
    ({"roundoff": SHORT}, {}, {"users": [0.0, 0.2]}, 2 * 4),  # with all digits bounds excuse nothing
    ({"roundoff": 2.0**-24}, {}, {"users": [0.0, 0.2]}, 2 * 4),
    ({"roundoff": FEW}, {}, {"users": [0.0, 0.05]}, 2 * 4),
    ({"roundoff": FEW}, {}, {"users": [0.0, 0.2]}, 8 * 6),
    ({"roundoff": FEW}, {}, {"single": [0.0, 0.2]}, 8 * 6),
    ({"roundoff": SHORT, "tolerance": 0.01}, {}, {"users": [0.0, 0.2]}, 8 * 4),  # nothing is measured: it is promised
    ({"roundoff": SHORT, "tolerance": 0.01}, {}, {"users": [0.0, 0.05]}, 2 * 4),
    ({"roundoff": SHORT, "tolerance": 0.01}, {"tolerance": 0.0}, {"users": [0.0, 0.2]}, 8 * 4),
    ({"roundoff": HALF}, {}, {"users": [0.0, 0.05]}, 2 * 4),
    ({"roundoff": HALF}, {}, {"users": [0.0, 0.2]}, 16 * 6),
    ({"roundoff": HALF, "tolerance": 0.01}, {}, {"users": [0.0, 0.2]}, 8 * 4),
    ({"roundoff": HALF, "tolerance": 0.01}, {"tolerance": 0.0}, {"users": [0.0, 0.2]}, 16 * 6),  # by a format alone
    ({"roundoff": SHORT}, {}, {"suited": [0.09, 0.09]}, 8 * 4),  # in doubt
])  # fmt: skip
def test_the_odds_are_asked_more_often_where_bounds_excuse_answers(promise, inner, off, queries):
    found = learned()
    oracle = Relayed(3, found.model, inner=inner, **promise)
    groups = [answered(off.get(name, [0.0, 0.0]), name, level=0.1) for name in ("users", "suited", "single")]
    assert bounds.check_law_of_odds(oracle, found, groups, np.random.default_rng(0)) is None
    assert oracle.queries == queries
    assert bounds.check_law_of_odds(oracle, boundless(), groups, np.random.default_rng(0)) is None
    assert oracle.queries == queries  # of a box that is no one head nothing is asked


@pytest.mark.parametrize(("off", "more"), [(0.05, False), (0.2, True)])
def test_the_odds_behind_a_network_are_asked_where_bounds_excuse_answers(off, more):
    found = front()
    oracle = Promising(3, found.model, roundoff=FEW)
    bounds.check_law_of_odds(oracle, found, [answered([off], level=0.1)], np.random.default_rng(0))
    assert (oracle.queries > 0) == more


@pytest.mark.parametrize("dim", [1, 3, 12])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_box_may_go_by_users_sequences_show_nearly_all_of_it(dim, seed):
    """Of a tenth of all ordinary sequences, by the size of one token or of all, three are asked, rarely two or one."""
    rng = np.random.default_rng(seed)
    users = ordinary.users_sequences(Promising(dim), rng)
    assert len(users) == ordinary.FROM_USERS["value"]
    scales, lengths = 2.0 ** rng.uniform(-1, 1, 8000), rng.integers(2, 65, 8000)
    drawn = [scale * rng.standard_normal((n, dim)) for scale, n in zip(scales.tolist(), lengths.tolist(), strict=True)]

    def goes_by(x):
        sizes = np.sqrt(np.mean(x**2, axis=1))
        return len(x), rms(x), sizes[0], sizes[-1], sizes[-1] / rms(x[:-1]), sizes.max(), sizes.min()

    everything, asked = np.array([goes_by(x) for x in drawn]), np.array([goes_by(x) for x in users])
    met = []
    for column, mine in zip(np.sort(everything, axis=0).T, asked.T, strict=True):
        place = np.sort(np.searchsorted(column, mine) / len(column))
        starts = np.linspace(0.0, 0.9, 91)
        met.append(np.sum((starts[:, None] <= place) & (place < starts[:, None] + 0.1), axis=1))
    assert np.mean(np.array(met) < 1) < 0.01
    assert np.mean(np.array(met) < 2) < 0.1


def test_no_length_is_asked_twice_before_all_others():
    """A box may go by a few lengths of all: nearly every query is of another one."""
    rng = np.random.default_rng(0)
    few = ordinary.asked_lengths(2, 65, 28, rng)
    assert len(set(few)) == 28
    assert all(low <= n < high for n, low, high in zip(few, *_parts(28), strict=True))
    many = ordinary.asked_lengths(2, 65, 84, rng)
    assert (set(many), len(many)) == (set(range(2, 65)), 84)
    assert ordinary.other_lengths([2, 4, 8, 9], {2, 4, 5, 7, 8}, rng) == [3, 6, 8]
    kinds = ordinary.ordinary_sequences(Promising(6), learned(np.eye(6), v=np.ones(6)), rng)
    assert len({len(x) for kind in kinds for x in kind.X}) >= 38


def _parts(count):
    ends = ordinary.even_parts(2, 65, count)
    return ends[:-1], ends[1:]


@pytest.mark.parametrize(("decided", "ok"), [(4, True), (3, False)])
def test_bounds_that_leave_all_but_a_few_answers_open_decide_nothing(decided, ok):
    allowed = np.full(40, np.inf)
    allowed[:decided] = 0.01
    judge.refuse_undecided(learned(), HELD, allowed)  # its bounds are measured
    if ok:
        judge.refuse_undecided(boundless(), HELD, allowed)
        judge.refuse_undecided(boundless(), HELD, np.full(3, np.inf))  # there was hardly anything to ask
        return
    with pytest.raises(gh.AccuracyUnreachable, match="bounds leave all but 3 of 40 fresh answers open"):
        judge.refuse_undecided(boundless(), HELD, allowed)
    with pytest.raises(gh.AccuracyUnreachable, match="bounds leave all but 0 of 40 fresh answers open"):
        judge.refuse_undecided(learned(), HELD, np.full(40, np.inf))


class Near(LearnedHead):
    """A head whose neighbours answer by its bound otherwise."""

    def neighbours(self, share, count, rng):
        return [lambda X: np.full((len(X), 1), self.bound)]


@pytest.mark.parametrize(("suited", "off", "wrong", "ok"), [
    (0.0, 0.02, 1, True),  # one of 22 may be a tie
    (0.0, 0.02, 2, False),
    (0.0, 0.009, 11, True),  # a hundredth of the range
    (0.1, 0.6, 11, True),  # suited tokens show W to be off as well: 3 x 2 x 0.1
    (0.1, 0.62, 11, False),
    (0.01, 0.2, 11, False),
    (5.0, 2.9, 11, True),  # bounds are not made any wider: 3 x 1
    (5.0, 3.2, 11, False),
])  # fmt: skip
def test_answers_to_users_are_held_against_what_suited_tokens_show(suited, off, wrong, ok):
    found = Near(**vars(learned()) | {"bound": 1.0})
    offs = np.where(np.arange(11) < wrong, off, 0.0)
    larger = offs if wrong == 11 else np.zeros(11)
    groups = [answered(offs), answered(np.full(11, suited), "suited", typical=1.0), answered(larger, "larger")]
    broken = bounds.strayed(found, HELD, groups, np.random.default_rng(0))
    assert (broken is None) == ok


@pytest.mark.parametrize("off", [1e-3, 0.1])
def test_bounds_behind_a_network_are_measured_on_suited_tokens(off):
    found = learned()
    groups = [answered([9.0], "users", level=2.0), answered([off], "suited", level=2.0)]
    times = bounds.with_bounds_behind(found, groups).bound / found.bound
    assert times == pytest.approx(4 * 80 * off / 2.0)
    assert bounds.with_bounds_behind(found, groups[:1]) is found


# A first look, and yes and no.


@pytest.mark.parametrize(("off", "promise", "ok"), [(0.005, {}, True), (0.02, {}, False), (0.02, {"rtol": 0.02}, True)])
def test_a_first_look_allows_a_hundredth_of_the_largest_answer(off, promise, ok):
    found = learned(np.eye(4), v=np.ones(4))
    oracle = Promising(4, None, **promise)
    largest = []

    def box(X):
        y = found.model(X)
        largest.append(np.abs(y).max())
        return y

    oracle.f = box
    assert judge.check_a_few(oracle, found, np.random.default_rng(0))
    assert oracle.queries == 4
    assert [X.shape[1] for X in oracle.asked] == [2, 3, 5, 8]
    most = max(largest)
    oracle.f = lambda X: found.model(X) + off * most
    assert judge.check_a_few(oracle, found, np.random.default_rng(0)) == ok
    oracle.f = lambda X: found.model(X) - off * most * np.sign(found.model(X))
    assert judge.check_a_few(oracle, found, np.random.default_rng(0)) == ok
    tolerant = Promising(4, lambda X: found.model(X) + 0.02 * most, tolerance=0.02 * most)
    assert judge.check_a_few(tolerant, found, np.random.default_rng(0))


def signs(found, wrong, sizes=1.0, count=40):
    """Yes and no, wrong for the sequences with these numbers."""
    rng = np.random.default_rng(0)
    X = list(sizes * rng.standard_normal((count, 3, 3)))
    answers = np.array([found.model(x) > 0 for x in X]).ravel()
    answers[list(wrong)] ^= True
    table = {x.tobytes(): bool(y) for x, y in zip(X, answers, strict=True)}
    oracle = Promising(3, lambda B: np.array([table[x.tobytes()] for x in B]), answers="sign")
    return oracle, X


def test_one_wrong_sign_is_refused_where_the_model_is_sure():
    found = learned(bound=1e-9)
    rng = np.random.default_rng(0)
    oracle, X = signs(found, ())
    check = sides.check_signs_everywhere(oracle, found, HELD, X, rng)
    assert check.evidence is None
    assert check.compared == 16 + 40
    values = np.array([found.model(x) for x in X])
    sure, unsure = int(np.argmax(np.abs(values))), int(np.argmin(np.abs(values)))
    assert sides.check_signs_everywhere(signs(found, [sure])[0], found, HELD, X, rng).evidence is not None
    assert abs(values[unsure]) < 0.01 * np.ptp(values)
    assert sides.check_signs_everywhere(signs(found, [unsure])[0], found, HELD, X, rng).evidence is None
    assert sides.check_signs_everywhere(oracle, found, HELD, [], rng) is HELD


def test_signs_that_neighbours_see_otherwise_are_not_counted():
    """A bound on the bias as large as all values leaves every sign open."""
    found = learned(bound_bias=100.0)
    oracle, X = signs(found, range(40))
    assert sides.check_signs_everywhere(oracle, found, HELD, X, np.random.default_rng(0)).evidence is None


@pytest.mark.parametrize(
    ("wrong", "doubt", "ok"), [([3], 1e-2, True), ([3], 1e-5, False), ([3, 5], 1e-2, False), ([], 1e-5, True)]
)
def test_behind_a_network_one_sign_may_change_next_to_a_sequence(wrong, doubt, ok):
    """If scores are known so badly that this is likely for one of forty."""

    class Unsure(Attending):
        def doubt(self, X, want):
            return np.full(len(X), doubt)

    class Front:
        dim = 3

        def __call__(self, X):
            return np.asarray(X)[..., -1, 0] > 0

    found = Unsure(**vars(boundless()))
    object.__setattr__(found, "model", Front())
    oracle, X = signs(found, wrong)
    check = sides.check_signs_everywhere(oracle, found, HELD, X, np.random.default_rng(0))
    assert (check.evidence is None) == ok


def test_what_the_judge_says_of_a_result():
    check = held_out.with_sequences(HELD, np.array([0.01, 0.03]), 1e-3)
    assert (check.residual, check.compared) == (1e-3, 18)
    assert (check.checked.sequences, check.checked.within) == (2, 0.03)
    assert held_out.with_sequences(HELD, np.empty(0), 0.0).checked is None
    assert held_out.with_sequences(HELD, np.array([0.01]), 0.0).residual == 1e-9
