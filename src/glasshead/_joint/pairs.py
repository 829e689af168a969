"""Heads at one query token: pairs `(k_h, v_h)`, and the even part of what they answer.

Beyond the answer to q alone, `[q + z ; q]` is answered with `sum_h sigma(z.k_h) z.v_h`. Less half of z.total that is
`G(z) = sum_h tanh(z.k_h / 2) z.v_h / 2`, the same for z and -z. A head that takes the mean of all tokens (k = 0) is
gone from it, and so is the question which way a head is turned: (k, v) and (-k, -v) are one pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._multi.box import SAFETY, Box
from .._types import Float


@dataclass(frozen=True)
class Pairs:
    """Keys and values of all heads, each pair up to a sign."""

    K: Float[np.ndarray, "H d"]
    V: Float[np.ndarray, "H d"]

    def __len__(self) -> int:
        return len(self.K)

    def __call__(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return 0.5 * (self.gates(Z) * (Z @ self.V.T)).sum(axis=1)

    def gates(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n H"]:
        return np.tanh(Z @ self.K.T / 2)

    def by_keys(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n H"]:
        """The derivative of G by each score."""
        return 0.25 * (1 - self.gates(Z) ** 2) * (Z @ self.V.T)


@dataclass(frozen=True)
class Even:
    """G of the box at one query token. `loud` is how much heads usually answer per length of a saturating key."""

    box: Box
    q: Float[np.ndarray, " d"]
    loud: float

    def __call__(self, Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as they were sent, and G there."""
        sent, y = self.box.ask(Z, self.q)
        return sent, y - 0.5 * sent @ self.box.total

    def noise(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """How far answers to such keys may be off: the promise, and rounding."""
        box, oracle = self.box, self.box.oracle
        size = abs(box.bias) + abs(float(self.q @ box.total)) + np.linalg.norm(Z, axis=1) * self.loud
        return 2 * oracle.tolerance + (2 * oracle.rtol + SAFETY * np.sqrt(box.dim) * oracle.roundoff) * size

    def at(self, q: Float[np.ndarray, " d"]) -> Even:
        return replace(self, q=q)
