"""Are there biases, and how far from 0 do they put the kinks? One ladder of inputs on a line through 0 tells both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float
from .box import Box
from .homogeneous import Seen
from .noise import ULPS

STEP = 10.0
RIPPLE, ROUNDING = 0.02, 1e-8  # changes too small to come from a kink that matters, or from any
NOISES = 12.0  # a change has the noise of three answers on either rung, and that five times is none
RUNGS = STEP ** np.arange(-4, 5)


@dataclass(frozen=True)
class Ladder:
    """Answers at 0 and at `± rung u` for one random u of the length of a Gaussian vector."""

    zero: float
    up: Float[np.ndarray, "rungs"]
    down: Float[np.ndarray, "rungs"]
    u: Float[np.ndarray, "d"]
    noise: float = 0.0  # standard deviation of an answer

    @property
    def seen(self) -> Seen:
        """For a last check of what is learned; where answers are noisy, nothing tells how noisy these are."""
        answers = np.r_[self.zero, self.up, self.down]
        return inputs(self.u), answers, np.zeros(len(answers))

    @property
    def radius(self) -> float:
        """Where `f(su) + f(-su) - 2 f(0)`, over s, changes most: it goes from 0 to its limit as s passes kinks."""
        bent = np.r_[0.0, (self.up + self.down - 2 * self.zero) / RUNGS]
        change = np.abs(np.diff(bent))
        slope = max(abs(self.up[-1]), abs(self.down[-1])) / RUNGS[-1]
        change[change <= max(RIPPLE * np.abs(bent).max(), ROUNDING * max(slope, abs(self.zero)))] = 0.0
        change[change <= NOISES * self.noise * (1 + STEP) / RUNGS] = 0.0
        change[0] = 0.0  # kinks through 0 say nothing about a length
        return float(np.exp(change @ np.log(RUNGS / np.sqrt(STEP)) / change.sum())) if change.sum() > 0 else 1.0

    def is_homogeneous(self, noise: float) -> bool:
        """Whether `f(su) / s` is the same on every rung, for answers that may be `noise` off at the radius."""
        per_length = np.array([self.up, self.down]) / RUNGS
        allowed = noise * np.maximum(1 / self.radius, 1 / RUNGS) + ULPS * np.abs(per_length).max()
        return bool(np.all(np.abs(per_length - per_length[:, -1:]) <= allowed) and abs(self.zero) <= noise)


def climb(box: Box, rng: np.random.Generator) -> Ladder:
    u = rng.standard_normal(box.dim)
    answers = box(inputs(u))
    return Ladder(float(answers[0]), answers[1 : 1 + len(RUNGS)], answers[1 + len(RUNGS) :], u)


def inputs(u: Float[np.ndarray, "d"]) -> Float[np.ndarray, "n d"]:
    return np.vstack([np.zeros(len(u)), np.outer(RUNGS, u), np.outer(-RUNGS, u)])
