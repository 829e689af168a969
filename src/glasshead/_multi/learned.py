"""What the multi-head learner hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._check import HeldOut
from .._models import MultiHead
from .._oracle import Oracle
from .._plan import information_limit

CONFIDENCE = 0.99  # at most: fresh queries did not contradict it, and nothing more is proved


@dataclass(frozen=True)
class LearnedMultiHead:
    """The heads, in no particular order. Nothing is guaranteed: `bound` and `bound_v` are None, the held-out check and
    `words` say how sure it is."""

    model: MultiHead
    rank: tuple[int, ...]
    confidence: float
    words: str
    accuracy: float | None = None  # that was asked for
    check: HeldOut | None = None  # where the learner had to look already whether fresh answers agree
    bound: None = None
    bound_v: None = None

    needed: ClassVar[str] = ""  # what would make a bound possible

    @property
    def heads(self) -> int:
        return len(self.rank)

    def through(self, oracle: Oracle) -> Oracle:
        """The oracle to check the heads with: the box itself."""
        return oracle

    @property
    def limit(self) -> int:
        """The free parameters of all heads; a key bias in the column space of its W counts as rank many."""
        each = (limit_of(head, r) for head, r in zip(self.model.heads, self.rank, strict=True))
        return sum(each) + bool(np.any(self.model.bias))


def limit_of(head, rank: int) -> int:
    plain = information_limit(head.dim, rank)
    if not head.has_key_bias:
        return plain
    return plain + (rank if in_columns(head, rank) else head.dim)


def in_columns(head, rank: int) -> bool:
    """Whether the key bias lies in the column space of W."""
    if rank in (0, head.dim):
        return rank > 0
    left = head.factor(rank)[1]
    basis = np.linalg.qr(left.T)[0]
    outside = head.key_bias - basis @ (basis.T @ head.key_bias)
    return float(np.linalg.norm(outside)) <= 1e-6 * float(np.linalg.norm(head.key_bias))
