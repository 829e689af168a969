"""The first look at a box: does it have biases, at which scale do its kinks lie, and how noisy is it there.

Without biases `f(s u) / s` is the same at every length s, and any scale will do. With them f is made homogeneous with
one coordinate more, `F(x, t) = t f(x / t)`, in units of the radius of the kinks: a ladder of lengths finds it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .._errors import NotConverged
from .._types import Float
from .homogeneous import CountedBox, Homogeneous, Lifted, Plain, Seen
from .noise import MANY_STRETCHES, ULPS, AnswerNoise, read_answer_noise
from .tolerances import LADDER_RIPPLE, LADDER_ROUNDING

Biases = bool | Literal["auto"]
View = tuple[Homogeneous, AnswerNoise]

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
        """For a last check of what is learned; where answers are noisy, nothing tells how noisy these are."""
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
        return (
            float(np.exp(change @ np.log(LADDER_RUNGS / np.sqrt(LADDER_STEP)) / change.sum()))
            if change.sum() > 0
            else 1.0
        )

    def is_homogeneous(self, noise: float) -> bool:
        """Whether `f(su) / s` is the same on every rung, for answers that may be `noise` off at the radius."""
        per_length = np.array([self.up, self.down]) / LADDER_RUNGS
        allowed = noise * np.maximum(1 / self.radius, 1 / LADDER_RUNGS) + ULPS * np.abs(per_length).max()
        return bool(np.all(np.abs(per_length - per_length[:, -1:]) <= allowed) and abs(self.zero) <= noise)


def read_ladder(box: CountedBox, rng: np.random.Generator) -> Ladder:
    u = rng.standard_normal(box.dim)
    answers = box(ladder_inputs(u))
    return Ladder(float(answers[0]), answers[1 : 1 + len(LADDER_RUNGS)], answers[1 + len(LADDER_RUNGS) :], u)


def ladder_inputs(u: Float[np.ndarray, "d"]) -> Float[np.ndarray, "n d"]:
    return np.vstack([np.zeros(len(u)), np.outer(LADDER_RUNGS, u), np.outer(-LADDER_RUNGS, u)])


LONGEST_POINT = 8.0  # no point that is asked about is longer, where all scales are alike
LARGE_SCALE = 2.0**30  # rounding to a fixed number of decimals is harmless at this scale


def find_view(box: CountedBox, biases: Biases, rng: np.random.Generator) -> View:
    """The box as a homogeneous function at the scale where its kinks are, and how noisy it is there."""
    if box.max_norm is not None:
        return find_view_within(box, box.max_norm, biases, rng)
    if biases is False:
        return find_least_noisy(box, read_answer_noise(Plain(box), rng), rng)
    ladder = read_ladder(box, rng)
    lifted = Lifted(box, ladder.radius)
    noise = read_answer_noise(lifted, rng)
    if not noise.exact:  # which on the lower rungs looks like kinks
        ladder = replace(ladder, noise=noise.level)
        lifted = Lifted(box, ladder.radius)
        noise = read_answer_noise(lifted, rng)
    allowed = noise.sigmas * noise.level * np.sqrt(lifted.dim)  # the ladder's points are that much longer
    if biases == "auto" and ladder.is_homogeneous(float(allowed)):
        return find_least_noisy(box, noise, rng)
    if noise.exact:
        lifted.seen.append(ladder.seen)
    return lifted, noise


def find_least_noisy(box: CountedBox, noise: AnswerNoise, rng: np.random.Generator) -> View:
    """Without biases all scales are alike, except for how the answers are rounded."""
    if noise.exact:
        return Plain(box), noise
    plain, large = (read_answer_noise(Plain(box, scale), rng, MANY_STRETCHES) for scale in (1.0, LARGE_SCALE))
    return (Plain(box, LARGE_SCALE), large) if large.level < plain.level / 10 else (Plain(box), plain)


def find_view_within(box: CountedBox, max_norm: float, biases: Biases, rng: np.random.Generator) -> View:
    """The view of a box that takes no inputs longer than `max_norm`; with biases it is refused."""
    plain = Plain(box, max_norm / LONGEST_POINT)
    noise = read_answer_noise(plain, rng)
    X = plain.points(4, rng)
    there, half = plain(X), 2 * plain(X / 2)
    if biases is True or np.abs(there - half).max() > noise.sigmas * noise.level:
        raise NotConverged(
            f"the network has biases, and so kinks that inputs up to max_norm = {max_norm:g} may not reach; "
            "without max_norm it could be learned"
        )
    return plain, noise
