"""What was tried on a box and failed, and what is raised in the end: a table, `VERDICTS`, says after which failure an
earlier one says more. Which family comes next is in `rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import (
    ALL_HEADS,
    ANY_ORDER,
    ANY_RANK,
    COPIED_KEY,
    FRESH_ANSWERS,
    SHORTER_KEY,
    AccuracyUnreachable,
    BudgetExceeded,
    GlassheadError,
    NotConverged,
    NotIdentifiable,
    TargetMismatch,
    law_of,
)
from .._families import FAMILIES, Family
from .._oracles import Flat, Oracle
from .._recovery import Recovery
from .guess import LAST_RESORT, NO_GUESS, Guess


@dataclass(frozen=True)
class Failure:
    """Why the first family of a guess did not explain the box; `any_rank` unless the caller named one."""

    guess: Guess
    error: GlassheadError
    any_rank: bool

    @property
    def family(self) -> str:
        return self.guess.families[0]

    @property
    def declared(self) -> Family:
        return FAMILIES[self.family]

    @property
    def law(self) -> str:
        """The law that the box broke, if that was it."""
        return law_of(self.error)

    @property
    def silent(self) -> bool:
        return isinstance(self.error, NotIdentifiable) and not isinstance(self.error, AccuracyUnreachable)

    @property
    def not_one(self) -> bool:
        """Whether one head is excluded, and several are not. A head of a given rank may just have a higher one, unless
        the law it broke is one in which the rank plays no role."""
        return bool(self.law) and self.law not in ALL_HEADS and (self.any_rank or self.law in ANY_RANK)

    @property
    def may_have_front(self) -> bool:
        """Whether something may stand around one head. Attention that is all or nothing at any length is none."""
        return self.not_one and self.any_rank and self.law != SHORTER_KEY

    @property
    def left(self) -> Guess:
        """What the guess has left to try: nothing, where answers hide parameters. That a network is flat somewhere, or
        what a block hides, says nothing of other families: those are not final."""
        hidden = isinstance(self.error, NotIdentifiable) and not isinstance(self.error, Flat)
        return NO_GUESS if hidden and self.declared.final else self.guess.without(self.family)

    @property
    def unfinished(self) -> bool:
        """Whether it only took more queries than were planned."""
        return isinstance(self.error.__cause__, BudgetExceeded)

    @property
    def last_resort(self) -> bool:
        return self.guess is LAST_RESORT


@dataclass(frozen=True)
class Tries:
    """The attempts at a box that failed, in their order."""

    failures: tuple[Failure, ...] = ()

    def then(self, failure: Failure) -> Tries:
        return Tries((*self.failures, failure))

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(failure.family for failure in self.failures)

    @property
    def last(self) -> Failure:
        return self.failures[-1]

    @property
    def before(self) -> GlassheadError | None:
        """The failure before the last one."""
        return self.failures[-2].error if len(self.failures) > 1 else None

    @property
    def mismatches(self) -> tuple[TargetMismatch, ...]:
        return tuple(failure.error for failure in self.failures if isinstance(failure.error, TargetMismatch))

    @property
    def mismatch(self) -> TargetMismatch | None:
        """The first failure of a family that an answer excluded."""
        return next(iter(self.mismatches), None)

    @property
    def doubted(self) -> tuple[np.ndarray, ...]:
        """The sequences whose answers excluded families although those before them fitted: one more has to explain
        them, however few there are like them."""
        evidence = (mismatch.evidence for mismatch in self.mismatches)
        return tuple(each.query for each in evidence if each is not None and each.law in FRESH_ANSWERS)

    @property
    def known(self) -> Mapping[str, Any]:
        """What had been learned of the box until the latest mismatch."""
        return self.mismatches[-1].known if self.mismatches else {}

    @property
    def inaccurate_block(self) -> GlassheadError | None:
        """That the box may be a block, in which tokens may have places, whose answers have too few digits."""
        blocks = (failure.error for failure in self.failures if failure.declared.places)
        return next((error for error in blocks if isinstance(error, AccuracyUnreachable)), None)


@dataclass(frozen=True)
class Verdict:
    """After a last failure that `fits`, an `earlier` one is raised, if there is such: `at_once`, or else where no other
    family is left to try."""

    fits: Callable[[Failure], bool]
    earlier: Callable[[Tries], GlassheadError | None]
    at_once: bool = False

    def on(self, tries: Tries) -> GlassheadError | None:
        return self.earlier(tries) if self.fits(tries.last) else None


VERDICTS = (
    # That something else does not converge either is no news, unless it might with more queries.
    Verdict(
        lambda last: isinstance(last.error, NotConverged) and not last.unfinished,
        lambda tries: tries.mismatch,
        at_once=True,
    ),
    # That the last resort does not fit either says less than why it was needed.
    Verdict(lambda last: last.last_resort, lambda tries: tries.before, at_once=True),
    # Where tokens have places only a block may fit.
    Verdict(lambda last: last.law == ANY_ORDER, lambda tries: tries.inaccurate_block),
)


def settled(tries: Tries) -> bool:
    """Whether no other family need be tried."""
    return any(verdict.at_once and verdict.on(tries) is not None for verdict in VERDICTS)


def raised_instead(tries: Tries) -> GlassheadError | None:
    """The failure to raise in the end, where it is not the last one."""
    return next((error for verdict in VERDICTS if (error := verdict.on(tries)) is not None), None)


def raised_nevertheless(tries: Tries, guess: Guess, oracle: Oracle, found: Recovery) -> GlassheadError | None:
    """The failure to raise although the guess that came after it passed every check, if any.

    The last resort has to explain more than noise would. And what one head answered in all but its odds is no other
    head, in a sum or before a network.
    """
    if tries.failures and guess is LAST_RESORT and not half_the_digits(oracle, found):
        return tries.last.error
    one_but_for_odds = tries.mismatch is not None and law_of(tries.mismatch) == COPIED_KEY
    return tries.mismatch if one_but_for_odds and found.heads == 1 else None


def half_the_digits(oracle: Oracle, found: Recovery) -> bool:
    """Whether answers are as predicted to half of the digits that they have: what is tried last has to explain more of
    them than noise on something else would."""
    return (found.residual or 0.0) <= float(np.sqrt(oracle.roundoff)) + oracle.tolerance + oracle.rtol
