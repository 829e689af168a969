"""A piecewise linear function by its gradients along a circle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float


@dataclass(frozen=True)
class Pieces:
    """`f(X) = l.X + (1/2) sum_k c_k |J_k.X|`, kept as the gradients between one kink and the next.

    The jump `J_k = G_{k+1} - G_k` at kink k is, up to sign, the neuron's weights times its output weight; `c_k = ±1` is
    whether f bends up or down there; `2 l` is the first gradient plus the last.
    """

    gradients: Float[np.ndarray, "arcs D"]
    bends: Float[np.ndarray, "m"]

    @property
    def jumps(self) -> Float[np.ndarray, "m D"]:
        return np.diff(self.gradients, axis=0)

    @property
    def linear(self) -> Float[np.ndarray, "D"]:
        return (self.gradients[0] + self.gradients[-1]) / 2

    def __call__(self, X: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n"]:
        return X @ self.linear + np.abs(X @ self.jumps.T) @ self.bends / 2

    def weights(self, X: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n arcs"]:
        """`f(X) = sum_i weights_i G_i.X`: with the side of every kink known, f is linear in the gradients."""
        sides = np.sign(X @ self.jumps.T) * self.bends
        one = np.ones((len(X), 1))
        return (np.hstack([one, sides]) - np.hstack([sides, -one])) / 2
