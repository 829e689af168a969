"""The box as a positively homogeneous function, `F(s X) = s F(X)` for s > 0, which all that follows learns.

A network without biases is one as it is (`Plain`); one with biases becomes one with a coordinate more, `F(x, t) =
t f(x / t)` (`Lifted`). Either way a two-dimensional slice is a circle's worth of angles.

Every absolute tolerance of the learner stands here, too. Answers are exact or noisy, and `scale.AnswerNoise` measures
which; what can be a multiple of the measured level is one, where it is used. The numbers that are not are relative to
the quantity that the comment names, chosen for float64; docs/constants.md shows what becomes of boxes where one of them
is ten times smaller or larger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._oracles import Oracle
from .._types import Float

# Reading
NOISE_STRETCH = 3e-5  # of a point's length: four points this far apart tell noise; a kink is between them as rarely
EXACT_ANSWERS = 1e-12  # of the largest answer: a level up to this is double precision, or as good
NARROWEST = 1e-11  # radians: double precision cannot tell kinks closer than this apart
NEAREST_TO_CROSSING = 1e-6  # of the shorter line: nothing is asked closer to a crossing than that
FROM_INFINITY = 1e-6  # radians: a line is followed to 10^6 radii, kinks beyond that are not looked for
LADDER_RIPPLE = 0.02  # of the largest change between rungs: a change too small to come from kinks that matter
LADDER_ROUNDING = 1e-8  # of the slope: a change too small to come from any kink

# Learning
INDEPENDENT = 1e-6  # of the largest singular value of the normalised jumps
WHOLE_MULTIPLE = 1e-9  # a multiple this near to 1 or -1 is a sign, where the jumps are known better than that
GOAL = 1e-11  # of the typical answer: what the errors of the gradients may add up to before some are repaired
GROSS = 1e-6  # of the largest answer: more is no rounding, some step crossed a hyperplane
BEYOND_REPAIR, BEYOND_REPAIR_NOISY = 1e-3, 0.3  # of the largest answer: from errors like these no repair comes back
LSQR = 1e-9  # relative errors of the system and of its right-hand side, for scipy's lsqr

# Checking
ACCEPTED = 1e-9  # of the largest answer, at every length of input: what `gh.recover_relu` promises for exact answers
ACCEPTED_NOISES, LARGEST_RESIDUAL = 100.0, 1e-3  # or so many noise levels, but never more than this of the largest
ACCEPTED_NOISY = 1e-5  # of the largest answer at an input's length, noise apart
CANCELLED = 1e-11  # of the sum of the neurons' sizes: where they cancel, this much is left of their own errors
EXCUSED = 1e-5  # of the largest answer at a length: no rounding excuses more
DEPENDENT_NORMALS = 1e-3  # of the largest singular value: directions that neurons see less are left to chance

Seen = tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n"], Float[np.ndarray, "n"]]  # inputs, answers, their noise


@dataclass(frozen=True)
class HalfCircle:
    """The half circle `cos(angle) a + sin(angle) b` from `low` to `high`, and directions `V` that lead out of it."""

    a: Float[np.ndarray, "D"]
    b: Float[np.ndarray, "D"]
    V: Float[np.ndarray, "D out"]
    low: float
    high: float
    closes: bool  # whether the other half may be asked about too

    def middles(
        self, low: Float[np.ndarray, "n"], high: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """A point on each arc, and how far from it the kinks at the ends are as directions out of the plane see them.

        On a line in input space these directions resemble b, not a: what counts is the angle after a has been scaled
        so that half of the kinks lie before 45 degrees.
        """
        if self.closes:
            return (low + high) / 2, np.sin(np.minimum(high - low, np.pi / 2) / 2)
        scale = np.median(np.abs(np.tan(high[:-1]))) if len(high) > 1 else 1.0
        low, high = (np.arctan(np.tan(angle) / scale) for angle in (low, high))
        angle = np.arctan(scale * np.tan((low + high) / 2))
        longer = np.hypot(scale * np.cos(angle), np.sin(angle))
        return angle, longer * np.sin(np.minimum(high - low, np.pi / 2) / 2)

    def at(self, angles: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n D"]:
        return np.outer(np.cos(angles), self.a) + np.outer(np.sin(angles), self.b)


class Homogeneous(ABC):
    """A positively homogeneous function in `dim` coordinates, with random points and circles to ask about."""

    box: Oracle
    dim: int
    seen: list[Seen]  # by the last check so far
    known: dict[str, Any]  # what a `BudgetExceeded` carries

    @abstractmethod
    def __call__(self, X: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n"]: ...

    def ask(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """What the box answers to inputs of its own."""
        return self.box(x[:, None])

    @abstractmethod
    def input(self, X: Float[np.ndarray, "D"]) -> Float[np.ndarray, "1 d"]:
        """What the box was asked for this point."""

    @abstractmethod
    def points(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n D"]: ...

    @abstractmethod
    def directions(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n D"]: ...

    @abstractmethod
    def circle(self, rng: np.random.Generator) -> HalfCircle: ...


class Plain(Homogeneous):
    """A box without biases, asked at `scale` times the point: where answers are rounded, large ones lose less."""

    def __init__(self, box: Oracle, scale: float = 1.0):
        self.box, self.dim, self.scale, self.seen, self.known = box, box.dim, scale, [], {}

    def __call__(self, X):
        return self.ask(self.scale * X) / self.scale

    def input(self, X):
        return self.scale * X[None]

    def points(self, n, rng):
        return rng.standard_normal((n, self.dim)) / np.sqrt(self.dim)

    def directions(self, n, rng):
        return self.points(n, rng)

    def circle(self, rng):
        basis = np.linalg.qr(rng.standard_normal((self.dim, self.dim)))[0]
        low = rng.uniform(0, np.pi)
        return HalfCircle(basis[:, 0], basis[:, 1], basis[:, 2:], low, low + np.pi, closes=True)


class Lifted(Homogeneous):
    """A box with biases, in units of `radius`: near that far from 0 its kinks are."""

    def __init__(self, box: Oracle, radius: float = 1.0):
        self.box, self.dim, self.radius, self.seen, self.known = box, box.dim + 1, radius, [], {}
        self.spread = 1.0  # how many radii away the kinks turn out to be

    def __call__(self, X):
        t = X[:, -1]
        return t * self.ask(self.radius * X[:, :-1] / t[:, None])

    def input(self, X):
        return self.radius * X[None, :-1] / X[-1]

    def note(self, kinks):
        """Ask as far out as the kinks on a circle turned out to be."""
        self.spread = max(1.0, float(np.median(np.abs(np.tan(kinks))))) if len(kinks) else 1.0

    def points(self, n, rng):
        """Points near 0, about a radius away, and far out, in turn."""
        distance = self.spread * np.resize([1.0, 0.1, 1.0, 10.0], n)[:, None]
        X = np.c_[distance * rng.standard_normal((n, self.dim - 1)), np.ones(n)]
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    def directions(self, n, rng):
        """Directions along which t stays as it is."""
        return np.c_[rng.standard_normal((n, self.dim - 1)) / np.sqrt(self.dim - 1), np.zeros(n)]

    def circle(self, rng):
        """A line in input space: all its points, and the infinitely far one at either end."""
        d = self.dim - 1
        frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
        start = np.append(rng.standard_normal(d), 1.0)
        flat = np.vstack([frame, np.zeros(d)])
        a = start / np.linalg.norm(start)
        return HalfCircle(
            a, flat[:, 0], flat[:, 1:], -np.pi / 2 + FROM_INFINITY, np.pi / 2 - FROM_INFINITY, closes=False
        )
