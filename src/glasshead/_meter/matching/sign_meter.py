"""The self-calibrating meter for yes and no: keys lean to where the answer changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..frame import Frame
from ..visible import inside, pairs
from .crossing import Crossings
from .meter import MatchingMeter

UNLUCKY = 8.0  # times the errors of new scores: what those of earlier columns, combined, may look like


@dataclass(frozen=True)
class SignMatchingMeter(MatchingMeter):
    """A `MatchingMeter` that sees only directions with a part along `ruler.normal`, as others see only along v."""

    ruler: Crossings

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return pairs(self.ruler.normal, A, rng)

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        return inside(self.ruler.normal, Q, rng, exact)

    def likely(self, noise: float) -> float:
        return UNLUCKY * noise

    def no_longer_than(self, score: float) -> SignMatchingMeter:
        """The length of a probe follows from where answers change."""
        return self
