"""What one-row queries say: `f([x]) = x . B + bias`, where B is the sum of all heads' value maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._meter.lever import HEADROOM, longest
from .._oracle import Oracle
from .._types import Float
from .svd import svd

SILENT = 64  # roundings of a d-dimensional sum, to be safe: a singular value below that is none


@dataclass(frozen=True)
class Readout:
    """The bias, `B (d, k)`, and an orthonormal basis of the outputs that B reaches, in which answers are looked at."""

    bias: Float[np.ndarray, " k"]
    B: Float[np.ndarray, "d k"]
    outputs: Float[np.ndarray, "k m"]

    @property
    def rank(self) -> int:
        return self.outputs.shape[1]

    @property
    def map(self) -> Float[np.ndarray, "d m"]:
        """What a token contributes, in the basis of the outputs."""
        return self.B @ self.outputs

    def moved(self, answers: np.ndarray, last: np.ndarray) -> np.ndarray:
        """How far the other tokens moved the answers from `f([last])`."""
        return (answers - (self.bias + last @ self.B)) @ self.outputs


def read_rows(oracle: Oracle, token: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bias, B, and what the box answers to `[token]`: d + 2 queries."""
    d = oracle.dim
    bias, first = (np.asarray(y) for y in oracle(np.stack([np.zeros((1, d)), token[None]])))
    against, signal = float(np.abs(bias).max()), float(np.abs(first - bias).max())
    wanted = 1.0 if against == 0 else HEADROOM * max(1.0, against / signal if signal > 0 else np.inf)
    # A power of two, so that dividing by it rounds nothing.
    step = float(2.0 ** np.floor(np.log2(min(wanted, longest(oracle)))))
    return bias, (oracle((step * np.eye(d))[:, None]) - bias) / step, first


def seen_outputs(oracle: Oracle, B: np.ndarray, bias: np.ndarray, least: float = 0.0) -> Readout:
    """The outputs that tokens reach; where some are fainter than `least` of the loudest, those are left aside."""
    _, s, right = svd(B)
    rounding = SILENT * max(B.shape) * oracle.roundoff
    return Readout(bias, B, right[s > max(rounding, least) * s[0]].T)
