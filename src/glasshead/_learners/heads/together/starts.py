"""A first guess where heads are many: every jump of a circle of very long keys, looked at closely.

At the right length a jump is a head turning on, slowly: on its own hyperplane, with all others saturated, scores can be
read like those of a single head.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from ...._errors import NotConverged
from ...._linalg import random_rotation
from ...._meters import Box
from ...._types import Float
from ..saturated import Circle, Gap, arcs, best_circle, slopes
from .fit import Even, Pairs
from .lift import lifted, suited
from .plane import WRONG, Plane, enough, heads_in, off

CLOSER = 1e-3  # of the way to the next jump: within that, the others stay saturated while keys get shorter
SHORTER = 4.0
TRIES = 80
READABLE = 1e-4  # how far from 0 and 1 a weight has to be
BACK = -3.0  # a step that went too far is taken the other way, and shorter


class Jump:
    """One jump: the linear pieces on its sides, and where it is."""

    def __init__(self, circle: Circle, gap: Gap, sides: tuple[np.ndarray, np.ndarray], next_one: float):
        self.circle, self.lo, self.hi, self.next_one = circle, gap.lo, gap.hi, next_one
        self.left, self.right = sides

    def weights(self, Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as sent, and how far the head is turned on there."""
        sent, y = self.circle.face.box.ask(Z, self.circle.face.q)
        before, after = sent @ self.left, sent @ self.right
        if (before == after).any():
            raise NotConverged("a jump of nothing")
        return sent, (y - before) / (after - before)

    def at(self, angle: float, length: float) -> float:
        return float(self.weights(length * self.circle.points(np.array([angle])))[1][0])

    def key(self, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
        """The head's key, pointing to where it is on."""
        angle, length, slope = self.middle()
        centre, frame = length * self.circle.points(np.array([angle]))[0], random_rotation(len(self.left), rng)
        far, Z, weight = np.full(len(frame), 0.5 / abs(slope)), np.zeros_like(frame), np.zeros(len(frame))
        open_ = np.arange(len(frame))
        for _ in range(TRIES):
            Z[open_], weight[open_] = self.weights(centre + far[open_, None] * frame[open_])
            open_ = open_[(weight[open_] < READABLE) | (weight[open_] > 1 - READABLE)]
            if len(open_) == 0:
                return np.linalg.solve(Z, logit(weight))
            far[open_] /= BACK
        raise NotConverged("a head that turns on where no key around is half on")

    def middle(self) -> tuple[float, float, float]:
        """The angle where the head is half on, a length of keys that shows it, and the slope of its score per length
        of the key."""
        length, angle, weight = self.circle.face.length, (self.lo + self.hi) / 2, 0.0
        for _ in range(TRIES):
            angle = (self.lo + self.hi) / 2
            weight = self.at(angle, length)
            if READABLE < weight < 1 - READABLE:
                break
            self.lo, self.hi = (angle, self.hi) if weight < 0.5 else (self.lo, angle)
            if self.hi - self.lo < CLOSER * self.next_one:
                length /= SHORTER
        else:
            raise NotConverged("a jump at which no head turns on")
        return self.secant(angle, length, float(logit(weight)))

    def secant(self, angle: float, length: float, score: float) -> tuple[float, float, float]:
        step, slope = -np.copysign((self.hi - self.lo) / 8, score), np.nan
        for _ in range(TRIES):
            weight = self.at(angle + step, length)
            if not READABLE < weight < 1 - READABLE:
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


def from_jumps(box: Box, rng: np.random.Generator) -> tuple[Even, Pairs]:
    """All heads at one query token."""
    circle, gaps = best_circle(box, rng)
    if len(gaps) < 2:
        raise NotConverged("very long keys show no heads")
    box.oracle.stage = "reading v of every head"
    sides, _ = slopes(circle, gaps, rng)
    widths = [2 * arc.half for arc in arcs(gaps)]
    widths.append(widths[0])
    box.oracle.stage = "looking at every head's own hyperplane"
    K = np.array(
        [Jump(circle, gap, (sides[h], sides[h + 1]), min(widths[h : h + 2])).key(rng) for h, gap in enumerate(gaps)]
    )
    V = np.diff(sides, axis=0)
    return Even(box, circle.face.q, float(np.linalg.norm(V))), Pairs(K, V)


FEW, MOST = 7, 14  # heads, where guesses are quick, and where they still find what there is
SCORES = 6.0  # the usual score that tells heads apart


def few_in_a_plane(box: Box, rng: np.random.Generator) -> tuple[Even, Pairs, float]:
    return in_a_plane(box, rng, FEW)


def in_a_plane(box: Box, rng: np.random.Generator, most: int = MOST) -> tuple[Even, Pairs, float]:
    box.oracle.stage = "counting heads in a plane"
    face, length = suited(box, rng)
    return face, from_plane(face, length, rng, most), length


def from_plane(face: Even, length: float, rng: np.random.Generator, most: int, known: Pairs | None = None) -> Pairs:
    """All heads, from those that keys of a random plane show."""
    frame = random_rotation(face.box.dim, rng)
    plane = Plane(face, frame[:2], length, rng)
    seen = None if known is None else Pairs(known.K @ plane.basis.T, known.V @ plane.basis.T)
    flat = heads_in(plane, enough(face, length), most, seen)
    if flat is None or len(flat) == 0:  # none at all, where answers are lost in their errors
        raise NotConverged(f"no {most} heads explain the answers to keys of a plane")
    return lifted(plane, flat, frame[2:], enough(face, length))


def on_a_circle(box: Box, rng: np.random.Generator) -> tuple[Even, Pairs, float]:
    """Heads may hide from a circle, if few do: then a plane shows them beside the others."""
    if box.dim < 2:
        raise NotConverged("in dimension 1 there are no circles")
    face, pairs = from_jumps(box, rng)
    length = SCORES * np.sqrt(box.dim) / float(np.median(np.linalg.norm(pairs.K, axis=1)))
    if off(face, pairs, length, rng) > WRONG + enough(face, length):
        pairs = from_plane(face, length, rng, len(pairs) + FEW, pairs)
    return face, pairs, length
