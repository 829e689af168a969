"""The judge: is what was found what the box does, where users look? One rule for every family, after its own check.

Ordinary sequences are asked, of 1 to 64 tokens: of the size that users send, of the size at which the scores found
neither vanish nor saturate, and of larger ones. A result stands if every answer is as predicted within 1% of the range
of answers, beyond what was promised about them and what the bounds leave open: an error level that does not depend on
the misfit. Answers further off than 5% of their range, or than a tenth of what attention does to them, say too little
about W whatever the reason, and the result is refused as `AccuracyUnreachable`. So is one that knows nothing: a bound
no smaller than W, a head that shows in no answer, or, unless bounds are proved, an answer off by a tenth of the largest
(`refusals`).

The error of the box's arithmetic is measured, not guessed from the format of its answers: where answers are typically
further off than bounds allow, the bounds are widened by as much, and are statistical from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._errors import ALSO_ELSEWHERE, EVERYWHERE, Evidence
from .._learned import HeldOut, Learned, LearnedHead
from .._oracles import Oracle, Voting
from .._recovery import MOST_PAIRS, Checked
from .balance import check_balance
from .bounds import check_law_of_odds, check_promise, strayed, with_bounds_behind, with_true_bounds
from .held_out import CHECKING, Compared
from .ordinary import (
    NEIGHBOURS,
    OF_RANGE,
    SINGLES,
    SUITED,
    Answered,
    by_length,
    gaussian_sequences,
    ordinary_sequences,
    read_groups,
    with_doubts,
)
from .refusals import beyond_users, refuse_far, refuse_unbounded, refuse_undecided, refuse_unseen, refuse_void
from .signs import beside_changes

SIDES_MISSED = 1  # of yes-or-no answers behind a network, which may change next to an ordinary sequence,
UNLIKELY = 1e-3  # unless bounds say that hardly one in a thousand of such checks would meet that
MORE_SIDES = 3  # times as many sequences again where none can be asked next to a change: each says yes or no


def check_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, rng: np.random.Generator
) -> tuple[Learned, HeldOut]:
    """What is found, with bounds that hold, and what fresh queries say of it, after `JUDGE_QUERIES` more, and
    `ODDS_QUERIES` for one head, four times as many where it is in doubt, all repeated where answers are averages, and
    once more without; for a head whose predictions ask the box, twice as many but for single tokens, which it says
    nothing about."""
    oracle.stage = CHECKING
    refuse_unbounded(oracle, learned, held)
    kinds = ordinary_sequences(oracle, learned, rng)
    if oracle.answers == "sign":
        names = (SUITED, SINGLES) if learned.one_head else ()
        beside = [x for kind in kinds if kind.name in names for x in kind.X]
        if beside and (broken := check_changes(oracle, learned, beside, rng)) is not None:
            return learned, replace(held, evidence=broken)
        if isinstance(learned, LearnedHead) and (broken := check_balance(oracle, learned, rng)) is not None:
            return learned, replace(held, evidence=broken)
        others = [x for kind in kinds if kind.name not in names for x in kind.X]
        more = 0 if learned.one_head else MORE_SIDES
        others += [x for _ in range(more) for kind in ordinary_sequences(oracle, learned, rng) for x in kind.X]
        return learned, check_signs_everywhere(oracle, learned, held, others, rng)
    groups = read_groups(oracle, learned, held, kinds, rng)
    if (broken := check_law_of_odds(oracle, learned, groups, rng)) is not None:
        return learned, replace(held, evidence=broken)
    if learned.measurable and not oracle.exact:
        if (broken := check_promise(oracle, learned, held, groups, rng)) is not None:
            return learned, replace(held, evidence=broken)
    elif learned.measurable:
        if (found := with_true_bounds(learned, groups)) is not learned:
            learned, groups = found, with_doubts(groups, found, held, rng)
            refuse_unbounded(oracle, learned, held)
    elif learned.bound is not None:
        seen = with_bounds_behind(learned, groups)
        groups = with_doubts(groups, seen, held, rng)
        learned = max(learned, seen, key=lambda each: each.bound or 0.0)
        refuse_unbounded(oracle, learned, held)
    # Where answers are averages, users get single ones: these count, too, within the noise that was measured.
    once = [] if oracle.once is None else read_groups(oracle.once, learned, held, kinds, rng)
    compared = [group.compared for group in (*groups, *once)]
    allowed = np.concatenate([group.allowed_share for group in groups] or [[]])
    residual = max((group.compared.residual(group.largest) for group in (*groups, *once)), default=0.0)
    check = with_sequences(held, allowed[np.isfinite(allowed)], residual, groups)
    law = ALSO_ELSEWHERE if oracle.exact and not oracle.narrow else EVERYWHERE
    evidence = next((found for each in compared if (found := each.evidence(law)) is not None), None)
    if evidence is None and learned.measurable:
        evidence = strayed(learned, held, groups, rng)
    if evidence is not None:
        return learned, replace(check, evidence=evidence, checked=None)
    refuse_undecided(learned, check, allowed)
    beyond = () if learned.averaged else beyond_users(oracle, learned)
    refuse_void(learned, check, [group for group in groups if group.kind.name not in beyond])
    refuse_unseen(learned, check, groups, rng)
    refuse_far(learned, check, groups)
    return learned, check


A_FEW = 2, 3, 5, 8  # the lengths of a first look


def check_a_few(oracle: Oracle, learned: Learned, rng: np.random.Generator) -> bool:
    """Whether a few sequences of users' size are answered as predicted: a first look, for learners that can go on."""
    X = gaussian_sequences(oracle, A_FEW, np.ones(len(A_FEW)), rng)
    got, want = by_length(oracle, X), by_length(learned.model, X)
    level = oracle.tolerance + (oracle.rtol + OF_RANGE) * np.abs(got).max()
    return bool(np.abs(got - want).max() <= level)


def with_sequences(held: HeldOut, allowed: np.ndarray, residual: float, groups: Sequence[Answered] = ()) -> HeldOut:
    """What the held-out check said, and ordinary sequences after it: how far off each could have been, of the range."""
    residual, count = max(residual, held.residual or 0.0), len(allowed)
    words = f"{held.words}; {count} ordinary sequences agree to {residual:.1e}"
    checked = Checked(count, float(allowed.max()), *pairs(groups)) if count else None
    return replace(held, residual=residual, words=words, compared=held.compared + count, checked=checked)


def pairs(groups: Sequence[Answered]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Predictions and answers, number by number, evenly chosen where there are many."""
    if not groups:
        return (), ()
    want, got = (np.concatenate([getattr(group, side).ravel() for group in groups]) for side in ("want", "got"))
    chosen = np.unique(np.linspace(0, len(want) - 1, MOST_PAIRS).astype(int))
    return tuple(want[chosen].astype(float).tolist()), tuple(got[chosen].astype(float).tolist())


def check_changes(oracle: Oracle, learned: Any, near: list[np.ndarray], rng: np.random.Generator) -> Evidence | None:
    """What sequences next to a change of the answer say against it, if any does."""
    X = beside_changes(oracle, learned, near, rng)
    if not X:
        return None
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    got, want = (by_length(function, X)[:, 0] > 0 for function in (sure, learned.model))
    return Compared(X, got, want).evidence(EVERYWHERE)


def check_signs_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, X: list[np.ndarray], rng: np.random.Generator
) -> HeldOut:
    """Yes or no, where the model and its neighbours say the same and are not close to changing it; everywhere, for a
    head that predicts no values but what the box says of shorter sequences."""
    if not X:
        return held
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    got = by_length(sure, X)[:, 0].astype(bool)
    want = by_length(learned.model, X)[:, 0]
    close = float(np.sum(learned.doubt(X, want[:, None].astype(float))))  # how many scores may be off by as much as one
    missed, allowed = got != (want > 0), SIDES_MISSED * (close > UNLIKELY)
    if want.dtype != bool:
        around = np.array([by_length(model, X)[:, 0] for model in learned.neighbours(0.0, NEIGHBOURS, rng)])
        decided = (np.abs(want) > OF_RANGE * np.ptp(want)) & ((around > 0) == (want > 0)).all(axis=0)
        missed, allowed = missed & decided, 0
    check = with_sequences(held, np.zeros(len(X)), 0.0)
    if missed.sum() <= allowed:
        return check
    compared = Compared(X, got, np.where(missed, ~got, got))
    return replace(check, evidence=compared.evidence(EVERYWHERE), checked=None)
