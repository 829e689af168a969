"""Several heads, or one with many outputs: nothing bounds their errors, fresh queries speak for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._models import Attention, MultiHead
from .._types import Float
from .head import Learned, free_parameters

# The share of a key bias outside the columns of W that is none: heads whose answers differ by more are refused. It
# decides how many parameters are counted, nothing else.
OUTSIDE = 1e-6


def in_columns(head: Attention, rank: int) -> bool:
    """Whether the key bias lies in the column space of W."""
    if rank in (0, head.dim):
        return rank > 0
    left = head.factor(rank)[1]
    basis = np.linalg.qr(left.T)[0]
    outside = head.key_bias - basis @ (basis.T @ head.key_bias)
    return float(np.linalg.norm(outside)) <= OUTSIDE * float(np.linalg.norm(head.key_bias))


@dataclass(frozen=True, kw_only=True)
class LearnedHeads(Learned):
    """A sum of heads, in no particular order, or one of them. `value_rank` is that of each head's values, where there
    is more than one output."""

    model: Attention | MultiHead
    rank: tuple[int, ...]
    value_rank: tuple[int, ...] | None
    bound: None = None
    bound_v: None = None
    confidence: None = None

    @property
    def heads(self) -> tuple[Attention, ...]:
        return self.model.heads if isinstance(self.model, MultiHead) else (self.model,)

    @property
    def key_bias_in_W(self) -> tuple[bool, ...]:
        """For each head, whether its key bias lies in the column space of its W."""
        return tuple(in_columns(head, rank) for head, rank in zip(self.heads, self.rank, strict=True))

    @property
    def limit(self) -> int:
        """The free parameters of all heads over the numbers per answer: no learner can do with fewer queries."""
        values = self.value_rank or (None,) * len(self.rank)
        each = zip(self.heads, self.rank, values, self.key_bias_in_W, strict=True)
        parameters = sum(free_parameters(head, r, s, key_bias_in_W=inside) for head, r, s, inside in each)
        outputs = np.size(self.model.bias)
        return -(-(parameters + outputs * bool(np.any(self.model.bias))) // outputs)


@dataclass(frozen=True, kw_only=True)
class LearnedMultiHead(LearnedHeads):
    """Heads that were told apart in one number per answer. `found` says in words what they are, `accuracy` is what was
    asked for."""

    checked_by = "_checks:check_held_out_heads"

    model: MultiHead
    value_rank: tuple[int, ...] | None = None
    found: str
    accuracy: float | None = None

    @property
    def words(self) -> str:
        return self.found


@dataclass(frozen=True)
class Promise:
    """As for an oracle, with a tolerance for each output."""

    tolerance: Float[np.ndarray, " k"]
    rtol: float


@dataclass(frozen=True, kw_only=True)
class LearnedCombined(LearnedMultiHead):
    """Heads with values `(d, k)`, told apart in one combination of the outputs: what answers promise of each output,
    and which outputs are so small that they may be rounding of the others."""

    checked_by = "_checks:check_held_out_outputs"

    promise: Promise
    garbage: tuple[bool, ...]


@dataclass(frozen=True, kw_only=True)
class LearnedVector(LearnedHeads):
    """Heads that were told apart by all outputs at once. `error` is an estimate of the worst relative error: what fresh
    queries, read head by head, differ by. `leaves` says whose key bias leaves the column space of its W."""

    checked_by = "_checks:check_held_out_vector"

    value_rank: tuple[int, ...]
    leaves: tuple[bool, ...]
    error: float

    @property
    def key_bias_in_W(self) -> tuple[bool, ...]:
        return tuple(not leaves for leaves in self.leaves)

    @property
    def words(self) -> str:
        ranks = ", ".join(str(rank) for rank in dict.fromkeys(self.rank))
        heads = "one head" if len(self.rank) == 1 else f"{len(self.rank)} heads"
        return f"{heads} of rank {ranks}, each parameter to about {self.error:.0e} of its head's"
