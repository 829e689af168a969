"""Heads recovered from one combination of their outputs, with the values of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._multi.learned import LearnedMultiHead, in_columns
from .._vector.learned import free
from .oracle import Promise


@dataclass(frozen=True)
class LearnedCombined(LearnedMultiHead):
    """The heads with values `(d, k)`, and what answers promise them to be: `promise` for each output."""

    value_rank: tuple[int, ...] = field(kw_only=True)
    promise: Promise = field(kw_only=True)
    garbage: tuple[bool, ...] = field(kw_only=True)  # outputs so small that they may be rounding of the others

    @property
    def limit(self) -> int:
        """Free parameters over the numbers per answer: no learner can do with fewer queries."""
        outputs = self.model.bias.size
        each = zip(self.model.heads, self.rank, self.value_rank, strict=True)
        parameters = sum(free(head, rank, values, not in_columns(head, rank)) for head, rank, values in each)
        return -(-(parameters + outputs * bool(np.any(self.model.bias))) // outputs)
