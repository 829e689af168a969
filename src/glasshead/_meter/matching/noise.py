"""By how much answers are off, measured: the third of three points in a row betrays the noise of all three."""

from __future__ import annotations

import numpy as np

from ..._oracle import Oracle
from .curve import Curve

NEAR = 2.0**10  # roundoffs between the points: far enough to be rounded anew, near enough for a straight line
SURE = 3.0  # standard deviations
TINY_STEP = 2.0**-20  # of a probe, for slopes: balances rounding against curvature


def floor(oracle: Oracle, size: float) -> float:
    """What is known without measuring: the promise, and the last digit of answers of this size."""
    return 2 * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * size)


def slope_step(noise: float, size: float) -> float:
    return max(TINY_STEP, float(np.sqrt(noise / size))) if size > 0 else TINY_STEP


def answer_noise(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray) -> float:
    """`SURE` standard deviations of an answer to sequences like these: three queries for each."""
    n, near = len(q), NEAR * oracle.roundoff
    ladder = [curve.reference(q, u, np.full(n, 1 + k * near)) for k in range(3)]
    y = oracle(np.concatenate(ladder)).reshape(3, n, -1)
    bend = y[0] - 2 * y[1] + y[2]
    return max(SURE * float(np.sqrt(np.mean(bend**2) / 6)), floor(oracle, float(np.abs(y).max())))
