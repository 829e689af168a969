"""Newton's method for the weights that make a matrix drop rank.

Two-row answers are `y_i = sum_h alpha_ih z_i Pi_h`. With the weights of one head h, every `y_i - alpha_ih z_i` has
nothing in that head's outputs: the matrix of these rows has an r-dimensional null space, the head's value space.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .svd import svd

ROUNDS = 12
CONVERGED = 1e-6  # a ratio of singular values below which failing to fall further means rounding
ASTRAY = 0.5
SPARE = 1.5  # equations for each unknown


@dataclass(frozen=True)
class Drop:
    """A basis of the null space, and how much smaller its singular values are than the others."""

    basis: np.ndarray
    ratio: float


def spare_rows(m: int, rank: int) -> int:
    """Rows beyond m that it takes: `(rank + spare) rank` equations for `m + spare` weights."""
    return max(2, int(np.ceil((SPARE * m - rank**2) / (rank - min(SPARE, rank - 0.5)))))


def drop_rank(Y: np.ndarray, Z: np.ndarray, guess: np.ndarray, rank: int) -> Drop:
    """`guess (m, <= rank)` spans most of the null space, nearly."""
    (n, m), ratios = Y.shape, []
    weights = fit(Y @ guess, Z @ guess)
    best = Drop(guess, np.inf)
    for _ in range(ROUNDS):
        A = Y - weights[:, None] * Z
        left, s, right = svd(A, full=True)
        null, left_null = right[m - rank :].T, left[:, m - rank :]
        ratios.append(float(s[m - rank] / s[m - rank - 1]) if m > rank else 0.0)
        if ratios[-1] < best.ratio:
            best = Drop(null, ratios[-1])
        if m == rank or (len(ratios) > 1 and ratios[-1] > ratios[-2] / 4 and ratios[-1] < CONVERGED):
            break
        equations = (left_null[:, :, None] * (Z @ null)[:, None, :]).reshape(n, -1).T
        residual = (left_null.T @ A @ null).reshape(-1)
        # Weights lie between 0 and 1: a step that leaves that far behind goes astray.
        weights = np.clip(weights + np.linalg.lstsq(equations, residual, rcond=None)[0], -ASTRAY, 1 + ASTRAY)
    return best


def fit(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """For each row the weight that brings `y - weight z` closest to 0."""
    return np.clip(np.sum(y * z, axis=1) / np.maximum(np.sum(z**2, axis=1), 1e-300), -ASTRAY, 1 + ASTRAY)
