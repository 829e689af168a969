"""What the solvers hand back: a matrix, how well it fits, and why anyone should believe it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._types import Float

Progress = Callable[[int, int, str], None]  # done, planned, what


@dataclass(frozen=True, eq=False)
class Certificate:
    """A point of the dual program: whatever W fits the measurements, `||W||_* >= bound`.

    `y` is scaled such that `D = sum_k y_k a_k b_k^T` has no singular value above 1. Then for every W that fits,
    `||W||_* >= <D, W> = y . t = bound`, and anyone can check it with one SVD of a d1 x d2 matrix.
    """

    y: Float[np.ndarray, "m"]
    bound: float
    gap: float
    """`(||W||_* - bound) / ||W||_*` for the W that was returned: no other W that fits is better by more than this."""
    dual_norm: float
    """The largest singular value of `D`: 1, up to rounding."""
    outside: float
    """The largest singular value of `D` away from the row and column space of W. Below 1, no minimiser of the nuclear
    norm reaches outside of those spaces."""


@dataclass(frozen=True, eq=False)
class Sensed:
    """A matrix `W = left @ right.T` found from rank-one measurements; a success only where `converged` is true."""

    left: Float[np.ndarray, "d1 r"]
    right: Float[np.ndarray, "d2 r"]
    residual: float
    """`||measured(W) - t|| / ||t||`, as given or with every a_k and b_k brought to length 1: the larger of the two."""
    converged: bool
    iterations: int
    reason: str
    certificate: Certificate | None = None

    @cached_property
    def W(self) -> Float[np.ndarray, "d1 d2"]:
        return self.left @ self.right.T

    @property
    def rank(self) -> int:
        return self.left.shape[1]


def zero(d1: int, d2: int) -> Sensed:
    return Sensed(np.zeros((d1, 0)), np.zeros((d2, 0)), 0.0, True, 0, "every measurement is zero, and so is W")
