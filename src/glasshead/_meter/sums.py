"""Scores of any directions as sums of scores that can be seen.

A key or a query shows by the side of the plane `x.v = 0` that it lies on; one that hardly leaves the plane is measured
as two that do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float
from .scores import Scores
from .visible import pairs

FAINT = 2.0**-6  # of 1/sqrt(d): directions that lean less than this to a side of the plane are measured as two


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

    def add(self, score: np.ndarray, error: np.ndarray) -> Scores:
        t, halfwidth = np.zeros((2, *self.shape))
        np.add.at(t, self.at, self.weight * score)
        np.add.at(halfwidth, self.at, np.abs(self.weight) * error)
        return Scores(t, t - halfwidth, t + halfwidth)


def sums(v: Float[np.ndarray, " d"], B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Sums:
    """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
    (m, d), n = B.shape, A.shape[-2]
    keys, of_key = visible(v, A.reshape(-1, d))
    queries, of_query = visible(v, B)
    row = np.arange(n) + (n if A.ndim == 3 else 0) * np.arange(m)[:, None]
    weight = of_key[row][..., None] * of_query[:, None, None, :]
    i, j, a, b = np.nonzero(weight)
    return Sums(
        (m, n), (i, j), weight[i, j, a, b], keys.reshape(-1, d), queries.reshape(-1, d), 2 * row[i, j] + a, 2 * i + b
    )


def visible(v: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each direction as a sum of one or two that lie clearly on a side of the plane, and the weights of the sum."""
    sides = np.abs(directions @ v) * np.sqrt(len(v))
    faint = np.flatnonzero(sides < FAINT * np.linalg.norm(directions, axis=1))
    parts = np.stack([directions, np.zeros_like(directions)], axis=1)
    weights = np.tile([1.0, 0.0], (len(directions), 1))
    if len(faint):
        parts[faint], weights[faint] = pairs(v, directions[faint], np.random.default_rng(0))
    return parts, weights
