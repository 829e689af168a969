"""Where a movable sequence is answered like a reference, for many probes at once, and which of these roots to believe.

An answer may return to the same number without the same attention output. At a true root both sequences also move the
answer alike: their slopes, per unit of t, agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._oracles import Oracle
from ..._types import Float
from .curve import Curve, derivative, floor, interpolated_slope, inverse_interpolation

SLOPES_ALIKE = 0.01  # relative difference of the slopes of the two sequences at a true root
SHOWS_SLOPE = 256.0  # times the noise: what the values of two points must differ by to show a slope
ROOT_CONVERGED = 1e-6  # of the probe: how near to a root the interpolation must have come, noise apart
SIDEWAYS = 0.1  # of the last step: how far a vector answer may miss the reference sideways
# Of what a probe as long as u moves: one head misses by noise there, several heads by the size of their scores.
MISSES_APART = 1e-4


@dataclass(frozen=True)
class Matched:
    """Per probe: the score, its error, and whether to believe it; `far` where the score is too large to be read, and
    `apart` where answers of several numbers agree in the direction in which they move, and clearly in no other; `root`
    is where the movable sequence is answered like the reference."""

    s: Float[np.ndarray, "*n"]
    error: Float[np.ndarray, "*n"]
    good: np.ndarray
    far: np.ndarray
    noise: float
    apart: np.ndarray | None = None
    root: np.ndarray | None = None


def judged(matching: Matching, c, f, across, root, error, used) -> Matched:
    """Slopes of both sequences at the root must agree: a false one, where the answer comes back, has another."""
    curve, noise, everyone, final = matching.curve, matching.noise, np.arange(len(root)), used - 1
    s = curve.score(root)
    fixed, moved = matching.rates(root, s)
    with np.errstate(divide="ignore", invalid="ignore"):
        here = slope_at_root(matching, c, f, root, used) / moved
        there = matching.pace / fixed
        blur = noise / (matching.step * matching.pace)
        alike = np.abs(here - there) <= (SLOPES_ALIKE + 4 * blur) * np.abs(there)
        converged = error <= ROOT_CONVERGED + 16 * noise / matching.pace
        s_error = np.abs(derivative(curve.score, root)) * (error + 2 * noise / np.abs(here * moved))
    along, beside = np.abs(f[everyone, final]), across[everyone, final]
    sideways = beside > SIDEWAYS * along + 64 * noise
    apart = (
        (error <= MISSES_APART) & (beside > MISSES_APART * matching.pace + 64 * noise) & (along <= SIDEWAYS * beside)
    )
    far = (np.abs(s) > curve.limit) | (root <= curve.range[0]) | (root >= curve.range[1])
    good = alike & converged & ~sideways & ~far & np.isfinite(s) & np.isfinite(s_error)
    return Matched(s, s_error, good, far, noise, apart, root)


def slope_at_root(matching: Matching, c, f, root, used) -> np.ndarray:
    """The slope of the movable sequence's answer, from the last three points; without the very last if it shows only
    noise."""
    everyone, final = np.arange(len(root)), used - 1
    near = np.abs(f[everyone, final] - f[everyone, final - 1]) < SHOWS_SLOPE * matching.noise
    last = np.stack([np.maximum(final - near - back, 0) for back in (2, 1, 0)], axis=1)
    points, values = np.take_along_axis(c, last, axis=1), np.take_along_axis(f, last, axis=1)
    curved = interpolated_slope(points, values, root)
    pair = interpolated_slope(points[:, 1:], values[:, 1:], root)
    return np.where((used - near > 2) & np.isfinite(curved), curved, pair)


MOST_POINTS = 7  # asked for per probe: a smooth answer takes 4, one with kinks a few more
KEPT = 5  # of them interpolated through
LEAST_STEP = 2.0**-8  # between the first two points
SAME_POINT = 2.0**-30  # points nearer than this are one


def read_references(oracle: Oracle, curve: Curve, q: np.ndarray, u: np.ndarray, noise: float, step: float) -> Matching:
    """A round of probes, begun: what the answers to all others are compared with."""
    both = [curve.reference(q, u, at * np.ones(len(q))) for at in (1.0, 1 + step)]
    return Matching(oracle, curve, q, u, noise, step, oracle(np.concatenate(both)).reshape(2 * len(q), -1))


class Matching:
    """The probes `q + c u` of one round; `answers` are those to the references at 1 and at `1 + step`, `noise` is by
    how much an answer may be off."""

    def __init__(self, oracle: Oracle, curve: Curve, q, u, noise: float, step: float, answers: np.ndarray):
        self.oracle, self.curve, self.q, self.u, self.step = oracle, curve, q, u, step
        self.noise = max(noise, floor(oracle, float(np.abs(answers).max(initial=0.0))))
        self.target, ahead = answers[: len(q)], answers[len(q) :] - answers[: len(q)]
        length = np.linalg.norm(ahead, axis=1)
        self.along = ahead / np.where(length > 0, length, 1.0)[:, None]
        self.pace = length / step  # of the answer, per unit of the reference's c

    def read_miss(self, which: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far the answer at c lies from the reference's, along the way that one moves and across it."""
        X = self.curve.movable(self.q[which], self.u[which], c)
        off = self.oracle(X).reshape(len(which), -1) - self.target[which]
        f = np.einsum("nk,nk->n", off, self.along[which])
        return f, np.linalg.norm(off - f[:, None] * self.along[which], axis=1)

    def rates(self, c: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`dt/dc` of the reference at 1 and of the movable sequence at c."""
        fixed = derivative(lambda c: self.curve.reference_t(c, s), np.ones_like(s))
        return fixed, derivative(lambda c: self.curve.movable_t(c, s), c)

    def first_step(self, f: np.ndarray) -> np.ndarray:
        """Newton's step from the start, with the slope that the reference shows."""
        start = np.full(len(f), self.curve.start)
        c = start
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(3):
                fixed, moved = self.rates(start, self.curve.score(c))
                c = self.inside(start - f * fixed / (moved * self.pace))
        # Not too near, or the slope between the two would be noise.
        away = np.where(c > start, 1.0, -1.0) * np.maximum(np.abs(c - start), LEAST_STEP)
        return start + away

    def inside(self, c: np.ndarray) -> np.ndarray:
        return np.clip(np.where(np.isfinite(c), c, self.curve.start), *self.curve.range)

    def read(self) -> Matched:
        return judged(self, *self.find_roots())

    def find_roots(self) -> tuple[np.ndarray, ...]:
        """The points asked about, how far each missed, along and across, the root, its error, how many points."""
        n = len(self.q)
        c, f, across = np.full((3, n, MOST_POINTS), np.nan)
        c[:, 0] = self.curve.start
        everyone = np.arange(n)
        f[:, 0], across[:, 0] = self.read_miss(everyone, c[:, 0])
        c[:, 1] = self.first_step(f[:, 0])
        f[:, 1], across[:, 1] = self.read_miss(everyone, c[:, 1])
        root, error, used = c[:, 1].copy(), np.full(n, np.inf), np.full(n, 2)
        active = np.flatnonzero(self.pace * self.step > 0)
        for k in range(2, MOST_POINTS + 1):
            root[active], error[active] = self.estimate(active, c[active, :k], f[active, :k])
            used[active] = k
            active = active[
                (k == 2) | ~self.done(active, c[:, :k], root, error)
            ]  # two points show no slope at the root
            if len(active) == 0 or k == MOST_POINTS:
                break
            c[active, k] = self.next_point(c[active, :k], root[active])
            f[active, k], across[active, k] = self.read_miss(active, c[active, k])
        return c, f, across, root, error, used

    def done(self, which: np.ndarray, c: np.ndarray, root: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Where the root is known well enough, or no other point would be asked about."""
        near = np.abs(root[which, None] - c[which]).min(axis=1) < SAME_POINT
        return near | (error[which] <= self.enough(which))

    def next_point(self, c: np.ndarray, root: np.ndarray) -> np.ndarray:
        """The root, unless it was asked about: then a point beyond it, so that there is one on either side."""
        near = np.abs(root[:, None] - c).min(axis=1) < SAME_POINT
        return np.where(near, root + np.sign(c[:, 0] - c[:, 1]) * LEAST_STEP / 2, root)

    def enough(self, which: np.ndarray) -> np.ndarray:
        """No better than what the noise of an answer makes of c anyway."""
        return np.maximum(self.noise / self.pace[which], 2.0**-52)

    def estimate(self, which: np.ndarray, c: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The root by inverse interpolation, or a secant where that runs away, and how far it may be off.

        The reference shows the slope at the root itself. A step from the best point with that slope goes to the same
        place where the answer is smooth; where it has a kink in between, the difference is the error.
        """
        c, f = c[:, -KEPT:], f[:, -KEPT:]
        secant = inverse_interpolation(c[:, -2:], f[:, -2:])
        curved = inverse_interpolation(c, f)
        root = self.inside(np.where(np.abs(curved - c[:, -1]) <= 2 * np.abs(secant - c[:, -1]), curved, secant))
        fixed, moved = self.rates(root, self.curve.score(root))
        best = np.abs(f).argmin(axis=1)[:, None]
        c_best, f_best = (np.take_along_axis(array, best, axis=1)[:, 0] for array in (c, f))
        with np.errstate(divide="ignore", invalid="ignore"):
            other = c_best - f_best * fixed / (moved * self.pace[which])
            slope_error = 4 * self.step + self.noise / (self.step * self.pace[which])
        root = np.where(f_best == 0, c_best, root)
        error = np.abs(root - other) + slope_error * np.abs(root - c_best)
        return root, np.where(np.isfinite(error), error, np.inf)
