"""`gh.recover`: its arguments, the family to try, what is learned and checked, and what is handed back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import currentframe
from os import PathLike
from types import FrameType
from typing import Any

import numpy as np

from ._checks import JUDGE_QUERIES, ODDS_QUERIES, QUERIES, SIGN_QUERIES, check_everywhere
from ._errors import (
    AccuracyUnreachable,
    BudgetExceeded,
    GlassheadError,
    HeadsMerged,
    NotConverged,
    NotIdentifiable,
    OracleError,
    TargetMismatch,
)
from ._families import FAMILIES, NEEDED, PROMISES, named, resolve, with_option
from ._learned import HeldOut, Learned
from ._limits import fewest, information_limit, memory, memory_needed
from ._models import FrontHead, Norm
from ._oracles import Answering, Budgeted, Counted, Flat, Opening, Oracle, Watched, as_oracle, bar, read_opening
from ._plan import plan
from ._recognise import NO_GUESS, Failure, find_families, find_next
from ._recovery import Recovery
from ._types import no_type_check
from ._validate import positive, whole

CHECKS = {"value": QUERIES + ODDS_QUERIES + JUDGE_QUERIES, "sign": SIGN_QUERIES + JUDGE_QUERIES}


def check_arguments(
    oracle: Oracle, family: Any, rank: Any, accuracy: Any, budget: Any, journal: Any, seed: Any, progress: Any
) -> None:
    dim = whole(getattr(oracle, "dim", None), "the dim of an oracle", least=1)
    declared = named(family)
    if declared is not None and (refusal := declared.refusal(oracle.answers)) is not None:
        raise ValueError(refusal)
    if rank is not None and whole(rank, "rank", least=1) > dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank!r}")
    if accuracy is not None:
        positive(accuracy, "accuracy")
    if journal is not None:
        raise ValueError(f"expected journal=None, got {journal!r}: journals are not part of this version")
    whole(seed, "seed", least=0)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
    if budget is not None:
        check_budget(whole(budget, "budget", least=1), oracle, rank, accuracy)


def check_norm(norm: Any, family: str) -> None:
    if isinstance(norm, str) and norm == "auto":
        return
    if norm is not None and not isinstance(norm, Norm):
        hint = "for example gh.Norm('layer', 1e-5)"
        raise TypeError(f"expected norm to be 'auto', None or a gh.Norm, got {norm!r}; {hint}")
    if family not in ("auto", *with_option("norm")):
        raise ValueError(
            f"expected norm only with family {' or '.join(map(repr, with_option('norm')))}, got it with {family!r}"
        )


def check_budget(budget: int, oracle: Oracle, rank: int | None, accuracy: float | None) -> None:
    """Refuse at once what cannot suffice. With the rank unknown that is less than a head of rank one takes."""
    parameters = information_limit(oracle.dim, rank or 1)
    least = fewest(oracle.answers, parameters, accuracy) + CHECKS[oracle.answers]
    if budget < least:
        raise BudgetExceeded(
            f"a budget of {budget} cannot suffice: a head of dimension {oracle.dim} and rank {rank or 1} has "
            f"{parameters} free parameters, which with the held-out check take {least} {oracle.answers} queries; "
            "gh.plan says what to allow",
            budget=budget,
            needed=least - budget,
        )


def check_memory(dim: int) -> None:
    """Refuse at once what cannot be held: an allocation that fails late, or never, would take the machine down."""
    if (needed := memory_needed(dim)) > (there := memory()):
        raise NotConverged(
            f"tokens of dimension {dim:,} need more memory than there is: W and the queries that read it take about "
            f"{needed / 2**30:,.0f} GiB, {there / 2**30:,.1f} GiB may be used; recover a box of fewer dimensions, such "
            "as one that takes tokens in a basis of the subspace in which they lie"
        )


Progress = Callable[[int, int, str], None]


@no_type_check
def recover(
    oracle: Oracle | Answering,
    *,
    family: str = "auto",
    rank: int | None = None,
    accuracy: float | None = None,
    budget: int | None = None,
    journal: str | PathLike[str] | None = None,
    norm: Norm | str | None = "auto",
    seed: int = 0,
    progress: Progress | bool | None = None,
) -> Recovery:
    """Recover the model behind `oracle` from queries alone.

    >>> import glasshead as gh
    >>> target = gh.Attention.random(16, seed=1)
    >>> found = gh.recover(gh.ValueOracle(target))
    >>> gh.distance(found.model, target) < 1e-13, found.queries <= gh.plan(16)
    (True, True)

    `oracle` is a `gh.Oracle`, or a `gh` model to be wrapped in one. Every result was checked on fresh queries, of 1 to
    64 tokens, or 2 to 8 where a network behind the head stays unknown; a box that is not of the family raises
    `TargetMismatch` with the evidence, one that hides its parameters `NotIdentifiable`. `family="auto"` finds out what
    the box is: "attention", "multi-head" (a sum of heads), "transformer" (a two-layer ReLU network behind the head) or
    "any-network" (anything behind it). `rank` is discovered unless given; `accuracy` is the largest acceptable
    `||W_hat - W||_F`, which can save queries where W is nearly of low rank; `budget` is the most queries to ask;
    `progress` is True for a bar or a callable `(done, planned, what)`. The same seed asks the same queries. Where the
    box normalises its tokens before the head, "any-network" finds that out, eps included, unless `norm` says it: a
    `gh.Norm`, or None for no normalisation.

    From a `gh.SignOracle`, which says only yes or no, v and the bias are found up to one positive factor: v then has
    norm 1. It takes as many queries per free parameter as `accuracy` asks for bits, 40 by default. There "auto" means
    "attention".
    """
    oracle = as_oracle(oracle)
    check_arguments(oracle, family, rank, accuracy, budget, journal, seed, progress)
    check_norm(norm, family)
    check_memory(oracle.dim)
    wanted = Wanted(oracle, family, rank, accuracy, budget, norm, seed)
    if progress is True:
        with bar() as report:
            return _recover(wanted, report)
    return _recover(wanted, progress or None)


@dataclass(frozen=True)
class Wanted:
    """What the caller asked for."""

    box: Oracle
    family: str
    rank: int | None
    accuracy: float | None
    budget: int | None
    norm: Norm | str | None
    seed: int


def _recover(wanted: Wanted, report: Progress | None) -> Recovery:
    oracle = counted = Counted(wanted.box)
    if wanted.budget is not None:
        oracle = Budgeted(oracle, wanted.budget)
    if report is not None:
        oracle = Watched(oracle, expected_queries(wanted), report)
    automatically = wanted.family == "auto" and not isinstance(wanted.norm, Norm) and wanted.box.answers == "value"
    try:
        with np.errstate(all="ignore"):  # the box itself keeps the caller's rules, see `Counted`
            return automatic(oracle, wanted) if automatically else attempt(oracle, wanted, named_family(wanted))
    except (OracleError, BudgetExceeded):
        raise
    except Exception as error:
        advice = other_unit(wanted.box, counted.largest)
        expected = isinstance(error, GlassheadError) and not advice
        if expected or (isinstance(oracle, Watched) and error is oracle.raised):
            raise
        raise from_inside(error, advice) from error


SHORTEST = 1e-60  # tokens: scores are products of two lengths, and errors of scores are squared
SMALLEST, LARGEST = 1e-100, 1e100  # answers: the squares of what is calculated from them stay within float64


def other_unit(oracle: Oracle, largest: float) -> str:
    """What to do about numbers that floating point cannot square, where the answers were up to `largest`."""
    if oracle.max_norm is not None and oracle.max_norm < SHORTEST:
        words, call = f"tokens no longer than max_norm = {oracle.max_norm:g} have scores", f"f({oracle.max_norm:g} * X)"
        return f"{words} that underflow; change their unit, as in {type(oracle).__name__}(lambda X: {call}, max_norm=1)"
    if oracle.answers == "value" and largest > 0 and not SMALLEST <= largest <= LARGEST:
        words, call = f"answers of size {largest:.1g} are at the ends of what", f"f(X) / {largest:.1g}"
        return f"{words} floating point can square; change their unit, as in ValueOracle(lambda X: {call})"
    return ""


def from_inside(error: Exception, advice: str) -> NotConverged:
    """What the caller sees of an exception that no part of glasshead expected, and of any where units are at fault."""
    what = f"({type(error).__name__}: {error})".replace(": )", ")")
    if isinstance(error, MemoryError):
        return NotConverged(f"there is not enough memory for this recovery {what}; fewer dimensions need less")
    hint = "another family= may still succeed, and a report of this box would help to mend it"
    failed = f"a calculation inside glasshead failed on this box's answers; {hint}"
    return NotConverged(f"{advice or failed} {what}")


def named_family(wanted: Wanted) -> str:
    """The one to try where recognition has nothing to tell: yes and no say nothing about what is behind a head."""
    if wanted.family != "auto":
        return wanted.family
    return "any-network" if isinstance(wanted.norm, Norm) else "attention"


def expected_queries(wanted: Wanted) -> int:
    """For the progress report. Where sizes that nobody knows yet decide, it is what one head would take."""
    box, declared = wanted.box, named(wanted.family)
    family = wanted.family if declared is not None and not declared.sizes else "attention"
    return plan(box.dim, family=family, rank=wanted.rank, answers=box.answers, accuracy=wanted.accuracy)


def automatic(oracle: Oracle, wanted: Wanted) -> Recovery:
    """Try what a few answers suggest; where a family does not fit, what its failure suggests."""
    opening = read_opening(oracle, np.random.default_rng(wanted.seed))
    guess = find_families(oracle, opening, wanted.seed, wanted.rank is None and wanted.accuracy is None)
    tried: list[str] = []
    first: TargetMismatch | None = None
    while True:
        family = guess.families[0]
        tried.append(family)
        try:
            return attempt(oracle, wanted, family, opening, guess.words)
        except (TargetMismatch, NotIdentifiable, NotConverged) as error:
            if first is not None and isinstance(error, NotConverged):
                raise first from error  # that something else does not converge either is no news
            if isinstance(error, TargetMismatch):
                first, opening = first or error, replace(opening, known=error.known)
            hidden = isinstance(error, NotIdentifiable) and not isinstance(error, Flat)
            guess = NO_GUESS if hidden else guess.without(family)
            if not guess.families:
                guess = find_next(oracle, Failure(family, error, any_rank=wanted.rank is None), opening, wanted.seed)
            if not guess.families or guess.families[0] in tried:
                if wanted.rank is not None and "multi-head" not in tried:
                    error.add_note('If there may be several heads of that rank, family="multi-head" allows for them')
                raise


def attempt(oracle: Oracle, wanted: Wanted, family: str, opening: Opening | None = None, seen: str = "") -> Recovery:
    """One family, from its first queries to the held-out check; `opening` if they have been asked already, `seen` is
    why the box may be one."""
    declared = FAMILIES[family]
    if opening is None and declared.opens and oracle.answers == "value":
        opening = read_opening(oracle, np.random.default_rng(wanted.seed))
    kind = declared.kind(oracle.answers, None if opening is None else opening.outputs)
    method, rng = declared.methods[kind], np.random.default_rng(wanted.seed)
    options = {name: getattr(wanted, name) for name in declared.options}
    if declared.opens and opening is not None:
        rng, options = deepcopy(opening.after), options | {"opening": opening}

    def handed_back(learned: Learned, check: HeldOut | None) -> Recovery:
        found = learned.recovery(oracle.queries, check, seen)
        if isinstance(found.model, FrontHead):  # what the model asks later is not part of this recovery
            found.model.behind = wanted.box
        return found

    learned, before_checks = None, 0
    try:
        learned = resolve(method.learn)(oracle, rng, wanted.rank, wanted.accuracy, **options)
        before_checks = oracle.queries
        seen_by = learned.through(oracle)
        check = learned.check or resolve(method.check or learned.checked_by)(seen_by, learned, rng)
        if check.evidence is None:
            learned, check = check_everywhere(seen_by, learned, check, rng)
    except BudgetExceeded as error:
        unchecked = learned or error.known.get("unchecked")  # by `gh.recover`, or by a learner that checks for itself
        if isinstance(unchecked, Learned):
            error.known["unchecked"] = handed_back(unchecked, None)
        if learned is not None:
            checks = JUDGE_QUERIES if learned.check else CHECKS[oracle.answers]
            error.needed = max(error.needed, before_checks + checks - error.budget)
        elif method.estimate:
            likely = resolve(method.estimate)(oracle.dim, wanted.rank, error.known, oracle.answers, wanted.accuracy)
            error.needed = max(error.needed, likely - oracle.queries)
        raise
    except (AccuracyUnreachable, NotConverged, TargetMismatch) as error:
        error.best = handed_back(error.best, error.best.check) if isinstance(error.best, Learned) else None
        raise
    found = handed_back(learned, check)
    if check.evidence is not None:
        also = "" if wanted.rank is None else f", or its rank is above rank={wanted.rank}"
        what = (
            f"the box is not {declared.what}, or its answers are less accurate than promised "
            f"(then say so with {PROMISES[oracle.answers]}){also}"
        )
        mismatch = TargetMismatch(what, check.evidence, found)
        raise resolve(method.explain)(oracle, mismatch, rng) if method.explain else mismatch
    check_accuracy(oracle, wanted.accuracy, found, learned.needed)
    if check.warning:
        warnings.warn(check.warning, HeadsMerged, stacklevel=caller_level(currentframe()))
    return found


def caller_level(frame: FrameType | None) -> int:
    """The stack level, seen from that frame, of the line that called `recover`."""
    level = 1
    while frame is not None and frame.f_code is not recover.__code__:
        frame, level = frame.f_back, level + 1
    return level + 1


def check_accuracy(oracle: Oracle, accuracy: float | None, found: Recovery, needed: str) -> None:
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
