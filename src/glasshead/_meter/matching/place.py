"""A place to measure from, and random probes around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._types import Float


@dataclass(frozen=True)
class Place:
    """Query tokens within `kappa` of an origin, probes of length `rho`, and the error of `a^T W b` that they lead to.

    It is infinite if nothing worked; `relative` is the same over the scores seen, `noise` what answers were taken for.
    """

    origin: Float[np.ndarray, " d"]
    kappa: float
    rho: float
    error: float = np.inf
    relative: float = np.inf
    noise: float = 0.0

    @property
    def length(self) -> float:
        return float(np.hypot(np.linalg.norm(self.origin), self.kappa))

    @property
    def works(self) -> bool:
        return bool(np.isfinite(self.error))

    def probes(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        both = rng.standard_normal((2, count, len(self.origin)))
        both /= np.linalg.norm(both, axis=2, keepdims=True)
        return self.origin + self.kappa * both[0], self.rho * both[1]


def somewhere(dim: int, length: float, spread: float, rho: float, rng: np.random.Generator) -> Place:
    """Around a random origin; queries of about this length, spread over that share of it."""
    direction = rng.standard_normal(dim)
    away = length / np.hypot(1.0, spread)
    return Place(away * direction / np.linalg.norm(direction), spread * away, rho)
