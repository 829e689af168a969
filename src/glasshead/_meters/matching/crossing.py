"""Scores from yes and no: where along a line the answer changes, for sequences with one and with two copies.

Both change where the attention output crosses the same point, so the two places are a pair of sequences that would be
answered alike; a third one, with three copies, must change where the score found says it does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ..._linalg import LEAST_DIVISOR
from ..._oracles import Oracle
from ..._types import Float
from .curve import Copies, derivative
from .match import Matched
from .meter import MatchingMeter, Ruler

RUNGS_AHEAD = 2.0 ** np.arange(-3.0, 5.0)  # of the distance expected: where to look for a change
THIRD_COPY = 0.01  # how near to the place predicted a sequence with three copies must change
COPY_HALVINGS = 60
TOKEN_ROUNDINGS = 4.0  # of the longest token sent: how far rounding may move a change of the answer
FLICKER_SAFETY = 4.0  # times the distance at which answers were seen to flicker
FLICKER_NEAR = 2.0**-10  # how far from a change a flicker is looked for
PROBES_AT_ONCE = 2**14  # probes bisected side by side


class Crossings(Ruler):
    """Measures scores by where answers change, to `bits` bits.

    `normal` is a direction that leads from one side to the other, the change being about `distance` away. `flicker` is
    how near to a change answers were seen to be wrong, of the length of the probe.
    """

    rounds = 6

    def __init__(self, oracle: Oracle, normal: np.ndarray, distance: float, bits: int, rng: np.random.Generator):
        super().__init__(oracle, Copies(), 0.0, 2.0**-bits, rng)
        self.normal, self.distance, self.bits, self.side = normal, distance, bits, False
        self.flicker = 0.0

    def with_bits(self, bits: int) -> Crossings:
        finer = Crossings(self.oracle, self.normal, self.distance, bits, self.rng)
        finer.side, finer.flicker = self.side, self.flicker
        return finer

    def find_flicker(self, q: np.ndarray, u: np.ndarray) -> None:
        """Noise before the sign is taken shows as answers that change more than once."""
        here, turn, expected = self.find_direction(q, u)
        u = turn[:, None] * u
        low, high, found = self.find_rung(q, u, here, expected)
        low, high = self.find_change(q, u, here, low, high, 2)
        offsets = FLICKER_NEAR * 0.25 ** np.arange(max(1, (self.bits - 10) // 2))
        before = np.stack([self.read_yes(q, u, low * (1 - off), 2) == here for off in offsets])
        after = np.stack([self.read_yes(q, u, high * (1 + off), 2) != here for off in offsets])
        steady = (before & after)[:, found].all(axis=1)
        self.flicker = max(self.flicker, float(np.max(offsets[~steady], initial=0.0)))

    def partner(self, u: np.ndarray) -> np.ndarray:
        """A direction towards the other side, and a little off."""
        off = self.rng.standard_normal(u.shape) / np.sqrt(u.shape[1])
        return (self.normal + 0.3 * off) * row_lengths(u)[:, None]

    def adjust_reach(self, asked: int, failed: int) -> None:
        """Nothing: the length of a probe follows from where answers change."""

    def read_yes(self, q: np.ndarray, u: np.ndarray, length: np.ndarray, copies: int) -> np.ndarray:
        token = q + length[:, None] * u
        return np.asarray(self.oracle(np.stack([token] * copies + [q], axis=1)), bool)

    def read_matches(self, q: Float[np.ndarray, "n d"], u: Float[np.ndarray, "n d"]) -> Matched:
        parts = [
            self.read_block(q[k : k + PROBES_AT_ONCE], u[k : k + PROBES_AT_ONCE])
            for k in range(0, len(q), PROBES_AT_ONCE)
        ]
        s, error, good, far = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("s", "error", "good", "far")
        )
        return Matched(s, error, good, far, 0.0)

    def read_block(self, q: np.ndarray, u: np.ndarray) -> Matched:
        here, turn, expected = self.find_direction(q, u)
        u = turn[:, None] * u
        low, high, found = self.find_rung(q, u, here, expected)
        low, high = self.find_change(q, u, here, low, high, 2)
        blur = self.blur(q, u, high)
        two, two_width = (low + high) / 2, high - low + blur
        near, far = (end * two for end in self.curve.range)
        ends = [self.read_yes(q, u, end, 1) == here for end in (near, far)]
        within = found & ends[0] & ~ends[1]
        low, high = self.find_change(q, u, here, near, far, 1)
        one, one_width = (low + high) / 2, high - low + blur
        with np.errstate(invalid="ignore", divide="ignore"):
            s = self.curve.score(one / two)
            error = (
                np.abs(derivative(self.curve.score, one / two)) * (one_width + two_width * one / two) / two
                + np.abs(s) * two_width / two
            )
        far_out = found & (~within | (np.abs(s) > self.curve.limit))
        good = within & ~far_out & self.check_third_copy(q, u, here, two, s)
        return Matched(turn * s / two, error / two, good, far_out, 0.0)

    def find_direction(self, q: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The answers at q, whether u or -u leads to the other one, and about how far that is."""
        rows, of = np.unique(q, axis=0, return_inverse=True)
        here = np.asarray(self.oracle(rows[:, None]), bool)[of.reshape(-1)]
        lean = u @ self.normal
        turn = np.where((lean < 0) == (here == self.side), -1.0, 1.0)
        return here, turn, self.distance / np.maximum(np.abs(lean), LEAST_DIVISOR)

    def blur(self, q: np.ndarray, u: np.ndarray, length: np.ndarray | float) -> np.ndarray:
        """How far along u the rounding of tokens that long, and noise, may move a change of the answer."""
        return (
            TOKEN_ROUNDINGS * self.oracle.roundoff * (row_lengths(q) / row_lengths(u) + length)
            + FLICKER_SAFETY * self.flicker * length
        )

    def find_rung(self, q, u, here, expected) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first rung at which the answer has changed, the one before it, and whether there is one."""
        rungs = np.minimum(RUNGS_AHEAD[:, None] * expected, self.longest(q, u))
        changed = np.stack([self.read_yes(q, u, rung, 2) != here for rung in rungs])
        first = changed.argmax(axis=0)
        high = np.take_along_axis(rungs, first[None], axis=0)[0]
        low = np.where(first > 0, np.take_along_axis(rungs, np.maximum(first - 1, 0)[None], axis=0)[0], 0.0)
        return low, high, np.asarray(changed.any(axis=0))

    def longest(self, q: np.ndarray, u: np.ndarray) -> np.ndarray:
        """How many times u a probe may be, such that twice its length, which one copy may take, may still be sent."""
        return (self.oracle.reach - row_lengths(q)) / (2 * row_lengths(u))

    def find_change(self, q, u, here, low, high, copies: int) -> tuple[np.ndarray, np.ndarray]:
        for _ in range(self.bits):
            middle = (low + high) / 2
            before = self.read_yes(q, u, middle, copies) == here
            low, high = np.where(before, middle, low), np.where(before, high, middle)
        return low, high

    def check_third_copy(self, q, u, here, two, s) -> np.ndarray:
        """Whether three copies change where they should."""
        s = np.clip(np.nan_to_num(s), -1.0, 1.0)
        low, high, goal = np.full(len(s), 0.5), np.ones(len(s)), expit(s + np.log(2))
        for _ in range(COPY_HALVINGS):
            middle = (low + high) / 2
            below = middle * expit(middle * s + np.log(3)) < goal
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        place = two * low
        before, after = (self.read_yes(q, u, place * (1 + off), 3) == here for off in (-THIRD_COPY, THIRD_COPY))
        return before & ~after


def row_lengths(x: np.ndarray) -> np.ndarray:
    return np.maximum(np.linalg.norm(x, axis=-1), LEAST_DIVISOR)


EARLIER_ERRORS = 8.0  # times the errors of new scores: what those of earlier columns, combined, may look like


@dataclass(frozen=True)
class SignMatchingMeter(MatchingMeter):
    """A `MatchingMeter` that sees only directions with a part along `ruler.normal`, as others see only along v."""

    ruler: Crossings

    @property
    def axis(self) -> Float[np.ndarray, " d"]:
        return self.ruler.normal

    def likely(self, noise: float) -> float:
        return EARLIER_ERRORS * noise

    def no_longer_than(self, score: float) -> SignMatchingMeter:
        """The length of a probe follows from where answers change."""
        return self
