"""A layer recovered from vector answers, and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._models import Attention
from .._models.multi_head import MultiHead
from .._oracle import Oracle


@dataclass(frozen=True)
class LearnedVector:
    """A `gh.Attention` or `gh.MultiHead`, the rank of every `W_h`, and an estimate of the worst relative error.

    Nothing here is guaranteed, so there are no bounds: `error` is what fresh queries, read head by head, differ by.
    """

    model: Attention | MultiHead
    rank: tuple[int, ...]
    value_rank: tuple[int, ...]
    biased: tuple[bool, ...]  # whether a head's key bias leaves the column space of its W
    error: float
    confidence: float

    bound: ClassVar[None] = None
    bound_v: ClassVar[None] = None
    caveat: ClassVar[str] = ""
    needed: ClassVar[str] = ""

    @property
    def heads(self) -> tuple[Attention, ...]:
        return self.model.heads if isinstance(self.model, MultiHead) else (self.model,)

    @property
    def limit(self) -> int:
        """Free parameters over the numbers per answer: no learner can do with fewer queries."""
        outputs = self.model.bias.size
        each = zip(self.heads, self.rank, self.value_rank, self.biased, strict=True)
        parameters = sum(free(*head) for head in each) + outputs * bool(np.any(self.model.bias))
        return -(-parameters // outputs)

    @property
    def words(self) -> str:
        ranks = ", ".join(str(rank) for rank in dict.fromkeys(self.rank))
        heads = "one head" if len(self.rank) == 1 else f"{len(self.rank)} heads"
        return f"{heads} of rank {ranks}, each parameter to about {self.error:.0e} of its head's"

    def through(self, oracle: Oracle) -> Oracle:
        return oracle


def free(head: Attention, rank: int, value_rank: int, leaves: bool) -> int:
    d, outputs = head.v.shape
    key_bias = (d if leaves else rank) if head.has_key_bias else 0
    return rank * (2 * d - rank) + key_bias + value_rank * (d + outputs - value_rank)
