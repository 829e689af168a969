"""What answers to ordinary sequences say of bounds: whether these are as wide as they must be, and what they excuse.

Bounds that follow from a promise are held against the answers; where a box makes none, the error of its arithmetic is
measured, and bounds are widened by it. A law that bounds of W play no part in tells bad arithmetic from a second head.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._errors import ASKED_AGAIN, EVERYWHERE, Evidence
from .._learned import HeldOut, Learned, LearnedFront
from .._linalg import rms
from .._oracles import SINGLE, Oracle
from .answered import NEIGHBOURS, OF_RANGE, Answered, apart, ask_by_length, read_groups, with_doubts
from .compared import Compared
from .front_odds import check_odds_behind
from .odds import MORE_PROBES, NARROW_PROBES, ODDS_PROBES, check_odds
from .ordinary import (
    FROM_USERS_COARSE,
    LARGER,
    SINGLES,
    SUITED,
    USERS,
    Sequences,
    ordinary_sequences,
    said,
    users_sequences,
)

# Times an error of W or v that was measured on a dozen answers: a bound that may be too small. Of 90 heads with coarse
# scores none was off by more than 2.2 times what was seen, and of 9,000 boxes of the red team one by 4.4 times.
WIDENED = 6.0
# Times the same where a bound is a statement of chance anyway, as that on what a low rank leaves out, which errors come
# close to; and behind a network, where a score moves answers by less than it does elsewhere.
WIDENED_LESS = 4.0
SHRUNK = 2.0  # times the same: W is hardly further off, whatever larger bounds allow
HALF_AS_FAR = 0.25  # the square of the measured error over the bound, from which the bound is not believed
PROMISE_DOUBTED, PROMISE_BROKEN = 0.5, 4.0  # the same square, from which a promise is doubted, and not believed
USED_UP = 1 + 1e-6  # times a promise: an adversary uses up all of it, and rounding comes on top
REPEATED = 8  # questions at most whose answers are further off than promised, asked again
MORE_DOUBTED, DOUBT_CONFIRMED = 3, 1.0  # times as many answers again where it is doubted, and the square for all
SLOPE = 80.0  # by how much less than their range answers behind a network typically move with a score: 3 to 80 times
FAR_BEYOND = 50.0  # times what was promised of an answer
TIES = 0.05  # of the answers to users' tokens and larger ones: closer to a tie than any model within the bounds tells


def strayed(learned: Learned, held: HeldOut, groups: list[Answered], rng: np.random.Generator) -> Evidence | None:
    """What shows that more than a few answers to users' tokens and to larger ones are off, while those to suited tokens
    show W to be known far better than that. Bounds that allow for the worst would excuse it."""
    seen = learned.with_bounds_times(min(1.0, SHRUNK * of_kind(groups, SUITED).seen))
    others = [group for group in groups if group.kind.name in (USERS, LARGER)]
    off = [group.strays for group in with_doubts(others, seen, held, rng)]
    if float(np.mean(np.concatenate([each.excess for each in off]) > 1)) <= TIES:
        return None
    return next(found for each in off if (found := each.evidence(EVERYWHERE)) is not None)


def read_more_of_users(
    oracle: Oracle, learned: Learned, held: HeldOut, groups: list[Answered], rng: np.random.Generator
) -> list[Answered]:
    """These, and more of users' sequences where one of them is answered by far not as was promised, and the bounds that
    follow from the promise excuse it: a near tie is a few, another box as many as it is another one for."""
    users = of_kind(groups, USERS)
    if not np.any(users.off > np.maximum(FAR_BEYOND * users.level, OF_RANGE / 2 * users.range)):
        return groups
    X = users_sequences(oracle, rng, FROM_USERS_COARSE)
    more = said(learned, Sequences(USERS, X, np.array([rms(x) for x in X])))
    return [*groups, *read_groups(oracle, learned, held, [more] if more.X else [], rng)]


def of_kind(groups: list[Answered], name: str) -> Answered:
    return next(group for group in groups if group.kind.name == name)


def with_true_bounds(learned: Learned, groups: list[Answered]) -> Learned:
    """Bounds that are as wide as the answers show, where the box computes less accurately than its answers look."""
    suited, alone = of_kind(groups, SUITED), of_kind(groups, SINGLES)
    if max(suited.worse, alone.worse) <= HALF_AS_FAR:
        return learned
    of_W, of_v = float(np.sqrt(suited.worse)), float(np.sqrt(alone.worse))
    of_W = max(of_W, off_by_scores(learned, suited))
    times = WIDENED if learned.confidence == 1 else WIDENED_LESS
    return learned.with_bounds_measured(max(1.0, times * of_W), max(1.0, times * of_v))


def by_format(oracle: Oracle) -> bool:
    """Whether nothing but a narrow format promises how far off answers are, which is not known to be true."""
    return oracle.box.narrow and oracle.box.exact


def with_bounds_of_users(oracle: Oracle, learned: Learned, groups: list[Answered]) -> Learned:
    """Bounds of scores as wide as users' sequences show them to be, once these are known to be explained: beside a
    large key bias W may be off by what hardly shows at the tokens that suit the head. What follows from a promise stays
    as it is, but for that of a format."""
    if not (oracle.exact or (by_format(oracle) and not learned.averaged)):
        return learned
    worse = max(of_kind(groups, name).worse for name in ((USERS,) if oracle.exact else (USERS, SUITED)))
    if worse <= HALF_AS_FAR:
        return learned
    times = WIDENED if learned.confidence == 1 else WIDENED_LESS
    return learned.with_bounds_measured(max(1.0, times * float(np.sqrt(worse))), 1.0)


def off_by_scores(learned: Learned, group: Answered) -> float:
    """How far off W may be, over its bound, if it is all that answers are off by: beside a large bias the bound of that
    one may be most of what is expected of them, and hide an error of W."""
    around = learned.with_bounds_times(1.0, 0.0).neighbours(0.0, NEIGHBOURS, np.random.default_rng(0))
    want = ask_by_length(learned.model, group.X)
    typical = rms(np.array([apart(model, group.X, want) for model in around]))
    return rms(group.off) / typical if typical > 0 else 0.0


def check_promise(
    oracle: Oracle, learned: Learned, held: HeldOut, groups: list[Answered], rng: np.random.Generator
) -> Evidence | None:
    """What contradicts the promise that bounds follow from: answers that are further off than these say. Where that is
    so of a few it may be chance, and more are asked."""

    def at_most(group: Answered) -> Answered:
        """An adversary may use up all that is promised of answers, and the bounds of v and the bias, which single
        tokens show whole."""
        typical = np.maximum(group.typical, learned.most_alone(group.X)) + group.level
        return replace(group, typical=typical, level=np.zeros(len(group.X)))

    with_keys = [group for group in groups if group.kind.name in (USERS, SUITED)]
    if (broken := check_repeated(oracle, with_keys)) is not None:
        return broken
    seen, limit = {name: [at_most(of_kind(groups, name))] for name in (SUITED, SINGLES)}, PROMISE_BROKEN
    if PROMISE_DOUBTED < max(group.worse for (group,) in seen.values()) <= PROMISE_BROKEN:
        more = [kind for _ in range(MORE_DOUBTED) for kind in ordinary_sequences(oracle, learned, rng)]
        for group in read_groups(oracle, learned, held, [kind for kind in more if kind.name in seen], rng):
            seen[group.kind.name].append(at_most(group))
        limit = DOUBT_CONFIRMED
    doubted = max(seen.values(), key=lambda group: np.mean([each.worse for each in group]))
    if np.mean([group.worse for group in doubted]) <= limit:
        return None
    worst = max(doubted, key=lambda group: group.worse)
    return Compared(worst.X, worst.got, worst.want, worst.expected).evidence(EVERYWHERE)


def check_repeated(oracle: Oracle, groups: list[Answered]) -> Evidence | None:
    """What breaks a promise whatever the box is: two answers to a question, apart by more than each may be off. Asked
    again are those that are furthest beyond their promise, which bounds may excuse, if any.

    Levels are shares of the answers, promises of the truth, which is at most `1 / (1 - rtol)` times as large.
    """
    X = [x for group in groups for x in group.X]
    got, level, off = (np.concatenate([getattr(group, name) for group in groups]) for name in ("got", "level", "off"))
    beyond = [i for i in np.argsort(level - off, kind="stable")[:REPEATED] if off[i] > level[i]]
    if not beyond:
        return None
    again = ask_by_length(oracle, [X[i] for i in beyond])
    each_off = USED_UP * level[beyond] / (1 - oracle.rtol)
    return Compared([X[i] for i in beyond], again, got[beyond], each_off * 2).evidence(ASKED_AGAIN)


def in_doubt(oracle: Oracle, learned: Learned, groups: list[Answered]) -> bool:
    """Whether answers are further off than bounds allow, or, without bounds, than half of their digits: the box may
    compute less accurately than its answers look, which a law that bad arithmetic obeys tells from a second head."""
    if learned.measurable:
        return oracle.exact and with_true_bounds(learned, groups) is not learned
    off = max((group.compared.residual(group.largest) for group in groups), default=0.0)
    return oracle.exact and learned.bound is None and off > float(np.sqrt(oracle.roundoff))


def check_law_of_odds(
    oracle: Oracle, learned: Learned, groups: list[Answered], rng: np.random.Generator
) -> Evidence | None:
    """What breaks a law of one head that bounds of W play no part in; asked more often, and behind a network at all,
    where bounds excuse what might be a second one."""
    doubtful = excused(oracle, groups)
    if isinstance(learned, LearnedFront):
        return check_odds_behind(oracle, learned, rng) if doubtful else None
    if not learned.one_head:
        return None
    measured = doubtful and (oracle.exact or by_format(oracle))
    probes = MORE_PROBES if doubtful or in_doubt(oracle, learned, groups) else ODDS_PROBES
    probes = NARROW_PROBES if measured and oracle.box.narrow else probes
    return check_odds(oracle, learned, rng, probes, measured=measured)


def excused(oracle: Oracle, groups: list[Answered]) -> bool:
    """Whether answers are further off than was promised, or than their few digits are, which only bounds excuse."""
    few_digits = oracle.roundoff > SINGLE or not oracle.exact
    return few_digits and any(np.any(group.off > group.level) for group in groups)


def with_bounds_behind(learned: Learned, groups: list[Answered]) -> Learned:
    """A head with an unknown network behind it, with bounds as wide as answers to suited tokens show them to be: far
    smaller ones, unless the box computes less accurately than its answers look."""
    suited = [group for group in groups if group.kind.name == SUITED]
    off = [float(np.median(group.off / group.expected)) for group in suited]
    return learned.with_bounds_times(WIDENED_LESS * SLOPE * off[0]) if off else learned


def with_bounds_of_residual(learned: Learned, residual: float) -> Learned:
    """A bound that says no more of W than answers show, of the largest: where exponentials come from a table, what a
    score is off by depends on where it was read, and may be larger there than elsewhere."""
    model: Any = learned.model
    least = WIDENED_LESS * residual * float(np.linalg.norm(model.W)) if learned.bound else 0.0
    return learned.with_bounds_times(least / learned.bound) if learned.bound and least > learned.bound else learned
