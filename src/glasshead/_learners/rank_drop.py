"""Where one head's outputs are, from rows that a few unknown weights would bring down in rank.

What a two-row query moves the answer by is `y = sum_h a_h z B_h`. In the directions that the other heads do not reach,
`y - a z B` vanishes for the weight a of one head: over many rows the matrix of them, with the right weights, has a null
space, and that is the head's. Newton's method on "the smallest singular values are zero" finds weights and null space
from a rough guess of the latter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._linalg import svd

NEWTON_ROUNDS = 12
NULL_ROUNDED = 1e-6  # a ratio of singular values below which failing to fall further means rounding
ASTRAY = 0.5
EQUATIONS_EACH = 1.5  # equations for each unknown


@dataclass(frozen=True)
class NullSpace:
    """A basis of the null space, how much smaller its singular values are than the others, and the weights."""

    basis: np.ndarray
    ratio: float
    weights: np.ndarray


def spare_rows(m: int, rank: int) -> int:
    """Rows beyond m that it takes: `(rank + spare) rank` equations for `m + spare` weights."""
    return max(2, int(np.ceil((EQUATIONS_EACH * m - rank**2) / (rank - min(EQUATIONS_EACH, rank - 0.5)))))


def null_space(Y: np.ndarray, Z: np.ndarray, guess: np.ndarray, rank: int, free: float = 0.0) -> NullSpace:
    """`guess (m, <= rank)` spans most of the null space, nearly. Combinations of weights that move the equations by
    less than a share `free` are not determined by them, and stay as they are."""
    (n, m), ratios = Y.shape, []
    weights = best_weights(Y @ guess, Z @ guess)
    best = NullSpace(guess, np.inf, weights)
    for _ in range(NEWTON_ROUNDS):
        A = Y - weights[:, None] * Z
        left, s, right = svd(A, full=True)
        null, left_null = right[m - rank :].T, left[:, m - rank :]
        ratios.append(float(s[m - rank] / s[m - rank - 1]) if m > rank else 0.0)
        if ratios[-1] < best.ratio:
            best = NullSpace(null, ratios[-1], weights)
        if m == rank or (len(ratios) > 1 and ratios[-1] > ratios[-2] / 4 and ratios[-1] < NULL_ROUNDED):
            break
        equations = (left_null[:, :, None] * (Z @ null)[:, None, :]).reshape(n, -1).T
        residual = (left_null.T @ A @ null).reshape(-1)
        # Weights lie between 0 and 1: a step that leaves that far behind goes astray.
        weights = np.clip(weights + np.linalg.lstsq(equations, residual, rcond=free or None)[0], -ASTRAY, 1 + ASTRAY)
    return best


def best_weights(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """For each row the weight that brings `y - weight z` closest to 0."""
    return np.clip(np.sum(y * z, axis=1) / np.maximum(np.sum(z**2, axis=1), 1e-300), -ASTRAY, 1 + ASTRAY)
