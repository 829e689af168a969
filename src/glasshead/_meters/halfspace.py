"""The plane on which a box changes its answer, and directions that lie clearly on a side of it.

Yes and no tell on which side of the plane `x.v + bias = 0` the mean of two tokens lies, so a direction along the plane
shows nothing. It is measured as the sum of two that do not lie along it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._oracles import Oracle
from .._types import Float
from .frame import key_pairs


@dataclass(frozen=True)
class Halfspace:
    """`v` of norm 1 within `error`; an origin on the plane, `shift` away from zero, up to `offset`."""

    v: np.ndarray
    error: float
    origin: np.ndarray
    offset: float = 0.0

    @property
    def shift(self) -> float:
        return float(np.linalg.norm(self.origin))

    @property
    def bias(self) -> float:
        return 0.0 - float(self.origin @ self.v)

    @property
    def bias_error(self) -> float:
        return self.offset + self.shift * self.error

    def value_error(self, oracle: Oracle, length: np.ndarray | float) -> np.ndarray | float:
        """By how much the box's `x.v + bias` may be off for tokens of this length, as seen from the origin."""
        return self.offset + value_rounding(oracle, length + 2 * self.shift)


def value_rounding(oracle: Oracle, length: np.ndarray | float) -> np.ndarray | float:
    """How far a dot product of that length with v may be off, once in the box and once in our own arithmetic."""
    return 2 * (oracle.dim + 8) * oracle.roundoff * length


FAINT_SIDE = 2.0**-6  # of 1/sqrt(d): directions that lean less than this to a side of the plane are measured as two


@dataclass(frozen=True)
class Sums:
    """An `(m, n)` block of scores: entry `at` is a sum of `weight` times the score of `keys[k]` with `queries[q]`."""

    shape: tuple[int, int]
    at: tuple[np.ndarray, np.ndarray]
    weight: np.ndarray
    keys: np.ndarray
    queries: np.ndarray
    k: np.ndarray
    q: np.ndarray

    def add(self, score: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums, and how far each may be off."""
        t, halfwidth = np.zeros((2, *self.shape))
        np.add.at(t, self.at, self.weight * score)
        np.add.at(halfwidth, self.at, np.abs(self.weight) * error)
        return t, halfwidth


def sums(v: Float[np.ndarray, " d"], B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Sums:
    """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
    (m, d), n = B.shape, A.shape[-2]
    keys, of_key = on_clear_sides(v, A.reshape(-1, d))
    queries, of_query = on_clear_sides(v, B)
    row = np.arange(n) + (n if A.ndim == 3 else 0) * np.arange(m)[:, None]
    weight = of_key[row][..., None] * of_query[:, None, None, :]
    i, j, a, b = np.nonzero(weight)
    return Sums(
        (m, n), (i, j), weight[i, j, a, b], keys.reshape(-1, d), queries.reshape(-1, d), 2 * row[i, j] + a, 2 * i + b
    )


def on_clear_sides(v: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each direction as a sum of one or two that lie clearly on a side of the plane, and the weights of the sum."""
    sides = np.abs(directions @ v) * np.sqrt(len(v))
    faint = np.flatnonzero(sides < FAINT_SIDE * np.linalg.norm(directions, axis=1))
    parts = np.stack([directions, np.zeros_like(directions)], axis=1)
    weights = np.tile([1.0, 0.0], (len(directions), 1))
    if len(faint):
        parts[faint], weights[faint] = key_pairs(v, directions[faint], np.random.default_rng(0))
    return parts, weights
