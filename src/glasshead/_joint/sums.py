"""Any sum of heads from scalar answers: told apart one by one where that works, else solved for together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import GlassheadError, NotConverged, NotIdentifiable, TargetMismatch
from .._multi import held_out_heads, learn_multi_head
from .._multi.learned import LearnedMultiHead
from .._oracle import Oracle
from .laws import could_be_heads
from .learn import learn_joint
from .lengths import Silent


def learn_sum(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedMultiHead:
    """Every head, or the reason why not. One by one takes fewer queries; together takes heads that nothing isolates."""
    first: GlassheadError
    try:
        found = learn_multi_head(oracle, rng, rank, accuracy)
        check = held_out_heads(oracle, found, rng)
        if check.evidence is None:
            return replace(found, check=check)
        first = TargetMismatch("the box is not a sum of attention heads", check.evidence, found)
    except (NotConverged, NotIdentifiable, TargetMismatch) as error:
        first = error
    except np.linalg.LinAlgError as error:  # heads that hide each other leave systems that say nothing
        first = NotConverged(f"heads cannot be told apart one by one: {error}")
    if not could_be_heads(oracle, rng):
        raise first
    try:
        return learn_joint(oracle, rng, rank, accuracy)
    except Silent:
        raise first from None
    except (NotConverged, TargetMismatch, np.linalg.LinAlgError) as error:
        if isinstance(first, NotIdentifiable):  # it is not: something was seen
            raise
        first.add_note(f"Solving for all heads at once did not work either: {error}")
        raise first from error
