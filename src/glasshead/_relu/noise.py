"""How noisy the answers are, measured: third differences over a stretch too short for a kink.

On a straight line inside one linear piece they vanish, and for a smooth function they are of third order in the step,
so that curvature is not mistaken for noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._types import Float
from .homogeneous import Homogeneous
from .tolerances import EXACT_ANSWERS, NOISE_STRETCH

FEW_STRETCHES, MANY_STRETCHES = 3, 24
NOISE_CAUTION = 1.5  # few samples, and the largest left out
THIRD = np.array([-1.0, 3.0, -3.0, 1.0])
GAIN = np.sqrt(20.0)  # of these weights
ULPS = 4 * float(np.finfo(float).eps)  # of the largest answer: no box adds up its neurons better than this


@dataclass(frozen=True)
class AnswerNoise:
    """The standard deviation of an answer's error at points of length 1, and the largest answer seen."""

    measured: float
    largest: float

    @property
    def level(self) -> float:
        return max(self.measured, ULPS * self.largest)

    @property
    def exact(self) -> bool:
        return self.level <= EXACT_ANSWERS * self.largest

    @property
    def sigmas(self) -> float:
        """A disagreement this many levels wide is not noise. Where digits are plenty, one more costs nothing."""
        return 8.0 if self.exact else 5.0

    @property
    def companion(self) -> float:
        """How far from a sample its companion lies, over the gap: near enough to share its arc, far enough to see."""
        return 0.03 if self.exact else 0.15

    def with_answers(self, y: Float[np.ndarray, "n"]) -> AnswerNoise:
        return replace(self, largest=max(self.largest, float(np.abs(y).max(initial=0.0))))


def read_answer_noise(g: Homogeneous, rng: np.random.Generator, n: int = FEW_STRETCHES) -> AnswerNoise:
    """`4 n` queries; a few more where one of them shows noise, many more where it was not just a kink in the way."""
    differences, largest = read_third_differences(g, n, rng)
    for more in (FEW_STRETCHES, MANY_STRETCHES):
        noisy = np.count_nonzero(differences > EXACT_ANSWERS * GAIN * largest)
        if noisy == 0 or (noisy == 1 and len(differences) > FEW_STRETCHES) or len(differences) >= MANY_STRETCHES:
            break
        extra, larger = read_third_differences(g, more, rng)
        differences, largest = np.r_[differences, extra], max(largest, larger)
    differences = np.sort(differences)[: -(1 + len(differences) // 10)]  # the largest may straddle a kink
    return AnswerNoise(NOISE_CAUTION * float(np.sqrt(np.mean(differences**2)) / GAIN), largest)


def read_third_differences(g: Homogeneous, n: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    X, ahead = g.points(n, rng), g.directions(n, rng)
    stretch = X[:, None] + NOISE_STRETCH * np.arange(4)[None, :, None] * ahead[:, None]
    answers = g(stretch.reshape(4 * n, g.dim)).reshape(n, 4)
    return np.abs(answers @ THIRD), float(np.abs(answers).max())
