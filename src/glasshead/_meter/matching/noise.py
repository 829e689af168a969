"""By how much answers are off, measured: the third of three points in a row betrays the noise of all three."""

from __future__ import annotations

import numpy as np

from ..._oracle import Oracle
from .curve import Curve

NEAR = 2.0**10  # roundoffs between the points: far enough to be rounded anew, near enough for a straight line
FARTHER, FARTHEST = 2.0**8, 2.0**-10  # times, where answers are all the same, and up to there
SURE = 3.0  # standard deviations
TINY_STEP = 2.0**-20  # of a probe, for slopes: balances rounding against curvature


def floor(oracle: Oracle, size: float) -> float:
    """What is known without measuring: the promise, and the last digit of answers of this size."""
    return 2 * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * size)


def slope_step(noise: float, size: float) -> float:
    return max(TINY_STEP, float(np.sqrt(noise / size))) if size > 0 else TINY_STEP


def answer_noise(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray) -> float:
    """`SURE` standard deviations of an answer to sequences like these: three queries for each.

    Answers that do not change at all are on a grid, rounded to some decimals say, unless they never do.
    """
    near, grid = NEAR * oracle.roundoff, 0.0
    y = ladder(oracle, curve, q, u, near)
    while still(y) and (near := FARTHER * near) < FARTHEST:
        y = ladder(oracle, curve, q, u, near)
        grid = smallest_change(y)
    bend = y[0] - 2 * y[1] + y[2]
    return max(SURE * float(np.sqrt(np.mean(bend**2) / 6)), grid, floor(oracle, float(np.abs(y).max())))


def ladder(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray, near: float) -> np.ndarray:
    """Answers to three sequences in a row, that near to each other."""
    n = len(q)
    X = [curve.reference(q, u, np.full(n, 1 + k * near)) for k in range(3)]
    return oracle(np.concatenate(X)).reshape(3, n, -1)


def still(y: np.ndarray) -> bool:
    """Whether the answers to most sequences stay the same."""
    return bool(np.mean((y == y[0]).all(axis=(0, 2))) > 0.5)


def smallest_change(y: np.ndarray) -> float:
    """The least difference of neighbours that are not the same, 0 where all are."""
    changes = np.abs(np.diff(y, axis=0))
    return float(np.min(changes, where=changes > 0, initial=np.inf)) if changes.any() else 0.0
