"""What learners of several heads, of many outputs and of heads with a network behind them hand back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._limits import information_limit
from .._models import Attention, FrontHead, MultiHead, Transformer
from .._oracles import Oracle
from .._relu import ReluNetwork
from .._types import Float
from .head import MEASURED_WORDS
from .learned import (
    UNCHECKED,
    Attending,
    HeldOut,
    Learned,
    Predicting,
    free_parameters,
    typical_score_error,
)

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
class LearnedHeads(Attending):
    """A sum of heads, in no particular order, or one of them. `value_rank` is that of each head's values, where there
    is more than one output."""

    model: Attention | MultiHead
    rank: tuple[int, ...]
    value_rank: tuple[int, ...] | None
    bound: None = None
    bound_v: None = None
    confidence: None = None

    @property
    def one_head(self) -> bool:
        return len(self.rank) == 1

    @property
    def key_bias_in_W(self) -> tuple[bool, ...]:
        """For each head, whether its key bias lies in the column space of its W."""
        return tuple(in_columns(head, rank) for head, rank in zip(self.model.heads, self.rank, strict=True))

    @property
    def limit(self) -> int:
        """The free parameters of all heads over the numbers per answer: no learner can do with fewer queries."""
        values = self.value_rank or (None,) * len(self.rank)
        each = zip(self.model.heads, self.rank, values, self.key_bias_in_W, strict=True)
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
    """What an oracle promises of its answers, with a tolerance for each output."""

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
    read_again = True

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


# What the check of a Transformer allows, of all that its network adds up. No experiment chose either: the power of a
# rounding is 7e-8 in float64, where the worst of the 50 boxes of bench/transformer.py is off by 7e-9 of its answers;
# and behind a head the network may be asked where it is known less well than where its own residual was taken.
LOOSE, RESIDUALS = 0.45, 100.0


@dataclass(frozen=True, kw_only=True)
class LearnedTransformer(Predicting):
    """A Transformer, and the network it was found with: how well it is known, a check says and no guarantee."""

    model: Transformer
    rank: int
    network: ReluNetwork
    bound: None = None
    bound_v: None = None
    confidence: None = None

    @property
    def words(self) -> str:
        bias = "a key bias" if self.model.has_key_bias else "no key bias"
        rank = f"of rank {self.rank}" if self.rank else "whose W cannot be told from 0"
        return f"one head {rank} with {bias}, and behind it a ReLU network with {self.network.reason}"

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far off fresh answers may be: so much of all that the network adds up that it is no rounding."""
        loose = max(oracle.roundoff**LOOSE, RESIDUALS * (self.network.residual or 0.0))
        return (loose + oracle.rtol) * self.model.largest_term(X) + oracle.tolerance

    @property
    def limit(self) -> int:
        """The free parameters: those of W, and d for every kink of the network and for its linear part."""
        model, one = self.model, int(self.model.has_biases)
        network = (self.network.kinks + 1) * (model.dim + one)
        return information_limit(model.dim, self.rank, key_bias=model.has_key_bias) - model.dim + network


NORMS = {"layer": "a LayerNorm", "rms": "an RMSNorm"}


@dataclass(frozen=True, kw_only=True)
class LearnedFront(Learned):
    """`bound` and `bound_key_bias` are statistical, for the noise that was measured; `noise` is that of an answer.

    `scale` is the length of the tokens that W was read with, `score_error` how far off the scores of probes there may
    be, and `bits` how many each score was asked for, if that.
    """

    model: FrontHead
    rank: int
    bound: float
    bound_v: None = None
    bound_key_bias: float
    confidence: float
    noise: float
    scale: float
    score_error: float
    bits: int = 1
    check: HeldOut = UNCHECKED
    sure: str = MEASURED_WORDS

    def suits(self, reach: float) -> tuple[float, ...]:
        return (min(self.scale, reach / 2) / float(np.sqrt(self.model.dim)),)

    def says(self, x: np.ndarray) -> bool:
        """Whether there is a shorter sequence to ask instead. One token says nothing about a head."""
        return len(x) > 1 and self.model.can_shorten(x)

    def doubt(self, X: Sequence[np.ndarray], want: np.ndarray) -> np.ndarray:
        """As much of the range of answers as scores are typically off by, and the noise."""
        seen = map(self.model.seen, X)
        errors = np.array([typical_score_error(x, self.bound, self.bound_key_bias) for x in seen])
        return np.minimum(1.0, errors) * float(np.ptp(want, axis=0).max()) + self.noise

    def with_bounds_times(self, of_W: float, of_v: float = 1.0) -> LearnedFront:
        return replace(self, bound=of_W * self.bound, bound_key_bias=of_W * self.bound_key_bias)

    @property
    def limit(self) -> int:
        """The free parameters of W and the key bias over the numbers per answer, times the bits."""
        norm = self.model.norm
        d, r = self.model.dim - (norm is not None and norm.kind == "layer"), self.rank
        parameters = 2 * r * d - r * r + d * self.model.has_key_bias
        return max(1, -(-parameters // self.check.outputs)) * self.bits

    @property
    def words(self) -> str:
        head = self.model
        rank = f"of rank {self.rank}" if self.rank else f"whose W cannot be told from 0 (at most {self.bound:.1e})"
        bias = "a key bias" if head.has_key_bias else "no key bias"
        sees = "that may also see the last token" if head.residual else "that sees the attention output alone"
        norm = head.norm
        before = "" if norm is None else f"; W is for tokens after {NORMS[norm.kind]} with eps = {norm.eps:.6g}"
        return f"one head {rank} with {bias}, and a network {sees}{before}"
