"""A first guess: leading singular vectors of `sum_k t_k a_k b_k^T`, for Gaussian rows a multiple of W on average."""

from __future__ import annotations

import numpy as np

from .._types import Float
from ._factors import Factors
from ._rows import Point, Rows

# Subspace iteration: the guess is only good to tens of percent, so a few rounds with a few spare columns do.
ROUNDS = 2
SPARE = 8


def spectral_start(rows: Rows, rank: int, rng: np.random.Generator, *, share: float = 1.0) -> Factors:
    """From a random `share` of the measurements: less than all of them gives a fresh guess for a restart."""
    weights = rows.t if share >= 1.0 else rows.t * (rng.random(len(rows)) < share)
    guess = _leading(rows, weights, rank, rng)
    return guess._replace(s=guess.s * _best_scale(rows, guess))


def _leading(rows: Rows, weights: Float[np.ndarray, "m"], rank: int, rng: np.random.Generator) -> Factors:
    A, B = rows.single
    weights = weights.astype(np.float32)
    width = min(rank + SPARE, A.shape[1], B.shape[1])
    right = _orthonormal(rng.standard_normal((width, B.shape[1]), dtype=np.float32))
    for _ in range(ROUNDS):
        left = _orthonormal((weights * (right @ B.T)) @ A)
        right = _orthonormal((weights * (left @ A.T)) @ B)
    left = _orthonormal((weights * (right @ B.T)) @ A)
    image = (weights * (left @ A.T)) @ B
    u, s, v = np.linalg.svd(image.astype(np.float64), full_matrices=False)
    U, V = _orthonormal((u.T @ left)[:rank].astype(np.float64)), _orthonormal(v[:rank])
    return Factors(U, s[:rank] / len(rows), V)


def _orthonormal(rows: Float[np.ndarray, "r d"]) -> Float[np.ndarray, "r d"]:
    return np.linalg.qr(rows.T)[0].T.copy()


def _best_scale(rows: Rows, W: Factors) -> float:
    predicted = rows.t - Point(rows, W).misfit
    energy = float(predicted @ predicted)
    return abs(float(predicted @ rows.t)) / energy if energy > 0 else 1.0
