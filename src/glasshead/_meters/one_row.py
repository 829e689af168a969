"""What one token is answered: `f([x]) = x . v + bias`, and how far v and bias, read from such answers, may be off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._oracles import Oracle
from .._types import Float


@dataclass(frozen=True)
class Values:
    """`v` and `bias` as read with tokens of length `step`.

    Of k outputs `readout` makes the one that is measured, and `outputs` has v and the bias of each: what cancels in the
    one was answered, and is off, by as much as it was before.
    """

    v: np.ndarray
    bias: float
    step: float
    readout: np.ndarray | None = None
    outputs: tuple[Float[np.ndarray, "d k"], Float[np.ndarray, " k"]] | None = None
    ground: float = 0.0  # the largest term that cancels inside the box, where that is more than the bias,
    unsure: float = 0.0  # and by how much the bias may be off for being one at another origin
    along: bool = False  # whether v was read once more along its own direction

    @cached_property
    def _each(self) -> tuple[Float[np.ndarray, "d k"], Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """v and the bias of every output, and how much of an error there reaches the one that is measured."""
        if self.readout is None or self.outputs is None:
            return self.v[:, None], np.full(1, self.bias), np.ones(1)
        return *self.outputs, np.abs(self.readout)

    @property
    def backdrop(self) -> float:
        """The largest term that is there without a token: rounding and promises are relative to it."""
        _, bias, weights = self._each
        return max(float(np.abs(bias) @ weights), self.ground)

    @property
    def entries(self) -> Float[np.ndarray, " d"]:
        """How large the part of an answer may be that an entry of a token adds, outputs taken one by one."""
        v, _, weights = self._each
        return np.abs(v) @ weights

    @property
    def length(self) -> float:
        """How large an answer to a token of length 1 may be, outputs taken one by one and the bias left aside."""
        v, _, weights = self._each
        return float(np.linalg.norm(v, axis=0) @ weights)

    def sizes(self, q: Float[np.ndarray, "m d"], keys: Float[np.ndarray, "n d"], weight: np.ndarray) -> np.ndarray:
        """How large answers to `[k + q ; q]` are, the first token attended to with that `weight (m, n)`."""
        v, bias, weights = self._each
        parts = zip((bias + q @ v).T, (keys @ v).T, weights, strict=True)
        return sum(share * np.abs(at[:, None] + weight * full) for at, full, share in parts)  # type: ignore[return-value]

    def of(self, answers: np.ndarray) -> np.ndarray:
        return answers if self.readout is None else answers @ self.readout

    def size(self, answers: np.ndarray) -> np.ndarray:
        return np.abs(answers) if self.readout is None else np.abs(answers) @ np.abs(self.readout)

    def promise(self, oracle: Oracle, size: float | np.ndarray) -> float | np.ndarray:
        """How far a read-out answer of magnitude `size` may lie from the truth, rounding left aside."""
        spread = 1.0 if self.readout is None else float(np.abs(self.readout).sum())
        # The promise is relative to the truth, which may be larger than the answer.
        return (spread * oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol)

    def bias_error(self, oracle: Oracle) -> float:
        return float(self.promise(oracle, self.backdrop) + 2 * oracle.roundoff * self.backdrop) + self.unsure

    def entry_error(self, oracle: Oracle) -> float:
        """The largest error of an entry of v; that of all of v is at most `sqrt(d)` times as large."""
        largest, d = float(self.entries.max()), len(self.v)
        each = float(self.promise(oracle, largest * self.step + self.backdrop))
        entry = (
            each + self.bias_error(oracle) + one_row_rounding(oracle, largest, self.backdrop, self.step)
        ) / self.step
        if not self.along:
            return entry
        length = (self.along_error(oracle) + self.bias_error(oracle)) / self.step + self.rounding(oracle)
        return float(np.hypot(entry, length / np.sqrt(d)))

    # The same in its parts, for a v that was read once more along itself.

    def along_error(self, oracle: Oracle) -> float:
        """`step` times the error of v along itself, that of the bias and rounding left aside,"""
        v, _, weights = self._each
        direction = self.v / np.linalg.norm(self.v)
        return float(self.promise(oracle, float(np.abs(direction @ v) @ weights) * self.step + self.backdrop))

    def across_error(self, oracle: Oracle) -> float:
        """and of all of it across."""
        return float(np.linalg.norm(self.promise(oracle, self.entries * self.step + self.backdrop)))

    @property
    def per_bias(self) -> np.ndarray:
        """How v moves with the bias it is read against."""
        u = self.v / np.linalg.norm(self.v)
        return -(1 - u.sum() * u + u) / self.step

    def rounding(self, oracle: Oracle) -> float:
        """A bound on what rounding does to v."""
        each = one_row_rounding(oracle, self.length, self.backdrop, self.step)
        return float(np.sqrt(len(self.v) + 1) * each / self.step)


def one_row_rounding(oracle: Oracle, largest: float, backdrop: float, step: float) -> float:
    """A dot product of length d errs by at most about d ulp of its terms."""
    return oracle.roundoff * ((oracle.dim + 8) * largest * step + 2 * backdrop)


def outputs_error(oracle: Oracle, v: np.ndarray, bias: np.ndarray, step: float) -> tuple[float, float]:
    """Bounds on `||v_hat - v||` and on the largest error of the bias, over all outputs."""
    largest, backdrop = float(np.abs(v).max()), float(np.abs(bias).max())
    whole = Values(np.full(1, largest), backdrop, step)
    return float(np.sqrt(v.size) * whole.entry_error(oracle)), whole.bias_error(oracle)
