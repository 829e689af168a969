"""Least squares by Levenberg's method, where answers are exact: it ends at rounding, or it is in the wrong place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._types import Float

ROUNDS, TRIES = 60, 12
START, LEAST = 1e-3, 1e-15  # of the damping, over the mean square of a column
UP, DOWN = 4.0, 5.0
STALLED = 1e-3  # a smaller relative gain than that is none
AGAIN = 2  # rounds without a gain, at the end: rounding takes turns


def least_squares(
    residual: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    x: Float[np.ndarray, " p"],
    enough: float,
) -> tuple[Float[np.ndarray, " p"], float]:
    """The parameters and the root mean square of what is left; once that is `enough`, it goes on while it gains."""
    damping, left, stalled = START, residual(x), 0
    for _ in range(ROUNDS):
        J = jacobian(x)
        if not np.isfinite(J).all():  # parameters that ran away
            break
        scale = np.linalg.norm(J, axis=0)
        scale[scale == 0] = 1.0
        J = J / scale
        square, slope = J.T @ J, J.T @ left
        for _ in range(TRIES):
            tried = x + step(square, slope, damping) / scale
            new = residual(tried)
            if np.linalg.norm(new) < np.linalg.norm(left):
                break
            damping *= UP
        else:
            break
        gain = 1 - np.linalg.norm(new) / np.linalg.norm(left)
        x, left, damping = tried, new, max(damping / DOWN, LEAST)
        stalled = stalled + 1 if gain < STALLED or not left.any() else 0
        if stalled >= AGAIN or (rms(left) <= enough and stalled):
            break
    return x, rms(left)


def step(square: np.ndarray, slope: np.ndarray, damping: float) -> np.ndarray:
    while True:
        try:
            return cho_solve(cho_factor(square + damping * np.eye(len(square))), slope)
        except LinAlgError:
            damping *= 100 * UP


def rms(left: np.ndarray) -> float:
    return float(np.sqrt(np.mean(left**2)))
