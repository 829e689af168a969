"""A first guess where heads are many: every jump of a circle of saturated keys, looked at closely.

At the right length of keys a jump is a head turning on, slowly: on its own hyperplane, with all others saturated, its
weight is `(y - left) / (right - left)` between the linear pieces on both sides, and scores are read like those of a
single head.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from ...._errors import NotConverged
from ...._linalg import random_rotation
from ...._meters import SumOfHeads
from ...._types import Float
from ..saturated import Bracket, KeyCircle, arcs, find_circle, read_gradients
from .even import EvenPart
from .pairs import READABLE_WEIGHT, Pairs

JUMP_SHARE = 1e-3  # of the way to the next jump: within that, the others stay saturated while keys get shorter
LENGTH_SHRINK = 4.0
JUMP_TRIES = 80
BACK = -3.0  # a step that went too far is taken the other way, and shorter


class Jump:
    """One jump: the linear pieces on its sides, and where it is."""

    def __init__(self, circle: KeyCircle, bracket: Bracket, sides: tuple[np.ndarray, np.ndarray], next_one: float):
        self.circle, self.lo, self.hi, self.next_one = circle, bracket.lo, bracket.hi, next_one
        self.left, self.right = sides

    def read_weights(self, Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as sent, and the weight of the head there."""
        sent, y = self.circle.saturated.box.read(Z, self.circle.saturated.q)
        before, after = sent @ self.left, sent @ self.right
        if (before == after).any():
            raise NotConverged("a jump of nothing")
        return sent, (y - before) / (after - before)

    def read_weight(self, angle: float, length: float) -> float:
        return float(self.read_weights(length * self.circle.points(np.array([angle])))[1][0])

    def read_key(self, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
        """The head's key, pointing to where it is on."""
        angle, length, slope = self.find_middle()
        centre, frame = length * self.circle.points(np.array([angle]))[0], random_rotation(len(self.left), rng)
        far, Z, weight = np.full(len(frame), 0.5 / abs(slope)), np.zeros_like(frame), np.zeros(len(frame))
        open_ = np.arange(len(frame))
        for _ in range(JUMP_TRIES):
            Z[open_], weight[open_] = self.read_weights(centre + far[open_, None] * frame[open_])
            open_ = open_[(weight[open_] < READABLE_WEIGHT) | (weight[open_] > 1 - READABLE_WEIGHT)]
            if len(open_) == 0:
                return np.linalg.solve(Z, logit(weight))
            far[open_] /= BACK
        raise NotConverged("a head that turns on where no key around is half on")

    def find_middle(self) -> tuple[float, float, float]:
        """The angle where the head is half on, a length of keys that shows it, and the slope of its score per length
        of the key."""
        length, angle, weight = self.circle.saturated.length, (self.lo + self.hi) / 2, 0.0
        for _ in range(JUMP_TRIES):
            angle = (self.lo + self.hi) / 2
            weight = self.read_weight(angle, length)
            if READABLE_WEIGHT < weight < 1 - READABLE_WEIGHT:
                break
            self.lo, self.hi = (angle, self.hi) if weight < 0.5 else (self.lo, angle)
            if self.hi - self.lo < JUMP_SHARE * self.next_one:
                length /= LENGTH_SHRINK
        else:
            raise NotConverged("a jump at which no head turns on")
        return self.find_by_secant(angle, length, float(logit(weight)))

    def find_by_secant(self, angle: float, length: float, score: float) -> tuple[float, float, float]:
        step, slope = -np.copysign((self.hi - self.lo) / 8, score), np.nan
        for _ in range(JUMP_TRIES):
            weight = self.read_weight(angle + step, length)
            if not READABLE_WEIGHT < weight < 1 - READABLE_WEIGHT:
                step /= 2
                continue
            new = float(logit(weight))
            if new == score:
                break
            slope = (new - score) / step
            angle, score, step = angle + step, new, -new / slope
            if abs(score) < 0.5:
                return angle, length, slope / length
        raise NotConverged("a head whose score is not linear where it turns on")


def find_pairs_by_jumps(box: SumOfHeads, rng: np.random.Generator) -> tuple[EvenPart, Pairs]:
    """All heads at one query token."""
    circle, brackets = find_circle(box, rng)
    if len(brackets) < 2:
        raise NotConverged("very long keys show no heads")
    box.oracle.stage = "reading v of every head"
    sides, _ = read_gradients(circle, brackets, rng)
    widths = [2 * arc.half for arc in arcs(brackets)]
    widths.append(widths[0])
    box.oracle.stage = "looking at every head's own hyperplane"
    K = np.array(
        [
            Jump(circle, bracket, (sides[h], sides[h + 1]), min(widths[h : h + 2])).read_key(rng)
            for h, bracket in enumerate(brackets)
        ]
    )
    V = np.diff(sides, axis=0)
    return EvenPart(box, circle.saturated.q, float(np.linalg.norm(V))), Pairs(K, V)
