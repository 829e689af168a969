"""Answers of a box beside what was expected of them: where laws and checks end, and where evidence comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._errors import Evidence
from .._recovery import MOST_PAIRS
from .._types import Float


@dataclass(frozen=True)
class Compared:
    """Sequences `(N, d)` of any lengths, what a box answered, what was expected, and how far apart they may be.

    Answers hold one number or several, or are yes and no; `allowed` is one number for each sequence, or for all.
    """

    X: Sequence[np.ndarray]
    got: np.ndarray
    want: np.ndarray
    allowed: np.ndarray | float = 0.0

    @property
    def apart(self) -> Float[np.ndarray, "B k"]:
        """The errors of all numbers in all answers."""
        got, want = (np.asarray(side, float).reshape(len(self.X), -1) for side in (self.got, self.want))
        return np.abs(got - want)

    @property
    def off(self) -> Float[np.ndarray, " B"]:
        """How far off each answer is: the largest error of its numbers."""
        return self.apart.max(axis=1)

    @property
    def excess(self) -> Float[np.ndarray, " B"]:
        """How far off each answer is over what is allowed; infinite where nothing is."""
        off = self.off
        allowed = np.broadcast_to(self.allowed, off.shape)
        return np.divide(off, allowed, out=np.where(off > 0, np.inf, 0.0), where=allowed > 0)

    @property
    def holds(self) -> bool:
        """Whether every answer is as near as it has to be."""
        return bool((self.excess <= 1).all())

    @property
    def largest(self) -> float:
        """The largest number in any answer."""
        return float(np.abs(np.asarray(self.got, float)).max())

    def residual(self, largest: np.ndarray | float | None = None) -> float:
        """The largest error, over the largest answer (of its kind, if `largest` says one for each)."""
        size = np.asarray(self.largest if largest is None else largest)
        return float(np.max(self.off / np.where(size > 0, size, 1.0)))

    def evidence(self, law: str) -> Evidence | None:
        """The answer that is furthest beyond what is allowed, or None where all hold."""
        if self.holds:
            return None
        i = int(np.argmax(self.excess))
        j = int(np.argmax(self.apart[i]))
        got, want = (np.asarray(side).reshape(len(self.X), -1)[i, j] for side in (self.got, self.want))
        if np.asarray(self.got).dtype == bool:
            return Evidence(law, self.X[i], f"expected {'yes' if want > 0.5 else 'no'}", "yes" if got else "no")
        output = f" as output {j}" if self.apart.shape[1] > 1 else ""
        within = float(np.broadcast_to(self.allowed, len(self.X))[i])
        return Evidence(law, self.X[i], f"expected {want:.9g} within {within:.2g}{output}", f"{got:.9g}")


def compared_pairs(groups: Sequence[Compared]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Predictions and answers, number by number, evenly chosen where there are many."""
    if not groups:
        return (), ()
    want, got = (np.concatenate([getattr(group, side).ravel() for group in groups]) for side in ("want", "got"))
    chosen = np.unique(np.linspace(0, len(want) - 1, MOST_PAIRS).astype(int))
    return tuple(want[chosen].astype(float).tolist()), tuple(got[chosen].astype(float).tolist())
