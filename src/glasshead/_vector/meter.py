"""How one vector answer to a sequence of many tokens becomes a score of every token for every head.

`[x + D_1 ; .. ; x + D_n ; x]` moves the answer from `f([x])` by `sum_h alpha_h^T D B_h`. Seen in the outputs of head h
alone that is `alpha_h^T D C_h`, a linear system for the weights, and their logarithms, less that of the last token's
weight, are `D_i . (W_h x + key_bias_h)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from .._errors import AccuracyUnreachable, Evidence, TargetMismatch
from .._meter.lever import longest
from .._oracle import Oracle
from .._types import Float
from .laws import NOT_HEADS
from .readout import Readout
from .svd import svd
from .tokens import token_blocks

SHORTER, ROUNDS = 4.0, 8  # tokens that saturate are sent again, shorter, at most so often
WISE, NARROW = 0.875, 0.5  # of the tokens that a head can just tell apart, in float64 and with fewer digits
TINY = 3e-3  # of an even share: a smaller weight has lost digits


@dataclass(frozen=True)
class Reader:
    """One head's view: `answers @ look` are what it moved, `C` how it reads tokens there, the loudest direction first.

    `look` has orthonormal columns: rounding in answers is alike in all of them, and least squares knows which to trust.
    """

    look: Float[np.ndarray, "m r"]
    C: Float[np.ndarray, "d r"]

    @property
    def rank(self) -> int:
        return self.C.shape[1]

    def loudest(self, count: int) -> np.ndarray:
        """Orthonormal directions that it reads best."""
        return self.C[:, :count] / np.linalg.norm(self.C[:, :count], axis=0)


def reader(readout: Readout, space: np.ndarray) -> Reader:
    left, s, right = svd(readout.map @ space)
    return Reader(space @ right.T, left * s)


@dataclass(frozen=True)
class VectorMeter:
    """Measures scores of all heads at once."""

    oracle: Oracle
    readout: Readout
    readers: list[Reader]

    @property
    def rank(self) -> int:
        """How many tokens besides the last one every head can just tell apart,"""
        return min(reader.rank for reader in self.readers)

    @property
    def at_once(self) -> int:
        """and how many it is wise to send: it tells fewer apart far better, unless it is alone."""
        share = WISE if self.oracle.roundoff == 2.0**-53 else NARROW
        return self.rank if len(self.readers) == 1 else max(1, int(share * self.rank))

    def tokens(self, each: int, total: int, rng: np.random.Generator) -> np.ndarray:
        """Blocks of `each` tokens to send together, `total` at least."""
        return token_blocks([reader.loudest(each) for reader in self.readers], each, total, rng)

    def scores(self, last: Float[np.ndarray, "j d"], D: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "j h n"]:
        """`D_i . (W_h x + key_bias_h)` for every row x of `last`."""
        scores = np.empty((len(last), len(self.readers), len(D)))
        left = np.arange(len(last))
        room = longest(self.oracle) - float(np.linalg.norm(last, axis=1).max())
        factor = max(1.0, float(np.linalg.norm(D, axis=1).max()) / room)
        for _ in range(ROUNDS):
            weights = self.weights(last[left], D / factor)
            good = weights.min(axis=(1, 2)) > TINY / (len(D) + 1)
            logs = np.log(weights[good])
            scores[left[good]] = factor * (logs[:, :, :-1] - logs[:, :, -1:])
            left, factor = left[~good], factor * SHORTER
            if len(left) == 0:
                return scores
        return self.refuse(last[left[0]], D / factor)

    def refuse(self, x: np.ndarray, D: np.ndarray) -> NoReturn:
        if self.noise(D, float(np.linalg.norm(x))).max() > TINY:
            raise AccuracyUnreachable("the box's numbers have too few digits to read its attention weights")
        query = np.concatenate([x + D, x[None]])
        law = "an attention weight lies between 0 and 1"
        raise TargetMismatch(NOT_HEADS, Evidence(law, query, "expected one for each token and head", "no such weights"))

    def weights(self, last: np.ndarray, D: np.ndarray) -> Float[np.ndarray, "j h n1"]:
        """How much each token counts for each head, the last one last."""
        X = np.concatenate([last[:, None] + D, last[:, None]], axis=1)
        moved = self.readout.moved(self.oracle(X), last)
        weights = np.stack([moved @ (reader.look @ np.linalg.pinv(D @ reader.C)) for reader in self.readers], axis=1)
        return np.concatenate([weights, 1 - weights.sum(axis=2, keepdims=True)], axis=2)

    def noise(self, D: np.ndarray, last: float) -> np.ndarray:
        """What rounding does to a score of each head, roughly: the answers' own, through the linear system."""
        size = float(np.linalg.norm(self.readout.bias) + (last + np.linalg.norm(D)) * np.linalg.norm(self.readout.B, 2))
        gain = [np.linalg.norm(reader.look @ np.linalg.pinv(D @ reader.C), axis=0).max() for reader in self.readers]
        return self.oracle.roundoff * size * (len(D) + 1) * np.array(gain)
