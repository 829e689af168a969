"""Keys so long that every head is all or nothing: `F(z) = sum of z.v_h over the heads with z.k_h > 0`.

F is piecewise linear with one hyperplane through the origin per head, and it jumps there.
"""

from __future__ import annotations

import numpy as np

from .._meter.lever import longest
from .._types import Float
from .box import SAFETY, Box

CHORDS = 1 / 16  # of the longest token, the keys' length: chords reach several times further
QUERY = 2.0  # the query token's length, over that of the keys, at most


class Saturated:
    """F at one query token q, per unit of the keys' length. Remembers the largest value seen: errors go with it."""

    def __init__(self, box: Box, q: Float[np.ndarray, " d"], share: float = CHORDS):
        self.box = box
        self.length = longest(box.oracle) * share
        self.q = q * min(1.0, QUERY * self.length / float(np.linalg.norm(q)))
        seen = float(np.linalg.norm(box.total)) + (0.0 if box.mean is None else float(np.linalg.norm(box.mean)))
        self.largest = seen / np.sqrt(box.dim)

    def __call__(
        self, Z: Float[np.ndarray, "n d"], copies: int = 1
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as they were sent, and F there, with so many copies of each key."""
        sent, y = self.box.ask(self.length * Z, self.q, copies)
        self.largest = max(self.largest, float(np.abs(y).max(initial=0.0)) / self.length)
        return sent / self.length, y / self.length

    @property
    def noise(self) -> float:
        """How far one value is off, with some safety: no adversary, but d roundings."""
        oracle, d = self.box.oracle, self.box.dim
        relative = oracle.rtol + SAFETY * np.sqrt(d) * oracle.roundoff
        own = 2 * abs(float(self.q @ self.box.total)) / self.length  # what the query token adds to every answer
        return relative * (self.largest + own) + 2 * oracle.tolerance / self.length
