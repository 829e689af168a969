"""Counting heads: on a half circle of saturated keys every head jumps exactly once.

With keys z so long that every head is all or nothing, `F(z) = sum of z.v_h over the heads with z.k_h > 0`: piecewise
linear, with a jump of `z.v_h` across the hyperplane `z.k_h = 0` of each head. On a circle through the origin a piece is
`A cos(theta) + B sin(theta)`, known by two points and checked by a third; the piece half a turn on follows from the sum
of all v. Two pieces that agree have no jump between them, since jumps of distinct heads do not cancel; else look into
the middle, until every jump is bracketed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from ...._errors import HALF_CIRCLE, NOT_HEADS, ONE_JUMP_PER_HEAD, Evidence
from ...._linalg import random_rotation
from ...._meters import SAFETY, SumOfHeads
from ...._types import Float

KEY_SHARE = 1 / 16  # of the longest token, the keys' length: chords reach several times further
QUERY_RATIO = 2.0  # the query token's length, over that of the keys, at most


class Saturated:
    """F at one query token q, per unit of the keys' length. Remembers the largest value seen: errors go with it."""

    def __init__(self, box: SumOfHeads, q: Float[np.ndarray, " d"], share: float = KEY_SHARE):
        self.box = box
        self.length = box.oracle.reach * share
        self.q = q * min(1.0, QUERY_RATIO * self.length / float(np.linalg.norm(q)))
        seen = float(np.linalg.norm(box.total)) + (0.0 if box.mean is None else float(np.linalg.norm(box.mean)))
        self.largest = seen / np.sqrt(box.dim)

    def __call__(
        self, Z: Float[np.ndarray, "n d"], copies: int = 1
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as they were sent, and F there, with so many copies of each key."""
        sent, y = self.box.read(self.length * Z, self.q, copies)
        self.largest = max(self.largest, float(np.abs(y).max(initial=0.0)) / self.length)
        return sent / self.length, y / self.length

    @property
    def noise(self) -> float:
        """How far one value is off, with some safety: no adversary, but d roundings."""
        oracle, d = self.box.oracle, self.box.dim
        relative = oracle.rtol + SAFETY * np.sqrt(d) * oracle.roundoff
        own = 2 * abs(float(self.q @ self.box.total)) / self.length  # what the query token adds to every answer
        return relative * (self.largest + own) + 2 * oracle.tolerance / self.length


PIECE_WIDTH = 0.02  # between the two points that a piece is first known by
WIDTH_SHRINK = 8.0
PIECE_TRIES = 4  # closer still, a smooth function would look linear as well


@dataclass(frozen=True)
class Piece:
    """A linear function on the circle, by its values at two angles."""

    angles: tuple[float, float]
    values: tuple[float, float]

    def at(self, theta: float) -> tuple[float, float]:
        """Its value at an angle, and how much errors of single values grow there, one of an answer to compare with
        included."""
        (first, second), span = self.angles, np.sin(self.angles[1] - self.angles[0])
        left, right = np.sin(second - theta) / span, np.sin(theta - first) / span
        return float(left * self.values[0] + right * self.values[1]), float(1 + abs(left) + abs(right))

    def widened(self, theta: float, y: float) -> Piece:
        """One more point of the piece: the two that lie furthest apart say most."""
        points = [*zip(self.angles, self.values, strict=True), (theta, y)]
        pairs = [(points[i], points[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
        first, second = max(pairs, key=lambda pair: abs(np.sin(pair[1][0] - pair[0][0])))
        return Piece((first[0], second[0]), (first[1], second[1]))


@dataclass(frozen=True)
class PieceStart:
    """A point of a piece, and how far to its right the piece should reach; less, if a jump lies there."""

    theta: float
    y: float
    width: float


class KeyCircle:
    """A random circle of keys through the origin."""

    def __init__(self, saturated: Saturated, rng: np.random.Generator):
        self.saturated = saturated
        self.frame = random_rotation(saturated.box.dim, rng)  # the first two rows span the plane of the circle

    def points(self, theta: np.ndarray) -> Float[np.ndarray, "n d"]:
        return np.outer(np.cos(theta), self.frame[0]) + np.outer(np.sin(theta), self.frame[1])

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        return self.saturated(self.points(theta))[1]

    def fits(self, piece: Piece, theta: float, y: float) -> bool:
        value, growth = piece.at(theta)
        return bool(abs(y - value) <= growth * self.saturated.noise)

    def agree(self, one: Piece, other: Piece, lo: float, hi: float) -> bool:
        """Whether two pieces are the same linear function, as far as can be told between two angles."""
        return all(
            abs(a - b) <= (grow + more) * self.saturated.noise
            for (a, grow), (b, more) in ((one.at(theta), other.at(theta)) for theta in (lo, hi))
        )

    def opposite(self, piece: Piece) -> Piece:
        """The piece half a turn on: `F(-z) = F(z) - z.total`."""
        along = self.points(np.array(piece.angles)) @ self.saturated.box.total
        return Piece(tuple(a + np.pi for a in piece.angles), tuple(np.array(piece.values) - along))  # type: ignore[arg-type]

    def read_pieces(self, starts: list[PieceStart]) -> list[Piece | None]:
        """The pieces that begin at these points: two more for each, of which one checks. None where F is not linear."""
        found: list[Piece | None] = [None] * len(starts)
        for shrink in range(PIECE_TRIES):
            missing = [i for i, piece in enumerate(found) if piece is None]
            widths = [starts[i].width / WIDTH_SHRINK**shrink for i in missing]
            angles = np.array([starts[i].theta for i in missing])[:, None] + np.outer(widths, [0.5, 1.0])
            values = self(angles.ravel()).reshape(-1, 2) if missing else ()
            for i, (middle, last), (check, end) in zip(missing, angles.tolist(), values, strict=True):
                piece = Piece((starts[i].theta, last), (starts[i].y, float(end)))
                if self.fits(piece, middle, float(check)):
                    found[i] = piece
        return found

    def refuse(self, theta: float) -> NoReturn:
        key = self.saturated.length * self.points(np.array([theta]))[0]
        evidence = Evidence(
            ONE_JUMP_PER_HEAD,
            np.stack([key + self.saturated.q, self.saturated.q]),
            "expected three neighbouring keys on one line",
            "three that are not, however close",
        )
        self.saturated.box.refuse(NOT_HEADS, evidence)


JUMP_SEPARATION = 1e-3  # over the number of heads squared: jumps closer than that are met once in six thousand circles
FINEST_ANGLE = 1e-7  # that of a hundred heads
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
    """One narrow bracket around every jump of a half circle, in order: some 17 queries per head."""
    first = circle.read_pieces([PieceStart(0.0, float(circle(np.zeros(1))[0]), PIECE_WIDTH)])[0] or circle.refuse(0.0)
    brackets = with_jumps(circle, [Bracket(0.0, first, np.pi, circle.opposite(first))])
    for _ in range(BISECTIONS):
        resolution = max(FINEST_ANGLE, JUMP_SEPARATION / max(2, len(brackets)) ** 2)
        wide = [bracket for bracket in brackets if bracket.width > resolution and not bracket.smeared]
        if not wide:
            return separated(circle, sorted(brackets, key=lambda bracket: bracket.angle))
        brackets = [bracket for bracket in brackets if bracket not in wide] + read_halves(circle, wide, rng)
        if len(brackets) > JUMPS_PER_DIM * circle.saturated.box.dim:
            refuse_jump_count(circle, len(brackets))
    return refuse_jump_count(circle, len(brackets))


def separated(circle: KeyCircle, jumps: list[Bracket]) -> list[Bracket]:
    """Jumps that touch each other are one that is smeared out: the keys do not saturate the heads."""
    for one, other in itertools.pairwise(jumps):
        if other.lo <= one.hi:
            circle.refuse(one.hi)
    return jumps


def with_jumps(circle: KeyCircle, brackets: list[Bracket]) -> list[Bracket]:
    return [bracket for bracket in brackets if not circle.agree(bracket.left, bracket.right, bracket.lo, bracket.hi)]


def read_halves(circle: KeyCircle, brackets: list[Bracket], rng: np.random.Generator) -> list[Bracket]:
    """Every bracket looked into once: what is left of it, or two brackets with a new piece between them."""
    # Not quite in the middle: two pieces may cross there, and then it would be the wrong place for ever.
    angles = np.array([bracket.lo + bracket.width * rng.uniform(0.45, 0.55) for bracket in brackets])
    found, between = [], []
    for bracket, theta, y in zip(brackets, angles.tolist(), circle(angles).tolist(), strict=True):
        left, right = circle.fits(bracket.left, theta, y), circle.fits(bracket.right, theta, y)
        if left and right:
            found.append(bracket)
        elif left:
            found.append(Bracket(theta, bracket.left.widened(theta, y), bracket.hi, bracket.right))
        elif right:
            found.append(Bracket(bracket.lo, bracket.left, theta, bracket.right.widened(theta, y)))
        else:
            between.append((bracket, PieceStart(theta, y, min(PIECE_WIDTH, bracket.width / 20))))
    middles = circle.read_pieces([start for _, start in between])
    for (bracket, start), middle in zip(between, middles, strict=True):
        if middle is not None:
            found += [
                Bracket(bracket.lo, bracket.left, start.theta, middle),
                Bracket(start.theta, middle, bracket.hi, bracket.right),
            ]
        elif bracket.width > WIDEST_JUMP:
            circle.refuse(start.theta)
        else:
            found.append(replace(bracket, smeared=True))
    return with_jumps(circle, found)


def refuse_jump_count(circle: KeyCircle, count: int) -> NoReturn:
    key = circle.saturated.length * circle.points(np.array([1.0]))[0]
    evidence = Evidence(
        HALF_CIRCLE,
        np.stack([key + circle.saturated.q, circle.saturated.q]),
        f"expected at most {JUMPS_PER_DIM * circle.saturated.box.dim} jumps",
        f"{count} and no end",
    )
    circle.saturated.box.refuse(NOT_HEADS, evidence)
