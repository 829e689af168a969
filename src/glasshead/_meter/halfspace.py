"""What one-row queries say where only signs are seen: `[x]` is answered yes on one side of a plane, `x.v + bias > 0`.

The plane is all there is to see: v and the bias are determined up to one positive factor, which scales every answer and
no sign. So v has norm 1 here, and everything is seen from an origin on the plane, where the bias vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._oracle import Oracle


@dataclass(frozen=True)
class Halfspace:
    """`v` of norm 1 within `error`; an origin on the plane, `shift` away from zero, up to `offset`."""

    v: np.ndarray
    error: float
    origin: np.ndarray
    offset: float = 0.0

    @property
    def shift(self) -> float:
        return float(np.linalg.norm(self.origin))

    @property
    def bias(self) -> float:
        return 0.0 - float(self.origin @ self.v)

    @property
    def bias_error(self) -> float:
        return self.offset + self.shift * self.error

    def value_error(self, oracle: Oracle, length: np.ndarray | float) -> np.ndarray | float:
        """By how much the box's `x.v + bias` may be off for tokens of this length, as seen from the origin."""
        return self.offset + rounding(oracle, length + 2 * self.shift)


def rounding(oracle: Oracle, length: np.ndarray | float) -> np.ndarray | float:
    """How far a dot product of that length with v may be off, once in the box and once in our own arithmetic."""
    return 2 * (oracle.dim + 8) * oracle.roundoff * length
