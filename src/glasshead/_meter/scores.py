"""The seam between meters and schemes: scores with their intervals, and what a scheme may ask of any meter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from .._oracle import Oracle
from .._types import Float
from .frame import Frame
from .shared import Errors, each_its_own


@dataclass(frozen=True)
class Scores:
    """Scores `a^T W b`, the interval each is known to lie in, and how far off they are together where that is known."""

    t: Float[np.ndarray, "m n"]
    lo: Float[np.ndarray, "m n"]
    hi: Float[np.ndarray, "m n"]
    joint: Errors | None = None

    @property
    def halfwidth(self) -> np.ndarray:
        return np.maximum(self.hi - self.t, self.t - self.lo)

    @property
    def errors(self) -> Errors:
        return self.joint or each_its_own(self.halfwidth)


@runtime_checkable
class Meter(Protocol):
    """Turns answers into scores. Every scheme works on every meter."""

    @property
    def oracle(self) -> Oracle: ...

    @property
    def keys(self) -> Frame:
        """All directions, as keys that are measured best,"""
        ...

    @property
    def queries(self) -> Frame:
        """and as queries."""
        ...

    @property
    def drift(self) -> float:
        """An error of `W b` that is the same for every b, and is not part of the intervals."""
        ...

    @property
    def careful(self) -> int:
        """Up to how many columns a new one is tested for adding anything, beyond which several go at once."""
        ...

    @property
    def batch(self) -> int:
        """How many scores are best asked for at once."""
        ...

    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
        ...

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two keys for each direction in `A`, to measure it by whatever it is, and how to combine their scores."""
        ...

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        """The keys that measure best where `W b` lies in the span of the columns of `Q`, exactly or nearly so."""
        ...

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0, growth: float = 8.0) -> Meter:
        """The meter at the scale that suits scores like these, known up to `noise`."""
        ...

    def suited(self, keys: np.ndarray) -> Meter:
        """The meter at the scale that suits these keys."""
        ...

    def sharper(self) -> Meter:
        """The meter at its finest, for a few scores on which a bound on everything else hangs."""
        ...

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score of unit vectors, given the size of W."""
        ...

    def likely(self, noise: float) -> float:
        """How large a sum of many errors gets that is bounded by `noise`, where no adversary chooses them."""
        ...
