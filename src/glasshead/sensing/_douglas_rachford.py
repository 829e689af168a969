"""Douglas-Rachford for the least nuclear norm that fits, accelerated by Anderson's extrapolation.

One step shrinks the singular values of z by a threshold, reflects, and projects onto the matrices that fit; in the
limit the shrunken matrix fits. `Anderson` extrapolates from the last few points, which saves most of the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Float
from ._factors import Factors
from ._measurements import Constraints

KEPT_STEPS = 10
# Relative weight of a ridge on the small least-squares problem, whose columns become parallel near convergence.
RIDGE = 1e-10
# An extrapolation that made the step this much longer than the best remembered one was a mistake: forget and restart.
LONGER_STEP = 2.0


class Anderson:
    """The next point of a fixed-point iteration, from the last few points and the steps that led away from them."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._points: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []

    def next(self, z: Float[np.ndarray, "d1 d2"], step: Float[np.ndarray, "d1 d2"]) -> Float[np.ndarray, "d1 d2"]:
        """Where to go from z, when the plain iteration would go to `z + step`."""
        plain = z + step
        if self._steps and np.linalg.norm(step) > LONGER_STEP * min(np.linalg.norm(s) for s in self._steps):
            self.forget()
        self._points = [*self._points[-KEPT_STEPS:], plain.ravel()]
        self._steps = [*self._steps[-KEPT_STEPS:], step.ravel()]
        return plain - self._correction().reshape(z.shape) if len(self._steps) > 1 else plain

    def _correction(self) -> Float[np.ndarray, "d"]:
        moved, changed = np.diff(self._points, axis=0), np.diff(self._steps, axis=0)
        normal = changed @ changed.T
        normal += RIDGE * np.trace(normal) * np.eye(len(normal))
        return np.linalg.solve(normal, changed @ self._steps[-1]) @ moved


# Over-relaxation; anything below 2 converges.
RELAXATION = 1.6
# Primal and dual error further apart than this: the threshold on the singular values is off by about RETHRESHOLD.
UNBALANCED = 3.0
RETHRESHOLD = 2.0


class Iterate(NamedTuple):
    low: Factors
    """The shrunken matrix: low rank, on its way to fitting."""
    x: Float[np.ndarray, "d1 d2"]
    """The shrunken matrix as an array."""
    fitting: Float[np.ndarray, "d1 d2"]
    """Fits exactly, on its way to low rank."""
    correction: Float[np.ndarray, "m"]


class DouglasRachford:
    """The iteration: `look` shrinks and projects at z, `advance` moves z, `rebalance` tunes the threshold."""

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints
        self.z = constraints.least_norm()
        self.threshold = float(np.linalg.norm(self.z, 2))
        self._anderson = Anderson()

    def current(self) -> Iterate:
        U, s, V = np.linalg.svd(self.z, full_matrices=False)
        rank = int(np.sum(s > self.threshold))
        low = Factors(U.T[:rank], s[:rank] - self.threshold, V[:rank])
        x = (low.U.T * low.s) @ low.V
        reflected = 2 * x - self.z
        correction = self.constraints.solve(self.constraints.measure(reflected) - self.constraints.rows.t)
        return Iterate(low, x, reflected - self.constraints.adjoint(correction), correction)

    def advance(self, now: Iterate) -> None:
        self.z = self._anderson.next(self.z, RELAXATION * (now.fitting - now.x))

    def dual(self, now: Iterate) -> Float[np.ndarray, "m"]:
        """What `(z - x) / threshold`, a subgradient of the nuclear norm at x, is among the measurements."""
        return self.constraints.solve(self.constraints.measure(self.z - now.x)) / self.threshold

    def rebalance(self, now: Iterate, y: Float[np.ndarray, "m"]) -> bool:
        """`fitting - x` is the primal error in the range of the measurements, the dual one in their kernel."""
        change = now.fitting - now.x
        in_range = np.linalg.norm(self.constraints.adjoint(now.correction + self.threshold * y))
        in_kernel = np.sqrt(max(np.linalg.norm(change) ** 2 - in_range**2, 0.0))
        primal = in_range / np.linalg.norm(now.fitting)
        dual = in_kernel / np.linalg.norm(self.z - now.x)
        factor = RETHRESHOLD if dual > UNBALANCED * primal else 1 / RETHRESHOLD if primal > UNBALANCED * dual else 1.0
        if factor != 1.0:
            self.threshold *= factor
            self.z = now.x + factor * (self.z - now.x)
            self._anderson.forget()
        return factor != 1.0
