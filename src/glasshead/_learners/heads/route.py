"""Which method when, for one head or several: the more numbers an answer holds, the fewer queries.

One head: all outputs at once where there are several and nothing is promised but their digits, else one score per
query. Several heads: all outputs at once (`vector`), else one combination of them (`combination`), which like a single
number is told apart head by head (`one_by_one`) where that works, and else solved for all heads at once (`together`).
What came of a method is a value, `Tried`: what it found, or why not, says which method is next.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ..._checks import check_heads_everywhere, check_sum_laws, read_largest_change
from ..._errors import (
    ASKED_AGAIN,
    FRESH_ANSWERS,
    ONE_SET_OF_SCORES,
    AccuracyUnreachable,
    BudgetExceeded,
    Evidence,
    GlassheadError,
    NotConverged,
    NotIdentifiable,
    TargetMismatch,
    Tried,
)
from ..._learned import LearnedCombined, LearnedMultiHead
from ..._models import MultiHead
from ..._oracles import DOUBLE, OneNumber, Opening, Oracle
from ..attention import learn_attention
from .combination import learn_combined
from .one_by_one import learn_multi_head
from .together import learn_joint
from .vector import NeedsScalarRoute, learn_vector, learn_vector_attention


def learn_one_vector(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """One head from all outputs at once; guarantees come from one score per query, and so does averaging of noise."""
    asked = oracle, rng, rank, accuracy, opening
    if not oracle.exact or accuracy is not None:
        return learn_attention(*asked)
    at_once = Tried.of(learn_vector_attention, *asked)
    if isinstance(at_once.found, NeedsScalarRoute) or at_once.law == ASKED_AGAIN:
        return learn_attention(*asked)
    if isinstance(at_once.refusal, AccuracyUnreachable):
        raise not_one_head(oracle.dim, at_once.refusal) from at_once.refusal
    return at_once.result()


def learn_several_vector(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """Any number of heads from all outputs at once, or from one combination of them."""
    at_once = Tried.of(learn_vector, oracle, rng, rank, accuracy, opening)
    inaccurate = isinstance(at_once.refusal, AccuracyUnreachable) and accuracy is None
    if isinstance(at_once.found, NeedsScalarRoute) or inaccurate:
        return learn_otherwise(oracle, rng, rank, accuracy, str(at_once.found or at_once.refusal))
    return at_once.result()


def learn_several(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening):
    """Any number of heads from one number per answer, which may come in a row of its own."""
    in_row = opening.zero.ndim > 0
    box = OneNumber(oracle) if in_row else oracle
    learned = learn_sum(box, deepcopy(opening.before), rank, accuracy, opening)
    return in_rows(learned) if in_row else learned


def learn_sum(
    oracle: Oracle,
    rng: np.random.Generator,
    rank: int | None = None,
    accuracy: float | None = None,
    opening: Opening | None = None,
) -> LearnedMultiHead:
    """Every head, or the reason why not. One by one takes fewer queries; together takes heads that nothing isolates."""
    before = None if opening is None or drowned(opening.known) else opening.known
    alone = Tried.of(learn_one_by_one, oracle, rng, rank, accuracy, before)
    if opening and before and alone.law in FRESH_ANSWERS and oracle.roundoff > DOUBLE:
        # Heads came out, but few digits leave little room for what v is off: with one of its own, as for who named
        # the family, they may pass.
        alone = Tried.of(learn_sum, oracle, deepcopy(opening.before), rank, accuracy)
    if alone.found is not None:
        return alone.found
    if not check_sum_laws(oracle, rng):
        raise find_nearly_cancelled(oracle, refusal_of(alone), rng)
    together = Tried.of(learn_joint, oracle, rng, rank, accuracy, before)
    if together.found is None:
        refuse_sum(refusal_of(alone), together.refusal, rank)
    return together.found


def drowned(known: Mapping[str, Any]) -> bool:
    """Whether an earlier attempt did not read v, or read it beside a bias that is louder: then longer tokens show it
    better."""
    return "v" not in known or float(np.linalg.norm(known["bias"])) > float(np.linalg.norm(known["v"]))


def learn_otherwise(oracle: Oracle, rng: np.random.Generator, rank, accuracy, reason: str) -> LearnedCombined:
    """What all outputs together do not show, for that `reason`, one combination of them may."""
    try:
        return learn_combined(oracle, rng, rank, accuracy, learn_sum)
    except BudgetExceeded:
        raise
    except GlassheadError as error:
        error.add_note(f"Before that, all outputs at once did not show the heads either: {reason}")
        raise


def learn_one_by_one(
    oracle: Oracle, rng: np.random.Generator, rank: int | None, accuracy: float | None, before: Mapping | None
) -> LearnedMultiHead:
    """Every head, told apart one by one, if they predict fresh answers."""
    found = learn_multi_head(oracle, rng, rank, accuracy, before)
    check = check_heads_everywhere(oracle, found, rng)
    if check.evidence is not None:
        raise TargetMismatch(not_heads("or its answers are less accurate than promised", rank), check.evidence, found)
    return replace(found, check=check)


def in_rows(learned: LearnedMultiHead) -> LearnedMultiHead:
    """The heads with answers of shape `(1,)`, for a box that has such ones."""
    heads = [head.with_values(head.v[:, None]) for head in learned.model.heads]
    return replace(learned, model=MultiHead(heads, bias=np.reshape(learned.model.bias, 1)))


def not_one_head(dim: int, unclear: AccuracyUnreachable) -> TargetMismatch:
    """The refusal of a box whose outputs no one head explains, since fresh scores disagree."""
    evidence = Evidence(ONE_SET_OF_SCORES, np.zeros((1, dim)), "expected fresh scores to agree", str(unclear))
    return TargetMismatch("the box is not a single attention head", evidence, unclear.best)


TOO_ALIKE = "or some of them are too alike, too faint or too different in size to be told apart"


def not_heads(unless: str, rank: int | None) -> str:
    above = "" if rank is None else f", or a rank is above rank={rank}"
    return f"the box is not a sum of attention heads, {unless}{above}"


def refusal_of(alone: Tried) -> GlassheadError:
    """Why heads do not show one by one. Those that hide each other leave systems that say nothing."""
    if isinstance(alone.refusal, GlassheadError):
        return alone.refusal
    return NotConverged(f"heads cannot be told apart one by one: {alone.refusal}")


def refuse_sum(alone: GlassheadError, together: Exception | None, rank: int | None) -> NoReturn:
    """Raises why heads show neither `alone` nor `together`, which is None where nothing is to be seen."""
    if together is None:
        raise alone
    if isinstance(together, NotIdentifiable):
        raise together
    if isinstance(alone, NotIdentifiable):  # it is not: something was seen
        raise NotConverged(str(together)) from together
    if isinstance(alone, TargetMismatch):  # a box that obeys all laws of heads may well be a sum of them
        alone = TargetMismatch(not_heads(TOO_ALIKE, rank), alone.evidence, alone.best)
    alone.add_note(f"Solving for all heads at once did not work either: {together}")
    raise alone from together


def find_nearly_cancelled(oracle: Oracle, failed: GlassheadError, rng: np.random.Generator) -> GlassheadError:
    """The failure as it is; but where nothing was seen although there is something, rounding alone breaks laws."""
    change = read_largest_change(oracle, rng) if isinstance(failed, NotIdentifiable) else 0.0
    if change == 0:
        return failed
    return NotConverged(
        f"all v add up to 0, and what is left of answers, {change:.1g}, has too few digits to tell heads by: they "
        "cancel each other nearly, or but for rounding"
    )
