"""A recovered head whose network stays a black box, with what is known of its errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._meter.matching import MatchingMeter
from .._models.front_head import Behind, FrontHead
from .._oracle import Oracle
from .._scheme import Measured, full, low_rank
from .front_check import UNCHECKED, FrontCheck

SMALL = 2  # up to this dimension no rank could save a query
SAFETY = 4.0  # times the errors that noise and slopes, or the brackets left, suggest
CONFIDENCE = 0.99
NORMS = {"layer": "a LayerNorm", "rms": "an RMSNorm"}


@dataclass(frozen=True)
class Goal:
    """What was asked for: a rank if known, an accuracy, a number of bits."""

    rank: int | None = None
    accuracy: float | None = None
    bits: int | None = None

    def within(self, dim: int) -> Goal:
        return replace(self, rank=None if self.rank is None else min(self.rank, dim))


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
    check: FrontCheck = UNCHECKED

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


def read_W(meter: MatchingMeter, rng: np.random.Generator, goal: Goal, known: dict, residual: bool) -> LearnedFront:
    """Key bias and W, not yet checked."""
    oracle, d = meter.oracle, meter.oracle.dim
    oracle.stage = "reading the key bias"
    meter = meter.with_pull()
    known["pull"] = meter.pull
    oracle.stage = "reading W"
    found = full(meter) if d <= SMALL or goal.rank == d else low_rank(meter, rng, goal.rank, goal.accuracy)
    bound = SAFETY * found.bound
    length = float(np.linalg.norm(meter.origin))
    key_bias = meter.pull - found.W @ meter.origin
    key_bias_error = SAFETY * meter.pull_error + bound * length
    if float(np.linalg.norm(key_bias)) <= key_bias_error:  # a bias that cannot be told from none is none
        key_bias = None
    model = front_head(found, key_bias, oracle, residual)
    confidence, scale = min(found.confidence, CONFIDENCE), float(np.hypot(length, meter.kappa))
    score_error = meter.rho * (bound * meter.kappa + SAFETY * meter.pull_error)
    return LearnedFront(model, found.rank, bound, key_bias_error, confidence, meter.ruler.noise, scale, score_error)


def front_head(found: Measured, key_bias: np.ndarray | None, behind: Behind, residual: bool) -> FrontHead:
    """As factors where these are the smaller description, else as one matrix."""
    if found.right is None or 2 * len(found.right) >= len(found.left):
        return FrontHead(found.W, key_bias=key_bias, behind=behind, residual=residual)
    tensors = {"Q": found.right, "K": np.ascontiguousarray(found.left.T), "residual": np.array(float(residual))}
    return FrontHead.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias}, behind)
