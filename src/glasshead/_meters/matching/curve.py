"""Two sequences along one line: how far the attention output goes on each, and how noisy the answers to them are.

With all tokens on the line `q + c u` the attention output lies on it too, at `q + t u`, where t depends on c and on the
one score `s = u . (W q + key_bias)`. A `Curve` is a pair of sequences: the c at which the movable one is answered like
the reference is where both have the same t, and so tells s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import expit

from ..._oracles import Oracle
from ..._types import Float


def inverse_interpolation(c: Float[np.ndarray, "n k"], f: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Where `f(c) = 0`: the polynomial c(f) through the points, at 0 (Neville). Not finite where values are equal."""
    table = c.copy()
    k = c.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in range(1, k):
            left, right = f[:, : k - order], f[:, order:]
            table = (right * table[:, :-1] - left * table[:, 1:]) / (right - left)
    return table[:, 0]


def interpolated_slope(
    c: Float[np.ndarray, "n k"], f: Float[np.ndarray, "n k"], at: Float[np.ndarray, " n"]
) -> np.ndarray:
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


SCORE_STEPS, LONGEST_STEP = 60, 1.0  # of Newton's method, at most
SCORE_CONVERGED = 2.0**-40  # a step of Newton's that short leaves an error of its square
DIFFERENCE = 1e-6  # half the step of a central difference: right to 1e-10, and 1e-2 is all that is asked of it


def derivative(f: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """`f'(at)` of a smooth function that is known, by a central difference."""
    return (f(at + DIFFERENCE) - f(at - DIFFERENCE)) / (2 * DIFFERENCE)


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

    # `c sigma(c s) = sigma(s + log 2)`: c = 4/3 at s = 0, 1.21 at 0.42, 1.75 at -0.42, where c begins to run away (it
    # moves by 2.6 per unit of s, by 14 at -0.5, and below -0.52 no c fits).
    start = 4 / 3
    range = (1.05, 1.95)  # scores from 2 down to -0.47
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
    range = (0.002, 0.998)  # weights of scores up to 6.2
    limit = 3.0  # where a weight of 0.05 is left

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
COARSE_STEP = 0.5  # of a probe, at most, however coarse the format: there is room for probes of twice their length
WIDER_STEP, WIDEST_STEP = 2.0**8, 2.0**-10  # times, where answers are all the same, and up to there
DEVIATIONS = 3.0  # standard deviations of an answer: what it may be off by
TINY_STEP = 2.0**-20  # of a probe, for slopes: balances rounding against curvature


def floor(oracle: Oracle, size: float) -> float:
    """What is known without measuring: the promise, and the last digit of answers of this size."""
    return 2 * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * size)


def slope_step(noise: float, size: float) -> float:
    """The step for the slope of answers of that size, as a share of a probe: noise shows in it as its square root."""
    return min(COARSE_STEP, max(TINY_STEP, float(np.sqrt(noise / size)))) if size > 0 else TINY_STEP


def read_answer_noise(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray) -> float:
    """`DEVIATIONS` standard deviations of an answer to sequences like these: three queries for each.

    Answers that do not change at all are on a grid, rounded to some decimals say, unless they never do.
    """
    near, grid = min(NOISE_STEP * oracle.roundoff, COARSE_STEP), 0.0
    y = read_three(oracle, curve, q, u, near)
    while still(y) and (near := WIDER_STEP * near) < WIDEST_STEP:
        y = read_three(oracle, curve, q, u, near)
        grid = smallest_change(y)
    bend = y[0] - 2 * y[1] + y[2]
    return max(DEVIATIONS * float(np.sqrt(np.mean(bend**2) / 6)), grid, floor(oracle, float(np.abs(y).max())))


def read_three(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray, near: float) -> np.ndarray:
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
