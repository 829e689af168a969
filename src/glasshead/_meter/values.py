"""What one-row queries say: `f([x]) = x . v + bias`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._oracle import Oracle


@dataclass(frozen=True)
class Values:
    """`v` and `bias` as read with tokens of length `step`; `readout` turns k outputs into the one that is measured."""

    v: np.ndarray
    bias: float
    step: float
    readout: np.ndarray | None = None
    ground: float = 0.0  # the largest term that cancels inside the box, where that is more than the bias

    @property
    def backdrop(self) -> float:
        return max(abs(self.bias), self.ground)

    def of(self, answers: np.ndarray) -> np.ndarray:
        return answers if self.readout is None else answers @ self.readout

    def promise(self, oracle: Oracle, size: float | np.ndarray) -> float | np.ndarray:
        """How far a read-out answer of magnitude `size` may lie from the truth, rounding left aside."""
        spread = 1.0 if self.readout is None else float(np.abs(self.readout).sum())
        return spread * oracle.tolerance + oracle.rtol * size

    def bias_error(self, oracle: Oracle) -> float:
        return float(self.promise(oracle, self.backdrop) + 2 * oracle.roundoff * self.backdrop)

    def entry_error(self, oracle: Oracle) -> float:
        """The largest error of an entry of v. A dot product of length d errs by at most about d ulp of its terms."""
        largest = float(np.abs(self.v).max())
        rounding = oracle.roundoff * ((oracle.dim + 8) * largest * self.step + 2 * self.backdrop)
        size = largest * self.step + self.backdrop
        return float((self.promise(oracle, size) + rounding + self.bias_error(oracle)) / self.step)
