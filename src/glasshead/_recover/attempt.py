"""Attempts at a box: as one family, from its first queries to the judge, or as one after the other of those that its
answers suggest."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .._checks import JUDGE_QUERIES, ODDS_QUERIES, QUERIES, SIGN_QUERIES, check_everywhere
from .._errors import AccuracyUnreachable, BudgetExceeded, GlassheadError, NotConverged, NotIdentifiable, TargetMismatch
from .._families import FAMILIES, NEEDED, PROMISES, Family, Method, resolve
from .._learned import HeldOut, Learned
from .._models import Block, FrontHead, Norm
from .._oracles import Flat, Opening, Oracle, read_opening
from .._recognise import LAST_RESORT, NO_GUESS, Failure, find_families, find_next
from .._recovery import Recovery

CHECKS = {"value": QUERIES + JUDGE_QUERIES, "sign": SIGN_QUERIES + JUDGE_QUERIES}  # queries of all checks of a result

Outcome = tuple[Recovery, str]  # what was found, and what to warn of, if anything


@dataclass(frozen=True)
class Wanted:
    """What the caller asked for, and of which box."""

    box: Oracle
    family: str
    rank: int | None
    accuracy: float | None
    norm: Norm | str | None
    residual_map: str | None
    seed: int


def recover_recognised(oracle: Oracle, wanted: Wanted) -> Outcome:
    """Try what a few answers suggest; where a family does not fit, what its failure suggests."""
    opening = read_opening(oracle, np.random.default_rng(wanted.seed))
    guess = find_families(oracle, opening, wanted.seed, wanted.rank is None and wanted.accuracy is None)
    tried: list[str] = []
    first: TargetMismatch | None = None
    before: GlassheadError | None = None
    while True:
        family = guess.families[0]
        tried.append(family)
        try:
            found, warning = recover_as(oracle, wanted, family, opening, guess.words)
        except (TargetMismatch, NotIdentifiable, NotConverged) as error:
            if first is not None and isinstance(error, NotConverged):
                raise first from error  # that something else does not converge either is no news
            if before is not None and guess is LAST_RESORT:
                raise before from error
            if isinstance(error, TargetMismatch):
                first, opening = first or error, replace(opening, known=error.known)
            before = error
            hidden = isinstance(error, NotIdentifiable) and not isinstance(error, Flat) and family != "block"
            guess = NO_GUESS if hidden else guess.without(family)
            if not guess.families:
                guess = find_next(oracle, Failure(family, error, any_rank=wanted.rank is None), opening, wanted.seed)
            if not guess.families or guess.families[0] in tried:
                for note in notes_on(wanted, tried, opening):
                    error.add_note(note)
                raise
        else:
            if before is not None and guess is LAST_RESORT and not half_the_digits(oracle, found):
                raise before
            return found, warning


def half_the_digits(oracle: Oracle, found: Recovery) -> bool:
    """Whether answers are as predicted to half of the digits that they have: what is tried last has to explain more of
    them than noise on something else would."""
    return (found.residual or 0.0) <= float(np.sqrt(oracle.roundoff)) + oracle.tolerance + oracle.rtol


def notes_on(wanted: Wanted, tried: list[str], opening: Opening) -> list[str]:
    """What else may be said to someone whose box is of none of the families that were tried."""
    notes: list[str] = []
    if wanted.rank is not None and "multi-head" not in tried:
        notes.append('If there may be several heads of that rank, family="multi-head" allows for them')
    if tried[-1] == "any-network" and "block" not in tried:
        notes.append(
            f"Several heads in front of a network show apart only in all of its outputs: this box gives "
            f"{opening.outputs} of {wanted.box.dim}; with all of them family='block' may find them"
        )
    return notes


def recover_as(oracle: Oracle, wanted: Wanted, family: str, opening: Opening | None = None, seen: str = "") -> Outcome:
    """The box as one of a family, or why it is none; `opening` if its first queries have been asked already, `seen` is
    why it may be one."""
    declared = FAMILIES[family]
    if opening is None and declared.opens and oracle.answers == "value":
        opening = read_opening(oracle, np.random.default_rng(wanted.seed))
    method = declared.methods[declared.kind(oracle.answers, None if opening is None else opening.outputs)]
    rng, options = np.random.default_rng(wanted.seed), {name: getattr(wanted, name) for name in declared.options}
    if declared.opens and opening is not None:
        rng, options = deepcopy(opening.after), options | {"opening": opening}
    hand_back = partial(handed_back, oracle, wanted.box, seen)
    try:
        learned = learned_by(method, oracle, wanted, rng, options)
        learned, check = checked_by(method, oracle, learned, rng)
    except BudgetExceeded as error:
        if isinstance(unchecked := error.known.get("unchecked"), Learned):
            error.known["unchecked"] = hand_back(unchecked, None)
        raise
    except (AccuracyUnreachable, NotConverged, TargetMismatch) as error:
        error.best = hand_back(error.best, error.best.check) if isinstance(error.best, Learned) else None
        raise
    found = hand_back(learned, check)
    if check.evidence is not None:
        mismatch = TargetMismatch(why_not(declared, oracle, wanted.rank), check.evidence, found)
        raise resolve(method.explain)(oracle, mismatch, rng) if method.explain else mismatch
    check_accuracy(oracle, wanted.accuracy, found, learned.needed)
    return found, check.warning


def learned_by(
    method: Method, oracle: Oracle, wanted: Wanted, rng: np.random.Generator, options: dict[str, Any]
) -> Learned:
    """What the method learns; where a budget ends, how many queries more it would have taken."""
    try:
        return resolve(method.learn)(oracle, rng, wanted.rank, wanted.accuracy, **options)
    except BudgetExceeded as error:
        if method.estimate:
            likely = resolve(method.estimate)(oracle.dim, wanted.rank, error.known, oracle.answers, wanted.accuracy)
            error.needed = max(error.needed, likely - oracle.queries)
        raise


def checked_by(method: Method, oracle: Oracle, learned: Learned, rng: np.random.Generator) -> tuple[Learned, HeldOut]:
    """What was learned after the family's own check, unless it was part of learning, and the judge; where a budget ends
    before them, it is known as `unchecked`."""
    before = oracle.queries
    try:
        seen_by = learned.through(oracle)
        check = learned.check or resolve(method.check or learned.checked_by)(seen_by, learned, rng)
        return (learned, check) if check.evidence is not None else check_everywhere(seen_by, learned, check, rng)
    except BudgetExceeded as error:
        error.known["unchecked"] = learned
        checks = (JUDGE_QUERIES if learned.check else CHECKS[oracle.answers]) + ODDS_QUERIES * learned.one_head
        error.needed = max(error.needed, before + checks - error.budget)
        raise


def handed_back(oracle: Oracle, box: Oracle, seen: str, learned: Learned, check: HeldOut | None) -> Recovery:
    """What the user gets. A model that asks the box asks that of the user: it is not part of this recovery any more."""
    found = learned.recovery(oracle.queries, check, seen)
    if isinstance(found.model, FrontHead | Block):
        found.model.behind = box
    if isinstance(found.model, Block):
        found.model.asked = 0
    return found


def why_not(declared: Family, oracle: Oracle, rank: int | None) -> str:
    """What fresh answers that do not fit say of the box."""
    also = "" if rank is None else f", or its rank is above rank={rank}"
    return (
        f"the box is not {declared.what}, or its answers are less accurate than promised "
        f"(then say so with {PROMISES[oracle.answers]}){also}"
    )


def check_accuracy(oracle: Oracle, accuracy: float | None, found: Recovery, needed: str) -> None:
    """Refuses a bound that is infinite, or larger than was asked for; `needed` says in words what would help."""
    promised = oracle.tolerance or oracle.rtol or oracle.max_norm
    needed = needed or (better(oracle, accuracy, found.bound) if promised else "")
    advice = f"{needed} is needed" if needed else "its numbers have too few digits"
    if found.bound is not None and not np.isfinite(found.bound):
        raise AccuracyUnreachable(f"this box's answers do not bound W at all; {advice}", found)
    if accuracy is None:
        return
    asked = f"asked for ||W_hat - W||_F <= {accuracy:.3g}"
    if found.bound is None:
        why = f"for family {found.family!r} nothing is guaranteed, only checked on fresh queries"
        raise AccuracyUnreachable(f"{asked}, but {why}; leave accuracy= out, or take what was found from .best", found)
    if found.bound > accuracy:
        raise AccuracyUnreachable(f"{asked}, this box's answers only prove {found.bound:.3g}; {advice}", found)


def better(oracle: Oracle, accuracy: float | None, bound: float | None) -> str:
    """What would be needed. An error falls with the tolerance, and with the length of the tokens."""
    if accuracy is None or bound is None or not np.isfinite(bound) or oracle.answers != "value":
        return NEEDED[oracle.answers]
    short = bound / accuracy
    promises = {"tolerance": oracle.tolerance / short, "rtol": oracle.rtol / short}
    smaller = " and ".join(f"{name} = {value:.2g}" for name, value in promises.items() if value > 0)
    longer = "" if oracle.max_norm is None or oracle.rtol else f"max_norm = {oracle.max_norm * short:.2g}"
    return " or ".join(f"about {option}" for option in (smaller, longer) if option) or NEEDED[oracle.answers]
