"""Whether what couples two parts is error or meant."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .split import Split

CEILING = 0.03  # of the size of an entry: without a tolerance, more than this is never taken for error
CHANCE = 1e-3  # that f free numbers all happen to be small, `ceiling**f`, is to be no more than this
STRUCTURED = 1e-6  # and errors that are not independent, as finite differences leave them, up to here
ALIKE = 30.0  # such errors may differ by this factor from one pair of parts to the next
UNLIKELY = 12.0  # independent errors stray further than allowed with probability exp(-12)


@dataclass
class Noise:
    """The level of error: given as `tol`, or learned from the cleanest parts so far."""

    size: float
    floor: float
    tol: float | None
    cost: float = 0.0
    freedom: int = 0

    @property
    def level(self) -> float:
        seen = math.sqrt(self.cost / self.freedom) if self.freedom else 0.0
        return max(self.floor, seen if self.tol is None else self.tol)

    def add(self, found: Split) -> None:
        self.cost += found.cost
        self.freedom += found.freedom

    def explains(self, found: Split) -> bool:
        if found.rms <= self.floor:
            return True
        if self.tol is not None:
            return self.within(found)
        if found.rms <= STRUCTURED * self.size:
            return not self.freedom or bool(found.rms <= ALIKE * self.level)
        ceiling = min(CEILING, CHANCE ** (1 / found.freedom))
        small = bool(found.rms <= ceiling * self.size)
        return small and found.white and (not self.freedom or self.within(found))

    def within(self, found: Split) -> bool:
        """The bound of Laurent and Massart for the mean of f squares."""
        x = UNLIKELY * (1 / found.freedom + (1 / self.freedom if self.tol is None else 0.0))
        return bool(found.rms**2 <= self.level**2 * (1 + 2 * math.sqrt(x) + 2 * x))
