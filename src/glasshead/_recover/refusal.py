"""What a recovery says where it hands nothing back: that the box is another one, or answers are too inaccurate."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np

from .._checks import TOO_FEW_DIGITS
from .._errors import AccuracyUnreachable, BudgetExceeded, GlassheadError, NotConverged
from .._families import AUTO, FAMILIES, NEEDED, PROMISES, SINGLE_HEAD, Family
from .._oracles import DOUBLE, Budgeted, Oracle
from .._plan import plan
from .._recovery import Recovery

LARGEST_BOUND = float(np.finfo(float).max)  # on an error of W: a larger one is none


def add_notes(error: GlassheadError, tried: Sequence[str], rank: int | None, dim: int, outputs: int) -> None:
    """What else may be said to someone whose box is of none of the families that were tried."""
    if rank is not None and (several := SINGLE_HEAD.several) not in tried:
        error.add_note(f'If there may be several heads of that rank, family="{several}" allows for them')
    last = FAMILIES[tried[-1]]
    if last.behind and last.several and last.several not in tried:
        error.add_note(
            f"Several heads in front of a network show apart only in all of its outputs: this box gives "
            f"{outputs} of {dim}; with all of them family={last.several!r} may find them"
        )


PLANNED_HEADS = 1  # for each dimension, that "auto" plans for: a box of more heads takes their family by name
CAUSE_QUERIES = 64  # of the plan, for finding out why, once nothing explains the box


@contextmanager
def within_plan(oracle: Oracle, family: str, last: bool, outputs: int, start: int) -> Generator[Oracle]:
    """The oracle for an attempt under "auto", which began after `start` queries. Several heads, also in a block, and
    what is tried `last` may take no more than is left of their plan; how many neurons a network has, and so its plan,
    shows late. What heads have behind them is read with all of them together, however many."""
    declared = FAMILIES[family]
    if not last and "heads" not in declared.sizes:
        yield oracle
        return
    heads = 1 if last or declared.behind else PLANNED_HEADS * oracle.dim
    dtype = "float64" if oracle.roundoff <= DOUBLE else "float32"
    most = plan(oracle.dim, family=AUTO, heads=heads, outputs=outputs, dtype=dtype) - CAUSE_QUERIES
    asked = Budgeted(oracle, max(0, most - (oracle.queries - start)))
    try:
        yield asked
    except BudgetExceeded as error:
        if error.budget != asked.budget:  # that of the caller
            raise
        words = f"the box may be of family {family!r}, but is not recovered in the {most} queries planned for 'auto'"
        raise NotConverged(f"{words}; name the family to go on") from error


def why_not(declared: Family, oracle: Oracle, rank: int | None) -> str:
    """What fresh answers that do not fit say of the box."""
    also = "" if rank is None else f", or its rank is above rank={rank}"
    return (
        f"the box is not {declared.what}, or its answers are less accurate than promised "
        f"(then say so with {PROMISES[oracle.answers]}){also}"
    )


def inaccurate(
    oracle: Oracle, accuracy: float | None, found: Recovery, needed: str, *, stopped: bool
) -> AccuracyUnreachable:
    """Refuses a bound that is infinite, or larger than was asked for; `needed` says in words what would help. The
    learner may have `stopped` where its own bounds were as small as that, before answers showed them to be wider."""
    promised = oracle.tolerance or oracle.rtol or oracle.max_norm
    needed = needed or (better(oracle, accuracy, found.bound) if promised else "")
    advice = f"{needed} is needed" if needed else "its numbers have too few digits"
    if stopped and found.rank not in (0, oracle.dim):
        advice = f"reading it stopped at rank {found.rank}, which had seemed enough: ask for a smaller one"
    asked = f"asked for ||W_hat - W||_F <= {accuracy or 0.0:.3g}"
    if found.bound is None:
        where = FAMILIES[found.family].unbounded
        what = f"nothing bounds W {where}" if where else "nothing bounds W"
        why = f"for family {found.family!r} {what}: it is only checked on fresh queries"
        return AccuracyUnreachable(f"{asked}, but {why}; leave accuracy= out, or take what was found from .best", found)
    if not np.isfinite(found.bound):
        return AccuracyUnreachable(f"this box's answers do not bound W at all; {advice}", found)
    said = "prove" if found.confidence == 1 else "show"
    return AccuracyUnreachable(f"{asked}, this box's answers only {said} {found.bound:.3g}; {advice}", found)


def accurate(found: Recovery | None, accuracy: float | None) -> bool:
    """Whether W is known as well as was asked for; where nothing was, whether a bound, if there is one, is a number."""
    bound = None if found is None else found.bound
    return accuracy is None if bound is None else bool(bound <= (accuracy or LARGEST_BOUND))


def too_coarse(error: AccuracyUnreachable, accuracy: float | None) -> AccuracyUnreachable:
    """The refusal of what the judge finds too far off although it is as accurate as was asked for: then `accuracy` is
    the reason, not the digits of answers."""
    instead = f"accuracy={accuracy or 0.0:.2g} is met and leaves that open; ask for a smaller one"
    return AccuracyUnreachable(str(error).replace(TOO_FEW_DIGITS, instead), error.best)


def better(oracle: Oracle, accuracy: float | None, bound: float | None) -> str:
    """What would be needed. An error falls with the tolerance, and with the length of the tokens."""
    if accuracy is None or bound is None or not np.isfinite(bound) or oracle.answers != "value":
        return NEEDED[oracle.answers]
    short = bound / accuracy
    promises = {"tolerance": oracle.tolerance / short, "rtol": oracle.rtol / short}
    smaller = " and ".join(f"{name} = {value:.2g}" for name, value in promises.items() if value > 0)
    longer = "" if oracle.max_norm is None or oracle.rtol else f"max_norm = {oracle.max_norm * short:.2g}"
    return " or ".join(f"about {option}" for option in (smaller, longer) if option) or NEEDED[oracle.answers]
