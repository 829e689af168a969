"""A head with a network behind it: one that is known too, or one that stays a black box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._limits import information_limit
from .._models import FrontHead, Transformer
from .._oracles import Oracle
from .._relu import ReluNetwork
from .head import UNCHECKED, HeldOut, Learned, Predicting

LOOSE = 0.45  # the check allows `roundoff ** LOOSE`


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
