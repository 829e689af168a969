"""Fresh points: what the learned function says, and what the box answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._errors import Evidence
from .._types import Float
from .homogeneous import Circle, Homogeneous

EACH = 4  # a third of the points lie on the circle, where a missed kink would show
MORE = 5  # times as many where answers are noisy

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Check:
    """Points that nothing was fitted to, and the box's answers."""

    X: Float[np.ndarray, "n D"]
    answers: Float[np.ndarray, "n"]

    @property
    def largest(self) -> float:
        return float(np.abs(self.answers).max())

    def residual(self, model: Function) -> float:
        """The largest error over the largest answer."""
        off = float(np.abs(model(self.X) - self.answers).max())
        return off / self.largest if self.largest > 0 else off

    def evidence(self, model: Function, g: Homogeneous) -> Evidence:
        expected = model(self.X)
        worst = int(np.argmax(np.abs(expected - self.answers)))
        law = "the learned network predicts fresh answers"
        return Evidence(law, g.input(self.X[worst]), f"expected {expected[worst]:.12g}", f"{self.answers[worst]:.12g}")


def fresh(g: Homogeneous, circle: Circle | None, exact: bool, rng: np.random.Generator) -> Check:
    n = EACH if exact else EACH * MORE
    X = g.points(2 * n, rng)
    if circle is not None:
        X = np.vstack([X, circle.at(rng.uniform(circle.low, circle.high, n))])
    return Check(X, g(X))
