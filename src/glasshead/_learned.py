"""The held-out check: fresh random sequences, answered by the box and by the recovered model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ._errors import Evidence
from ._limits import BITS, information_limit
from ._models import Attention, FrontHead, MultiHead, Transformer
from ._oracles import Oracle
from ._relu import ReluNetwork
from ._types import Float


@runtime_checkable
class Predicting(Protocol):
    """A model, and how far a box that it describes may answer from it."""

    @property
    def model(self) -> Any: ...

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray: ...


@dataclass(frozen=True)
class HeldOut:
    """What fresh queries say of a result: all that is decided about it is decided from this.

    `residual` as in `gh.Recovery`, None where nothing could be compared; `evidence` where an answer is off by more than
    is allowed; the check in words; what a user should be warned of; how many numbers an answer has.
    """

    residual: float | None
    evidence: Evidence | None
    words: str
    warning: str = ""
    outputs: int = 1


UNCHECKED = HeldOut(None, None, "not yet checked")


ROUNDINGS = 1 / 3  # the power of a rounding, of an answer's size: no head that was read right is that far off


@dataclass(frozen=True)
class Learned:
    """A head and how far each of its parameters may be off.

    `strict` is for answers that promise all their digits: another box makes the bounds wide, which is no excuse then.
    """

    model: Attention
    rank: int
    bound: float
    bound_v: float
    bound_key_bias: float
    bound_bias: float
    confidence: float
    strict: bool = field(default=False, kw_only=True)

    caveat: ClassVar[str] = ""  # what cannot be known
    needed: ClassVar[str] = ""  # and what would make the bounds better, where that is more than the promise

    @property
    def limit(self) -> int:
        """The free parameters over the numbers per answer: no learner can do with fewer queries."""
        head, outputs = self.model, self.model.v[0].size
        biases = outputs * bool(np.any(head.bias))
        parameters = information_limit(head.dim, self.rank, key_bias=head.has_key_bias) + (outputs - 1) * head.dim
        return -(-(parameters + biases) // outputs)

    @property
    def words(self) -> str:
        """What was found, for the reason given to the user."""
        head = self.model
        biases = " and ".join(["a key bias"] * head.has_key_bias + ["a bias"] * bool(np.any(head.bias))) or "no bias"
        rank = f"of rank {self.rank}" if self.rank else f"whose W cannot be told from 0 (at most {self.bound:.1e})"
        return f"one head {rank} with {biases}{self.caveat}"

    def through(self, oracle: Oracle) -> Oracle:
        """The oracle to check the head with: one that makes noise a promise, where there is noise but no promise."""
        return oracle

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far the box's answers to `X (B, N, d)` may lie from the model's if the box is the head it was taken for.

        Scores off by at most e move a softmax by at most `exp(2e) - 1` in total; the values' half range does the rest.
        """
        head, d, u = self.model, oracle.dim, oracle.roundoff
        norms = np.linalg.norm(X, axis=-1)
        longest, last = norms.max(axis=1), norms[:, -1]
        values = (X @ head.v).reshape(*X.shape[:2], -1)
        half_range = (values.max(axis=1) - values.min(axis=1)).max(axis=-1) / 2
        size = np.abs(values).max(axis=(1, 2)) + float(np.abs(head.bias).max())
        keys = head.W_norm * last + np.linalg.norm(head.key_bias)
        score = longest * (self.bound * last + self.bound_key_bias) + 8 * (d + 4) * u * longest * keys
        moved = half_range * np.minimum(2.0, np.expm1(np.minimum(2 * score, 700.0)))
        rounding = u * (2 * (d + 8) * longest * np.linalg.norm(head.v) + 16 * size)
        promise = (oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol)
        bounded = moved + longest * self.bound_v + self.bound_bias + promise + rounding
        return np.minimum(bounded, u**ROUNDINGS * size) if self.strict else bounded


WIDER = 3.0  # times the interval: what the held-out check allows
BOUNDS = {"bound": "W", "bound_v": "v", "bound_key_bias": "key_bias", "bound_bias": "bias"}

Quiet = Callable[[Oracle], Oracle]


@dataclass(frozen=True)
class Sampled(Learned):
    """`quiet` makes the noise of an oracle a promise, `asked` says what the bounds are, `lacking` what would help.

    `one` is a single pass, bounded by that promise. Passes that differ by more do not read a head through noise.
    """

    quiet: Quiet
    asked: str
    lacking: str = ""
    one: Learned | None = None

    @property
    def caveat(self) -> str:  # type: ignore[override]
        return f"; {self.asked}"

    @property
    def needed(self) -> str:  # type: ignore[override]
        return self.lacking

    def through(self, oracle: Oracle) -> Oracle:
        return self.quiet(oracle)

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        one = self.one or self
        wider = {name: WIDER * min(getattr(self, name), getattr(one, name)) for name in BOUNDS}
        return super(Sampled, replace(self, **wider)).allowed(X, oracle)


@dataclass(frozen=True)
class LearnedFromSigns(Learned):
    """v has norm 1, and the bias is relative to it. Each score was asked for to `bits` bits."""

    bits: int = BITS

    caveat: ClassVar[str] = ", v and bias up to a positive factor"

    @property
    def limit(self) -> int:
        """The free parameters, v being known up to a factor, times the bits asked for: an answer is one bit."""
        return (super().limit - 1) * self.bits


LOOSE = 0.45  # the check allows `roundoff ** LOOSE`


@dataclass(frozen=True)
class LearnedTransformer:
    """A Transformer, the network it was found with, and how well that one is known: by a check, not by a guarantee."""

    model: Transformer
    rank: int
    network: ReluNetwork
    confidence: float

    bound = bound_v = None
    needed = ""

    def through(self, oracle: Oracle) -> Oracle:
        return oracle

    @property
    def words(self) -> str:
        """What was found, for the reason given to the user."""
        bias = "a key bias" if self.model.has_key_bias else "no key bias"
        rank = f"of rank {self.rank}" if self.rank else "whose W cannot be told from 0"
        return f"one head {rank} with {bias}, and behind it a ReLU network with {self.network.reason}"

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far off fresh answers may be: so much of all that the network adds up that it is no rounding."""
        terms = np.abs(X @ self.model.A) @ np.abs(self.model.w)
        size = terms.max(axis=1) + np.abs(self.model.w) @ np.abs(self.model.b) + abs(float(self.model.c))
        loose = max(oracle.roundoff**LOOSE, 100 * (self.network.residual or 0.0))
        return (loose + oracle.rtol) * size + oracle.tolerance

    @property
    def limit(self) -> int:
        """The free parameters: those of W, and d for every kink of the network and for its linear part."""
        model, one = self.model, int(self.model.has_biases)
        network = (self.network.kinks + 1) * (model.dim + one)
        return information_limit(model.dim, self.rank, key_bias=model.has_key_bias) - model.dim + network


NORMS = {"layer": "a LayerNorm", "rms": "an RMSNorm"}


@dataclass(frozen=True)
class LearnedFront:
    """`bound` and `bound_key_bias` are statistical, for the noise that was measured; `noise` is that of an answer.

    `scale` is the length of the tokens that W was read with, `score_error` how far off the scores of probes there may
    be, and `bits` how many each score was asked for, if that.
    """

    model: FrontHead
    rank: int
    bound: float
    bound_key_bias: float
    confidence: float
    noise: float
    scale: float
    score_error: float
    bits: int = 1
    check: HeldOut = UNCHECKED

    bound_v = None  # there is no v
    needed = ""

    def through(self, oracle: Oracle) -> Oracle:
        return oracle

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


@dataclass(frozen=True)
class Promise:
    """As for an oracle, with a tolerance for each output."""

    tolerance: Float[np.ndarray, " k"]
    rtol: float


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
