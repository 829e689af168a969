"""The first look at a box: does it have biases, at which scale do its kinks lie, and how noisy is it there.

Without biases `f(s u) / s` is the same at every length s, and any scale will do. With them f is made homogeneous with
one coordinate more, `F(x, t) = t f(x / t)`, in units of the radius of the kinks: a ladder of lengths finds it. Noise is
measured by third differences over a stretch too short for a kink: on a straight line inside one linear piece they
vanish, and for a smooth function they are of third order in the step, so that curvature is not mistaken for noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .._errors import NotConverged
from .._oracles import Oracle
from .._types import Float
from .homogeneous import EXACT_ANSWERS, LADDER_RIPPLE, LADDER_ROUNDING, NOISE_STRETCH, Homogeneous, Lifted, Plain, Seen

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


def read_noise_level(g: Homogeneous, rng: np.random.Generator, n: int = FEW_STRETCHES) -> AnswerNoise:
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


Biases = bool | Literal["auto"]
NoisyView = tuple[Homogeneous, AnswerNoise]

LADDER_STEP = 10.0
LADDER_NOISES = 12.0  # a change has the noise of three answers on either rung, and that five times is none
LADDER_RUNGS = LADDER_STEP ** np.arange(-4, 5)


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
        """What was seen, for a last check of what is learned; nothing tells how noisy these answers are."""
        answers = np.r_[self.zero, self.up, self.down]
        return ladder_inputs(self.u), answers, np.zeros(len(answers))

    @property
    def radius(self) -> float:
        """Where `f(su) + f(-su) - 2 f(0)`, over s, changes most: it goes from 0 to its limit as s passes kinks."""
        bent = np.r_[0.0, (self.up + self.down - 2 * self.zero) / LADDER_RUNGS]
        change = np.abs(np.diff(bent))
        slope = max(abs(self.up[-1]), abs(self.down[-1])) / LADDER_RUNGS[-1]
        change[change <= max(LADDER_RIPPLE * np.abs(bent).max(), LADDER_ROUNDING * max(slope, abs(self.zero)))] = 0.0
        change[change <= LADDER_NOISES * self.noise * (1 + LADDER_STEP) / LADDER_RUNGS] = 0.0
        change[0] = 0.0  # kinks through 0 say nothing about a length
        total = change.sum()
        return float(np.exp(change @ np.log(LADDER_RUNGS / np.sqrt(LADDER_STEP)) / total)) if total > 0 else 1.0

    def is_homogeneous(self, noise: float) -> bool:
        """Whether `f(su) / s` is the same on every rung, for answers that may be `noise` off at the radius."""
        per_length = np.array([self.up, self.down]) / LADDER_RUNGS
        allowed = noise * np.maximum(1 / self.radius, 1 / LADDER_RUNGS) + ULPS * np.abs(per_length).max()
        return bool(np.all(np.abs(per_length - per_length[:, -1:]) <= allowed) and abs(self.zero) <= noise)


def read_ladder(box: Oracle, rng: np.random.Generator) -> Ladder:
    u = rng.standard_normal(box.dim)
    answers = box(ladder_inputs(u)[:, None])
    return Ladder(float(answers[0]), answers[1 : 1 + len(LADDER_RUNGS)], answers[1 + len(LADDER_RUNGS) :], u)


def ladder_inputs(u: Float[np.ndarray, "d"]) -> Float[np.ndarray, "n d"]:
    return np.vstack([np.zeros(len(u)), np.outer(LADDER_RUNGS, u), np.outer(-LADDER_RUNGS, u)])


LONGEST_POINT = 8.0  # no point that is asked about is longer, where all scales are alike
LARGE_SCALE = 2.0**30  # rounding to a fixed number of decimals is harmless at this scale


def find_view(box: Oracle, biases: Biases, rng: np.random.Generator) -> NoisyView:
    """The box as a homogeneous function at the scale where its kinks are, and how noisy it is there."""
    if box.max_norm is not None:
        return find_view_within(box, box.max_norm, biases, rng)
    if biases is False:
        return find_least_noisy(box, read_noise_level(Plain(box), rng), rng)
    ladder = read_ladder(box, rng)
    lifted = Lifted(box, ladder.radius)
    noise = read_noise_level(lifted, rng)
    if not noise.exact:  # which on the lower rungs looks like kinks
        ladder = replace(ladder, noise=noise.level)
        lifted = Lifted(box, ladder.radius)
        noise = read_noise_level(lifted, rng)
    allowed = noise.sigmas * noise.level * np.sqrt(lifted.dim)  # the ladder's points are that much longer
    if biases == "auto" and ladder.is_homogeneous(float(allowed)):
        return find_least_noisy(box, noise, rng)
    if noise.exact:
        lifted.seen.append(ladder.seen)
    return lifted, noise


def find_least_noisy(box: Oracle, noise: AnswerNoise, rng: np.random.Generator) -> NoisyView:
    """The scale at which answers are rounded least: all are alike otherwise where there are no biases."""
    if noise.exact:
        return Plain(box), noise
    plain, large = (read_noise_level(Plain(box, scale), rng, MANY_STRETCHES) for scale in (1.0, LARGE_SCALE))
    return (Plain(box, LARGE_SCALE), large) if large.level < plain.level / 10 else (Plain(box), plain)


def find_view_within(box: Oracle, max_norm: float, biases: Biases, rng: np.random.Generator) -> NoisyView:
    """The view of a box that takes no inputs longer than `max_norm`; with biases it is refused."""
    plain = Plain(box, max_norm / LONGEST_POINT)
    noise = read_noise_level(plain, rng)
    X = plain.points(4, rng)
    there, half = plain(X), 2 * plain(X / 2)
    if biases is True or np.abs(there - half).max() > noise.sigmas * noise.level:
        raise NotConverged(
            f"the network has biases, and so kinks that inputs up to max_norm = {max_norm:g} may not reach; "
            "without max_norm it could be learned"
        )
    return plain, noise
