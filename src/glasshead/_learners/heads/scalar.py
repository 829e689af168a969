"""Any sum of heads from scalar answers: told apart one by one where that works, else solved for together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._checks import Opening, check_heads_everywhere, check_sum_laws, read_largest_change
from ..._errors import GlassheadError, NotConverged, NotIdentifiable, TargetMismatch
from ..._learned import LearnedMultiHead
from ..._oracles import Oracle
from .one_by_one import learn_multi_head
from .together import learn_joint

ALIKE = "or some of them are too alike, too faint or too different in size to be told apart"


def learn_sum(
    oracle: Oracle,
    rng: np.random.Generator,
    rank: int | None = None,
    accuracy: float | None = None,
    opening: Opening | None = None,
) -> LearnedMultiHead:
    """Every head, or the reason why not. One by one takes fewer queries; together takes heads that nothing isolates."""
    before = opening.known if opening is not None and "v" in opening.known else None
    first: GlassheadError
    try:
        found = learn_multi_head(oracle, rng, rank, accuracy, before)
        check = check_heads_everywhere(oracle, found, rng)
        if check.evidence is None:
            return replace(found, check=check)
        first = TargetMismatch(not_heads("or its answers are less accurate than promised", rank), check.evidence, found)
    except (NotConverged, NotIdentifiable, TargetMismatch) as error:
        first = error
    except np.linalg.LinAlgError as error:  # heads that hide each other leave systems that say nothing
        first = NotConverged(f"heads cannot be told apart one by one: {error}")
    if not check_sum_laws(oracle, rng):
        raise nearly_cancelled(oracle, first, rng)
    try:
        solved = learn_joint(oracle, rng, rank, accuracy, before)
    except (NotConverged, TargetMismatch, np.linalg.LinAlgError) as error:
        if isinstance(first, NotIdentifiable):  # it is not: something was seen
            raise NotConverged(str(error)) from error
        if isinstance(first, TargetMismatch):  # a box that obeys all laws of heads may well be a sum of them
            first = TargetMismatch(not_heads(ALIKE, rank), first.evidence, first.best)
        first.add_note(f"Solving for all heads at once did not work either: {error}")
        raise first from error
    if solved is None:
        raise first
    return solved


def nearly_cancelled(oracle: Oracle, failed: GlassheadError, rng: np.random.Generator) -> GlassheadError:
    """The same failure. Only where nothing was seen although there is something, laws are broken by rounding alone."""
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
