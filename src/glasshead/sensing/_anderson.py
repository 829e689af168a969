"""Anderson acceleration: the next point of a fixed-point iteration, extrapolated from the last few."""

from __future__ import annotations

import numpy as np

from .._types import Float

MEMORY = 10
# Relative weight of a ridge on the small least-squares problem, whose columns become parallel near convergence.
RIDGE = 1e-10
# An extrapolation that made the step this much longer than the best remembered one was a mistake: forget and restart.
WORSE = 2.0


class Anderson:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._points: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []

    def next(self, z: Float[np.ndarray, "d1 d2"], step: Float[np.ndarray, "d1 d2"]) -> Float[np.ndarray, "d1 d2"]:
        """Where to go from z, when the plain iteration would go to `z + step`."""
        plain = z + step
        if self._steps and np.linalg.norm(step) > WORSE * min(np.linalg.norm(s) for s in self._steps):
            self.forget()
        self._points = [*self._points[-MEMORY:], plain.ravel()]
        self._steps = [*self._steps[-MEMORY:], step.ravel()]
        return plain - self._correction().reshape(z.shape) if len(self._steps) > 1 else plain

    def _correction(self) -> Float[np.ndarray, "d"]:
        moved, changed = np.diff(self._points, axis=0), np.diff(self._steps, axis=0)
        normal = changed @ changed.T
        normal += RIDGE * np.trace(normal) * np.eye(len(normal))
        return np.linalg.solve(normal, changed @ self._steps[-1]) @ moved
