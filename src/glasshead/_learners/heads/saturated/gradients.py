"""From a narrow arc to the middle of its cell.

The hyperplanes of H heads cut the space of keys into cells in which F is linear. Seen on a circle a cell is narrow; off
the circle there is room, and slopes are read with steps as long as there is room. So walk: along a random line through
the cell, to its middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ...._errors import Evidence
from ...._linalg import random_rotation
from ...._types import Float
from .circle import Circle, Piece, Saturated
from .jumps import Gap

ENOUGH = 0.5  # of the key's length, room on both sides of a line
MOVES = 2, 12  # the fewest and the most; in between they cost about half of what reading a slope does
EACH = 16
GROW = 4.0  # how much further the next look along the line is
FURTHEST = 1.0
NEAR = 1 / 8  # of the room expected, where the slope along the line is read


@dataclass(frozen=True)
class Spot:
    """A key, F there and how much worse than a single value it is known, and the room around the key, roughly."""

    z: Float[np.ndarray, " d"]
    y: float
    growth: float
    room: float


def deeper(face: Saturated, spot: Spot, rng: np.random.Generator) -> Spot:
    """A few moves, until there is enough room."""
    fewest, most = MOVES
    for _ in range(min(most, max(fewest, len(spot.z) // EACH))):
        if spot.room >= ENOUGH:
            break
        spot = moved(face, spot, rng)
    return spot


def moved(face: Saturated, spot: Spot, rng: np.random.Generator) -> Spot:
    """The spot in the middle of what a random line through it has in common with the cell."""
    u = rng.standard_normal(len(spot.z))
    u -= (u @ spot.z) * spot.z
    u /= np.linalg.norm(u)
    near = NEAR * spot.room
    _, (right, left) = face(spot.z + near * np.array([u, -u]))
    if abs(right + left - 2 * spot.y) > 2 * (spot.growth + 1) * face.noise:
        return Spot(spot.z, spot.y, spot.growth, spot.room / GROW)
    line = Line(face, spot, u, (right - left) / (2 * near), near)
    ahead, behind = line.reach(1.0), line.reach(-1.0)
    middle = (ahead - behind) / 2
    z = spot.z + middle * u
    _, y = face(z[None])
    length = float(np.linalg.norm(z))
    if not line.fits(middle, float(y[0])):
        return Spot(spot.z, spot.y, spot.growth, spot.room / GROW)
    return Spot(z / length, float(y[0]) / length, 1.0, (ahead + behind) / 2 / length)


@dataclass(frozen=True)
class Line:
    """F along `spot.z + t u`, linear in t within the cell; the slope was read at a distance `near`."""

    face: Saturated
    spot: Spot
    u: np.ndarray
    slope: float
    near: float

    def fits(self, t: float, y: float) -> bool:
        error = (1 + self.spot.growth + abs(t) / self.near) * self.face.noise
        return bool(abs(y - self.spot.y - t * self.slope) <= error)

    def reach(self, sign: float) -> float:
        """The furthest look to one side that is still in the cell, looks being a factor apart."""
        t, inside = self.spot.room, self.near
        while inside < t <= FURTHEST:
            _, y = self.face((self.spot.z + sign * t * self.u)[None])
            if self.fits(sign * t, float(y[0])):
                t, inside = t * GROW, t
            else:
                t /= GROW  # ends the search once it falls back on what is known to be inside
        return inside


START = 0.25  # of the room around a point, the first step tried
CHORDS, FURTHER = 2, 3.0  # looks along random chords, so many times longer than the steps to be taken
SHORTER = 3.0
SHORTEST = 1e-9
USUAL = 0.75  # how many times the bound on one value's error all of a slope's usually comes to, per step


@dataclass(frozen=True)
class Arc:
    """The middle of an arc, its half width and the piece on it."""

    angle: float
    half: float
    piece: Piece


def arcs(jumps: list[Gap]) -> list[Arc]:
    """One arc per jump: the one that ends there. The first of them begins at the last jump, half a turn back."""
    ends = [(jump.lo, jump.hi) for jump in jumps]
    starts = [ends[-1][1] - np.pi, *(hi for _, hi in ends[:-1])]
    bounds = [(start, lo) for start, (lo, _) in zip(starts, ends, strict=True)]
    return [Arc((lo + hi) / 2, (hi - lo) / 2, jump.left) for (lo, hi), jump in zip(bounds, jumps, strict=True)]


def roomy(jumps: list[Gap]) -> float:
    """The narrowest arc, over what is usual for so many jumps."""
    usual = np.pi / len(jumps) ** 2
    return min(2 * arc.half for arc in arcs(jumps)) / usual


def slopes(circle: Circle, jumps: list[Gap], rng) -> tuple[Float[np.ndarray, "H1 d"], Float[np.ndarray, " H1"]]:
    """The slope on each arc and how far off it may be; the last one, half a turn on, follows from the first."""
    found = [slope(circle, arc, rng) for arc in arcs(jumps)]
    slopes, errors = np.array([g for g, _ in found]), np.array([error for _, error in found])
    return np.vstack([slopes, circle.face.box.total - slopes[0]]), np.append(errors, errors[0])


def slope(circle: Circle, arc: Arc, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """d - 1 steps around one point of the cell, as long as F stays linear, and one more in a random direction: if any
    of them crossed a hyperplane, that one is not where the others say."""
    face, d = circle.face, circle.face.box.dim
    spot = deeper(face, on_circle(circle, arc), rng)
    step, around = START * spot.room, random_rotation(d, rng, spot.z)[1:]
    while (step := linear_step(face, spot, step, rng)) > SHORTEST:
        sent, y = face(spot.z + step * np.vstack([around, unit_vectors(1, d, rng)]))
        g = np.linalg.solve(np.vstack([spot.z, sent[:-1]]), np.append(spot.y, y[:-1]))
        error = (spot.growth + 1) * face.noise / step  # in one direction; of all d together it is little more
        if abs(sent[-1] @ g - y[-1]) <= 4 * error * step:
            return g, float(error * USUAL)
        step /= SHORTER
    return refuse(circle, arc)


def on_circle(circle: Circle, arc: Arc) -> Spot:
    """The middle of the arc; asked for where the piece, known by two points close together, says too little."""
    z = circle.points(np.array([arc.angle]))
    y, growth = arc.piece.at(arc.angle)
    return Spot(z[0], y, growth, arc.half) if growth < 3 else Spot(z[0], float(circle.face(z)[1][0]), 1.0, arc.half)


def linear_step(face: Saturated, spot: Spot, step: float, rng: np.random.Generator) -> float:
    """The longest step, from this one down, such that F is linear along random chords that reach much further."""
    while step > SHORTEST:
        chord = FURTHER * step * unit_vectors(CHORDS, len(spot.z), rng)
        _, y = face(np.vstack([spot.z + chord, spot.z - chord]))
        bend = np.abs(y[:CHORDS] + y[CHORDS:] - 2 * spot.y).max()
        if bend <= 2 * (spot.growth + 1) * face.noise:
            return step
        step /= SHORTER
    return step


def unit_vectors(count: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    g = rng.standard_normal((count, dim))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def refuse(circle: Circle, arc: Arc) -> NoReturn:
    key = circle.face.length * circle.points(np.array([arc.angle]))[0]
    evidence = Evidence(
        "very long keys between two heads' jumps are answered linearly",
        np.stack([key + circle.face.q, circle.face.q]),
        f"expected so around this one, {arc.half:.1e} away from any jump",
        "neighbours that are not on one line, however close",
    )
    circle.face.box.refuse("the box is not a sum of attention heads, or two of them are too alike", evidence)
