"""Which method when, for one head or several: the more numbers an answer holds, the fewer queries.

One head: all outputs at once where there are several and nothing is promised but their digits, else one score per
query. Several heads: all outputs at once (`vector`), else one combination of them (`combination`), which like a single
number is told apart head by head (`one_by_one`) where that works, and else solved for all heads at once (`together`).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from ..._checks import check_heads_everywhere, check_sum_laws, read_largest_change
from ..._errors import (
    ASKED_AGAIN,
    ONE_SET_OF_SCORES,
    AccuracyUnreachable,
    BudgetExceeded,
    Evidence,
    GlassheadError,
    NotConverged,
    NotIdentifiable,
    TargetMismatch,
    law_of,
)
from ..._learned import LearnedCombined, LearnedMultiHead, LearnedVector
from ..._models import MultiHead
from ..._oracles import DOUBLE, OneNumber, Opening, Oracle
from ..attention import learn_attention
from .combination import learn_combined
from .one_by_one import learn_multi_head
from .together import learn_joint
from .vector import learn_vector, learn_vector_attention


def in_rows(learned: LearnedMultiHead) -> LearnedMultiHead:
    """The heads with answers of shape `(1,)`, for a box that has such ones."""
    heads = [head.with_values(head.v[:, None]) for head in learned.model.heads]
    return replace(learned, model=MultiHead(heads, bias=np.reshape(learned.model.bias, 1)))


def learn_one_vector(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """One head from all outputs at once; guarantees come from one score per query, and so does averaging of noise."""
    if not oracle.exact or accuracy is not None:
        return learn_attention(oracle, rng, rank, accuracy, opening)
    try:
        learned = learn_vector_attention(oracle, rng, rank, accuracy, opening)
    except AccuracyUnreachable as unclear:
        query = np.zeros((1, oracle.dim))
        evidence = Evidence(ONE_SET_OF_SCORES, query, "expected fresh scores to agree", str(unclear))
        raise TargetMismatch("the box is not a single attention head", evidence, unclear.best) from unclear
    except TargetMismatch as mismatch:
        if law_of(mismatch) != ASKED_AGAIN:
            raise
        return learn_attention(oracle, rng, rank, accuracy, opening)
    return learned if isinstance(learned, LearnedVector) else learn_attention(oracle, rng, rank, accuracy, opening)


def learn_several(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening):
    """Any number of heads from one number per answer, which may come in a row of its own."""
    in_row = opening.zero.ndim > 0
    box = OneNumber(oracle) if in_row else oracle
    learned = learn_sum(box, deepcopy(opening.before), rank, accuracy, opening)
    return in_rows(learned) if in_row else learned


def learn_several_vector(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """Any number of heads from all outputs at once, or from one combination of them."""
    try:
        learned = learn_vector(oracle, rng, rank, accuracy, opening)
    except AccuracyUnreachable as error:
        if accuracy is not None:
            raise
        return learn_otherwise(oracle, rng, rank, accuracy, str(error))
    return learned if isinstance(learned, LearnedVector) else learn_otherwise(oracle, rng, rank, accuracy, str(learned))


def learn_otherwise(oracle: Oracle, rng: np.random.Generator, rank, accuracy, reason: str) -> LearnedCombined:
    """What all outputs together do not show, for that `reason`, one combination of them may."""
    try:
        return learn_combined(oracle, rng, rank, accuracy, learn_sum)
    except BudgetExceeded:
        raise
    except GlassheadError as error:
        error.add_note(f"Before that, all outputs at once did not show the heads either: {reason}")
        raise


TOO_ALIKE = "or some of them are too alike, too faint or too different in size to be told apart"


def learn_sum(
    oracle: Oracle,
    rng: np.random.Generator,
    rank: int | None = None,
    accuracy: float | None = None,
    opening: Opening | None = None,
) -> LearnedMultiHead:
    """Every head, or the reason why not. One by one takes fewer queries; together takes heads that nothing isolates."""
    before = None if opening is None or drowned(opening.known) else opening.known
    first: GlassheadError
    try:
        start = deepcopy(rng)
        found = learn_multi_head(oracle, rng, rank, accuracy, before)
        check = check_heads_everywhere(oracle, found, rng)
        if check.evidence is None:
            return replace(found, check=check)
        if before is not None and oracle.roundoff > DOUBLE:
            # Heads came out, but few digits leave little room for what v is off: with one of its own, as for who named
            # the family, they may pass.
            return learn_sum(oracle, start, rank, accuracy)
        first = TargetMismatch(not_heads("or its answers are less accurate than promised", rank), check.evidence, found)
    except (NotConverged, NotIdentifiable, TargetMismatch) as error:
        first = error
    except np.linalg.LinAlgError as error:  # heads that hide each other leave systems that say nothing
        first = NotConverged(f"heads cannot be told apart one by one: {error}")
    if not check_sum_laws(oracle, rng):
        raise find_nearly_cancelled(oracle, first, rng)
    try:
        solved = learn_joint(oracle, rng, rank, accuracy, before)
    except (NotConverged, TargetMismatch, np.linalg.LinAlgError) as error:
        if isinstance(first, NotIdentifiable):  # it is not: something was seen
            raise NotConverged(str(error)) from error
        if isinstance(first, TargetMismatch):  # a box that obeys all laws of heads may well be a sum of them
            first = TargetMismatch(not_heads(TOO_ALIKE, rank), first.evidence, first.best)
        first.add_note(f"Solving for all heads at once did not work either: {error}")
        raise first from error
    if solved is None:
        raise first
    return solved


def drowned(known: Mapping[str, Any]) -> bool:
    """Whether an earlier attempt did not read v, or read it beside a bias that is louder: then longer tokens show it
    better."""
    return "v" not in known or float(np.linalg.norm(known["bias"])) > float(np.linalg.norm(known["v"]))


def find_nearly_cancelled(oracle: Oracle, failed: GlassheadError, rng: np.random.Generator) -> GlassheadError:
    """The failure as it is; but where nothing was seen although there is something, rounding alone breaks laws."""
    change = read_largest_change(oracle, rng) if isinstance(failed, NotIdentifiable) else 0.0
    if change == 0:
        return failed
    return NotConverged(
        f"all v add up to 0, and what is left of answers, {change:.1g}, has too few digits to tell heads by: they "
        "cancel each other nearly, or but for rounding"
    )


def not_heads(unless: str, rank: int | None) -> str:
    above = "" if rank is None else f", or a rank is above rank={rank}"
    return f"the box is not a sum of attention heads, {unless}{above}"
