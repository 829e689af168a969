"""From a plane of keys to all of them: the other coordinates of keys and values, one direction after the other.

A key of the plane and a little of another direction is answered by the same heads: what it adds is nearly linear in
two numbers for each of them.
"""

from __future__ import annotations

import numpy as np

from .._types import Float
from .levenberg import least_squares
from .pairs import Pairs
from .plane import Plane, around, points

MOVE = 0.5, 0.05, 0.005  # of a unit of score, for the largest key: how far keys go in the other direction
EACH, SPARE = 1, 4  # questions for each head and kind, and beyond


def lifted(plane: Plane, flat: Pairs, rest: Float[np.ndarray, "n d"], enough: float) -> Pairs:
    """The pairs in d coordinates, `rest` being the orthonormal directions outside of the plane."""
    coordinates = [beside(plane, flat, direction, enough) for direction in rest]
    K, V = (np.array([pair[i] for pair in coordinates]).reshape(len(rest), len(flat)).T for i in range(2))
    return Pairs(flat.K @ plane.basis + K @ rest, flat.V @ plane.basis + V @ rest)


def beside(plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], enough: float) -> Float[np.ndarray, "2 H"]:
    """What keys and values have along one direction. A key may have far more of it than of the plane: then less far."""
    found = np.zeros((2, len(flat)))
    for move in MOVE:
        far = move / float(np.linalg.norm(flat.K, axis=1).max())
        found, left = solved(Slice(plane, flat, direction, far))
        if left * far <= enough * plane.length:
            break
    return found


class Slice:
    """Keys of the plane, moved the same way out of it, in coordinates along it and beyond, and their answers."""

    def __init__(self, plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], far: float):
        edges, others = (
            around(flat, EACH, plane.length, plane.rng),
            points(SPARE, plane.length, len(plane.basis), plane.rng),
        )
        sent, self.y = plane.face(np.vstack([edges, others]) @ plane.basis + far * direction)
        self.Z = np.c_[sent @ plane.basis.T, sent @ direction]
        self.flat, self.far = flat, far

    def pairs(self, x: np.ndarray) -> Pairs:
        k, v = x.reshape(2, -1)
        return Pairs(np.c_[self.flat.K, k], np.c_[self.flat.V, v])


def solved(cut: Slice) -> tuple[Float[np.ndarray, "2 H"], float]:
    """The last coordinate of keys and values, and what is left of the answers, over the move."""

    def residual(x: np.ndarray) -> np.ndarray:
        return (cut.y - cut.pairs(x)(cut.Z)) / cut.far

    def jacobian(x: np.ndarray) -> np.ndarray:
        now = cut.pairs(x)
        return np.c_[now.by_keys(cut.Z), 0.5 * now.gates(cut.Z)]

    x, left = least_squares(residual, jacobian, np.zeros(2 * len(cut.flat)), 0.0)
    return x.reshape(2, -1), left
