"""Interpolation through a few points, for many curves at once."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import expit

from ..._oracles import Oracle
from ..._types import Float


def inverse(c: Float[np.ndarray, "n k"], f: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Where `f(c) = 0`: the polynomial c(f) through the points, at 0 (Neville). NaN where two values are equal."""
    table = c.copy()
    k = c.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in range(1, k):
            left, right = f[:, : k - order], f[:, order:]
            table = (right * table[:, :-1] - left * table[:, 1:]) / (right - left)
    return table[:, 0]


def slope(c: Float[np.ndarray, "n k"], f: Float[np.ndarray, "n k"], at: Float[np.ndarray, " n"]) -> np.ndarray:
    """`f'(at)` of the polynomial f(c) through the points, from its divided differences."""
    k = c.shape[1]
    differences = f.copy()
    total, product, derivative = np.zeros(len(at)), np.ones(len(at)), np.zeros(len(at))
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in range(1, k):
            # The product of (at - c_j) over the points so far, and its derivative.
            derivative = derivative * (at - c[:, order - 1]) + product
            product = product * (at - c[:, order - 1])
            differences = (differences[:, 1:] - differences[:, :-1]) / (c[:, order:] - c[:, : k - order])
            total = total + differences[:, 0] * derivative
    return total


SCORE_STEPS = 60
LONGEST_STEP = 1.0
SCORE_CONVERGED = 2.0**-40  # a step of Newton's that short leaves an error of its square


@runtime_checkable
class Curve(Protocol):
    """A reference sequence, whose first tokens are `q + u`, and a movable one, with a single token `q + c u`."""

    start: float  # the c of a score of zero,
    range: tuple[float, float]  # and those of all scores
    limit: float  # within +- this: beyond it the answers say little, or two c fit
    typical: float  # the rms of scores to aim for

    def reference(self, q: np.ndarray, u: np.ndarray, c: np.ndarray) -> Float[np.ndarray, "n N d"]: ...

    def movable(self, q: np.ndarray, u: np.ndarray, c: np.ndarray) -> Float[np.ndarray, "n N d"]: ...

    def reference_t(self, c: np.ndarray, s: np.ndarray) -> np.ndarray: ...

    def movable_t(self, c: np.ndarray, s: np.ndarray) -> np.ndarray: ...

    def score(self, c: np.ndarray) -> np.ndarray:
        """The s for which the movable sequence at c goes as far as the reference at 1."""
        ...


class Copies:
    """Two copies of `q + u` against one of `q + c u`, before the last token q: for answers that also depend on q."""

    start = 4 / 3
    range = (1.05, 1.95)
    limit = 0.42

    def __init__(self, noisy: bool = False):
        self.typical = 0.16 if noisy else 0.1  # smaller scores take fewer queries, larger ones stand out of noise

    def reference(self, q, u, c):
        token = q + c[:, None] * u
        return np.stack([token, token, q], axis=1)

    def movable(self, q, u, c):
        return np.stack([q + c[:, None] * u, q], axis=1)

    def reference_t(self, c, s):
        return c * expit(c * s + np.log(2))

    def movable_t(self, c, s):
        return c * expit(c * s)

    def score(self, c):
        s = 9 / 4 * (self.start - c)
        for _ in range(SCORE_STEPS):
            moved, fixed = expit(c * s), expit(s + np.log(2))
            slope = c**2 * moved * (1 - moved) - fixed * (1 - fixed)
            step = np.clip((c * moved - fixed) / slope, -LONGEST_STEP, LONGEST_STEP)
            s = s - step
            if not np.any(np.abs(step) > SCORE_CONVERGED):
                break
        return s


class OneRow:
    """`[q + u ; q]` against the one-row `[q + c u]`, whose attention output is its token: for answers that depend on
    the attention output alone. Then c is the attention weight itself."""

    start = 0.5
    range = (0.002, 0.998)
    limit = 3.0

    def __init__(self, noisy: bool = False):
        self.typical = 0.8 if noisy else 0.2

    def reference(self, q, u, c):
        return np.stack([q + c[:, None] * u, q], axis=1)

    def movable(self, q, u, c):
        return (q + c[:, None] * u)[:, None]

    def reference_t(self, c, s):
        return c * expit(c * s)

    def movable_t(self, c, s):
        return c + 0 * s

    def score(self, c):
        return np.log(c) - np.log1p(-c)


NOISE_STEP = 2.0**10  # roundoffs between the points: far enough to be rounded anew, near enough for a straight line
WIDER_STEP, WIDEST_STEP = 2.0**8, 2.0**-10  # times, where answers are all the same, and up to there
DEVIATIONS = 3.0  # standard deviations
TINY_STEP = 2.0**-20  # of a probe, for slopes: balances rounding against curvature


def floor(oracle: Oracle, size: float) -> float:
    """What is known without measuring: the promise, and the last digit of answers of this size."""
    return 2 * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * size)


def slope_step(noise: float, size: float) -> float:
    return max(TINY_STEP, float(np.sqrt(noise / size))) if size > 0 else TINY_STEP


def answer_noise(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray) -> float:
    """`DEVIATIONS` standard deviations of an answer to sequences like these: three queries for each.

    Answers that do not change at all are on a grid, rounded to some decimals say, unless they never do.
    """
    near, grid = NOISE_STEP * oracle.roundoff, 0.0
    y = ladder(oracle, curve, q, u, near)
    while still(y) and (near := WIDER_STEP * near) < WIDEST_STEP:
        y = ladder(oracle, curve, q, u, near)
        grid = smallest_change(y)
    bend = y[0] - 2 * y[1] + y[2]
    return max(DEVIATIONS * float(np.sqrt(np.mean(bend**2) / 6)), grid, floor(oracle, float(np.abs(y).max())))


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
