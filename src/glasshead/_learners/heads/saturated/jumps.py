"""Counting heads: every head jumps exactly once on a half circle of saturated keys.

Two pieces that agree have no jump between them, since jumps of distinct heads do not cancel; else look in the middle.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from ...._errors import Evidence
from .circle import PIECE_WIDTH, KeyCircle, Piece, PieceStart

JUMP_SEPARATION = 1e-3  # over the number of heads squared: jumps closer than that are met once in six thousand circles
FINEST_ANGLE = 1e-7
WIDEST_JUMP = 0.3  # the widest angle over which one head may turn on
BISECTIONS = 200
JUMPS_PER_DIM = 4  # times the dimension: more jumps than that are no heads that anybody could tell apart


@dataclass(frozen=True)
class Bracket:
    """Two neighbouring angles with different pieces: at least one jump lies between them."""

    lo: float
    left: Piece
    hi: float
    right: Piece
    smeared: bool = False  # the keys do not saturate inside: this is as narrow as it gets

    @property
    def width(self) -> float:
        return self.hi - self.lo

    @property
    def angle(self) -> float:
        return (self.lo + self.hi) / 2


def find_jumps(circle: KeyCircle, rng: np.random.Generator) -> list[Bracket]:
    """One narrow gap around every jump of a half circle, in order: some 17 queries per head."""
    first = circle.read_pieces([PieceStart(0.0, float(circle(np.zeros(1))[0]), PIECE_WIDTH)])[0] or circle.refuse(0.0)
    gaps = with_jumps(circle, [Bracket(0.0, first, np.pi, circle.opposite(first))])
    for _ in range(BISECTIONS):
        resolution = max(FINEST_ANGLE, JUMP_SEPARATION / max(2, len(gaps)) ** 2)
        wide = [gap for gap in gaps if gap.width > resolution and not gap.smeared]
        if not wide:
            return separated(circle, sorted(gaps, key=lambda gap: gap.angle))
        gaps = [gap for gap in gaps if gap not in wide] + read_halves(circle, wide, rng)
        if len(gaps) > JUMPS_PER_DIM * circle.saturated.box.dim:
            refuse_jump_count(circle, len(gaps))
    return refuse_jump_count(circle, len(gaps))


def separated(circle: KeyCircle, jumps: list[Bracket]) -> list[Bracket]:
    """Jumps that touch each other are one that is smeared out: the keys do not saturate the heads."""
    for one, other in itertools.pairwise(jumps):
        if other.lo <= one.hi:
            circle.refuse(one.hi)
    return jumps


def with_jumps(circle: KeyCircle, gaps: list[Bracket]) -> list[Bracket]:
    return [gap for gap in gaps if not circle.agree(gap.left, gap.right, gap.lo, gap.hi)]


def read_halves(circle: KeyCircle, gaps: list[Bracket], rng: np.random.Generator) -> list[Bracket]:
    """Every gap looked into once: what is left of it, or two gaps with a new piece between them."""
    # Not quite in the middle: two pieces may cross there, and then it would be the wrong place for ever.
    angles = np.array([gap.lo + gap.width * rng.uniform(0.45, 0.55) for gap in gaps])
    found, between = [], []
    for gap, theta, y in zip(gaps, angles.tolist(), circle(angles).tolist(), strict=True):
        left, right = circle.fits(gap.left, theta, y), circle.fits(gap.right, theta, y)
        if left and right:
            found.append(gap)
        elif left:
            found.append(Bracket(theta, gap.left.widened(theta, y), gap.hi, gap.right))
        elif right:
            found.append(Bracket(gap.lo, gap.left, theta, gap.right.widened(theta, y)))
        else:
            between.append((gap, PieceStart(theta, y, min(PIECE_WIDTH, gap.width / 20))))
    middles = circle.read_pieces([start for _, start in between])
    for (gap, start), middle in zip(between, middles, strict=True):
        if middle is not None:
            found += [Bracket(gap.lo, gap.left, start.theta, middle), Bracket(start.theta, middle, gap.hi, gap.right)]
        elif gap.width > WIDEST_JUMP:
            circle.refuse(start.theta)
        else:
            found.append(replace(gap, smeared=True))
    return with_jumps(circle, found)


def refuse_jump_count(circle: KeyCircle, count: int) -> NoReturn:
    key = circle.saturated.length * circle.points(np.array([1.0]))[0]
    evidence = Evidence(
        "on a half circle of very long keys every head jumps once",
        np.stack([key + circle.saturated.q, circle.saturated.q]),
        f"expected at most {JUMPS_PER_DIM * circle.saturated.box.dim} jumps",
        f"{count} and no end",
    )
    circle.saturated.box.refuse("the box is not a sum of attention heads", evidence)
