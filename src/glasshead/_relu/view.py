"""How noisy the answers are, measured: third differences over a stretch too short for a kink.

On a straight line inside one linear piece they vanish, and for a smooth function they are of third order in the step,
so that curvature is not mistaken for noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._errors import NotConverged
from .._types import Float
from .homogeneous import Box, Homogeneous, Lifted, Plain, Seen

STRETCH = 3e-5  # of the point's length
FEW, MANY = 3, 24
CAUTION = 1.5  # few samples, and the largest left out
THIRD = np.array([-1.0, 3.0, -3.0, 1.0])
GAIN = np.sqrt(20.0)  # of these weights
EXACT = 1e-12  # of the answers: double precision, or as good
ULPS = 4 * float(np.finfo(float).eps)  # of the largest answer: no box adds up its neurons better than this


@dataclass(frozen=True)
class Noise:
    """The standard deviation of an answer's error at points of length 1, and the largest answer seen."""

    measured: float
    largest: float

    @property
    def level(self) -> float:
        return max(self.measured, ULPS * self.largest)

    @property
    def exact(self) -> bool:
        return self.level <= EXACT * self.largest

    @property
    def sigmas(self) -> float:
        """A disagreement this many levels wide is not noise. Where digits are plenty, one more costs nothing."""
        return 8.0 if self.exact else 5.0

    @property
    def companion(self) -> float:
        """How far from a sample its companion lies, over the gap: near enough to share its arc, far enough to see."""
        return 0.03 if self.exact else 0.15

    def with_answers(self, y: Float[np.ndarray, "n"]) -> Noise:
        return replace(self, largest=max(self.largest, float(np.abs(y).max(initial=0.0))))


def measure_noise(g: Homogeneous, rng: np.random.Generator, n: int = FEW) -> Noise:
    """`4 n` queries; a few more where one of them shows noise, many more where it was not just a kink in the way."""
    differences, largest = third_differences(g, n, rng)
    for more in (FEW, MANY):
        noisy = np.count_nonzero(differences > EXACT * GAIN * largest)
        if noisy == 0 or (noisy == 1 and len(differences) > FEW) or len(differences) >= MANY:
            break
        extra, larger = third_differences(g, more, rng)
        differences, largest = np.r_[differences, extra], max(largest, larger)
    differences = np.sort(differences)[: -(1 + len(differences) // 10)]  # the largest may straddle a kink
    return Noise(CAUTION * float(np.sqrt(np.mean(differences**2)) / GAIN), largest)


def third_differences(g: Homogeneous, n: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    X, ahead = g.points(n, rng), g.directions(n, rng)
    stretch = X[:, None] + STRETCH * np.arange(4)[None, :, None] * ahead[:, None]
    answers = g(stretch.reshape(4 * n, g.dim)).reshape(n, 4)
    return np.abs(answers @ THIRD), float(np.abs(answers).max())


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


LONGEST = 8.0  # no point that is asked about is longer, where all scales are alike
LARGE = 2.0**30  # rounding to a fixed number of decimals is harmless at this scale


def look(box: Box, biases, rng: np.random.Generator) -> tuple[Homogeneous, Noise]:
    """The box as a homogeneous function, and how noisy it is."""
    if box.max_norm is not None:
        return within(box, box.max_norm, biases, rng)
    if biases is False:
        return least_noisy(box, measure_noise(Plain(box), rng), rng)
    ladder = climb(box, rng)
    lifted = Lifted(box, ladder.radius)
    noise = measure_noise(lifted, rng)
    if not noise.exact:  # which on the lower rungs looks like kinks
        ladder = replace(ladder, noise=noise.level)
        lifted = Lifted(box, ladder.radius)
        noise = measure_noise(lifted, rng)
    allowed = noise.sigmas * noise.level * np.sqrt(lifted.dim)  # the ladder's points are that much longer
    if biases == "auto" and ladder.is_homogeneous(float(allowed)):
        return least_noisy(box, noise, rng)
    if noise.exact:
        lifted.seen.append(ladder.seen)
    return lifted, noise


def least_noisy(box: Box, noise: Noise, rng: np.random.Generator) -> tuple[Homogeneous, Noise]:
    """Without biases all scales are alike, except for how the answers are rounded."""
    if noise.exact:
        return Plain(box), noise
    plain, large = (measure_noise(Plain(box, scale), rng, MANY) for scale in (1.0, LARGE))
    return (Plain(box, LARGE), large) if large.level < plain.level / 10 else (Plain(box), plain)


def within(box: Box, max_norm: float, biases, rng: np.random.Generator) -> tuple[Homogeneous, Noise]:
    """The same with inputs no longer than `max_norm`: all scales are alike, or it cannot be done."""
    plain = Plain(box, max_norm / LONGEST)
    noise = measure_noise(plain, rng)
    X = plain.points(4, rng)
    there, half = plain(X), 2 * plain(X / 2)
    if biases is True or np.abs(there - half).max() > noise.sigmas * noise.level:
        raise NotConverged(
            f"the network has biases, and so kinks that inputs up to max_norm = {max_norm:g} may not reach; "
            "without max_norm it could be learned"
        )
    return plain, noise
