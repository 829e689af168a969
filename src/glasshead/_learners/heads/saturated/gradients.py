"""The gradient of a sum of saturated heads in every cell that a circle crosses.

Keys z are so long that every head is all or nothing: `F(z) = sum of z.v_h over the heads with z.k_h > 0`. The
hyperplanes `z.k_h = 0` of H heads cut the space of keys into cells in which F is linear. Its gradient there is the sum
of v over the heads that are on, so neighbouring cells of a circle differ by one `v_h`. On the circle a cell is a narrow
arc, and an error of F counts over the length of the step; away from the circle the cell is wider. So the gradient is
read around an interior point of the cell, found by going to the middle of the cell along random lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ...._errors import LINEAR_BETWEEN_JUMPS, Evidence
from ...._linalg import random_rotation
from ...._types import Float
from .circle import Bracket, KeyCircle, Piece, Saturated

WIDE_CELL = 0.5  # of the key's length, the distance to the cell's ends along a line
CELL_MOVES = 2, 12  # the fewest and the most; in between they cost about half of what reading a slope does
DIMS_PER_MOVE = 16
GROW = 4.0  # how much further the next point of the line is
LINE_END = 1.0
SLOPE_RADIUS = 1 / 8  # of the radius expected, where the slope along the line is read


@dataclass(frozen=True)
class CellPoint:
    """A key inside a cell, F there, how many times worse than a single value F is known, and, roughly, how far the
    cell reaches around the key, its `radius`."""

    z: Float[np.ndarray, " d"]
    y: float
    growth: float
    radius: float


def find_interior(saturated: Saturated, point: CellPoint, rng: np.random.Generator) -> CellPoint:
    """A point well inside the same cell: a few moves along random lines."""
    fewest, most = CELL_MOVES
    for _ in range(min(most, max(fewest, len(point.z) // DIMS_PER_MOVE))):
        if point.radius >= WIDE_CELL:
            break
        point = find_midpoint(saturated, point, rng)
    return point


def find_midpoint(saturated: Saturated, point: CellPoint, rng: np.random.Generator) -> CellPoint:
    """The middle of what a random line through the point has in common with its cell."""
    u = rng.standard_normal(len(point.z))
    u -= (u @ point.z) * point.z
    u /= np.linalg.norm(u)
    near = SLOPE_RADIUS * point.radius
    _, (right, left) = saturated(point.z + near * np.array([u, -u]))
    if abs(right + left - 2 * point.y) > 2 * (point.growth + 1) * saturated.noise:
        return CellPoint(point.z, point.y, point.growth, point.radius / GROW)
    line = Line(saturated, point, u, (right - left) / (2 * near), near)
    ahead, behind = line.find_end(1.0), line.find_end(-1.0)
    middle = (ahead - behind) / 2
    z = point.z + middle * u
    _, y = saturated(z[None])
    length = float(np.linalg.norm(z))
    if not line.fits(middle, float(y[0])):
        return CellPoint(point.z, point.y, point.growth, point.radius / GROW)
    return CellPoint(z / length, float(y[0]) / length, 1.0, (ahead + behind) / 2 / length)


@dataclass(frozen=True)
class Line:
    """F along `point.z + t u`, linear in t within the cell; the slope was read at a distance `near`."""

    saturated: Saturated
    point: CellPoint
    u: np.ndarray
    slope: float
    near: float

    def fits(self, t: float, y: float) -> bool:
        error = (1 + self.point.growth + abs(t) / self.near) * self.saturated.noise
        return bool(abs(y - self.point.y - t * self.slope) <= error)

    def find_end(self, sign: float) -> float:
        """The furthest point to one side that is still in the cell, of points that are a factor of `GROW` apart."""
        t, inside = self.point.radius, self.near
        while inside < t <= LINE_END:
            _, y = self.saturated((self.point.z + sign * t * self.u)[None])
            if self.fits(sign * t, float(y[0])):
                t, inside = t * GROW, t
            else:
                t /= GROW  # ends the search once it falls back on what is known to be inside
        return inside


FIRST_STEP = 0.25  # of the radius, the first step tried
CHORD_COUNT, CHORD_RATIO = 2, 3.0  # random chords that are tried, so many times longer than the steps to be taken
STEP_SHRINK = 3.0  # by which a step is divided that was too long
SHORTEST_STEP = 1e-9  # of the key's length: with shorter ones a float64 box leaves fewer than six digits of a gradient
USUAL_ERROR = 0.75  # how many times the bound on one value's error all of a slope's usually comes to, per step


@dataclass(frozen=True)
class Arc:
    """The middle of an arc, its half width and the piece on it."""

    angle: float
    half: float
    piece: Piece


def arcs(jumps: list[Bracket]) -> list[Arc]:
    """One arc per jump: the one that ends there. The first of them begins at the last jump, half a turn back."""
    ends = [(jump.lo, jump.hi) for jump in jumps]
    starts = [ends[-1][1] - np.pi, *(hi for _, hi in ends[:-1])]
    bounds = [(start, lo) for start, (lo, _) in zip(starts, ends, strict=True)]
    return [Arc((lo + hi) / 2, (hi - lo) / 2, jump.left) for (lo, hi), jump in zip(bounds, jumps, strict=True)]


def relative_width(jumps: list[Bracket]) -> float:
    """The narrowest arc, over what is usual for so many jumps."""
    usual = np.pi / len(jumps) ** 2
    return min(2 * arc.half for arc in arcs(jumps)) / usual


def read_gradients(
    circle: KeyCircle, jumps: list[Bracket], rng
) -> tuple[Float[np.ndarray, "H1 d"], Float[np.ndarray, " H1"]]:
    """The slope on each arc and how far off it may be; the last one, half a turn on, follows from the first."""
    found = [read_gradient(circle, arc, rng) for arc in arcs(jumps)]
    slopes, errors = np.array([g for g, _ in found]), np.array([error for _, error in found])
    return np.vstack([slopes, circle.saturated.box.total - slopes[0]]), np.append(errors, errors[0])


def read_gradient(circle: KeyCircle, arc: Arc, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """d - 1 steps around one point of the cell, as long as F stays linear, and one more in a random direction: if any
    of them crossed a hyperplane, that one is not where the others say."""
    saturated, d = circle.saturated, circle.saturated.box.dim
    if arc.half <= 0:  # two jumps at one angle
        return refuse_nonlinear(circle, arc)
    point = find_interior(saturated, read_arc_point(circle, arc), rng)
    step, around = FIRST_STEP * point.radius, random_rotation(d, rng, point.z)[1:]
    while (step := find_linear_step(saturated, point, step, rng)) > SHORTEST_STEP:
        sent, y = saturated(point.z + step * np.vstack([around, random_units(1, d, rng)]))
        g = np.linalg.solve(np.vstack([point.z, sent[:-1]]), np.append(point.y, y[:-1]))
        error = (point.growth + 1) * saturated.noise / step  # in one direction; of all d together it is little more
        if abs(sent[-1] @ g - y[-1]) <= 4 * error * step:
            return g, float(error * USUAL_ERROR)
        step /= STEP_SHRINK
    return refuse_nonlinear(circle, arc)


def read_arc_point(circle: KeyCircle, arc: Arc) -> CellPoint:
    """The middle of the arc; asked for where the piece, known by two points close together, says too little."""
    z = circle.points(np.array([arc.angle]))
    y, growth = arc.piece.at(arc.angle)
    if growth >= 3:
        y, growth = float(circle.saturated(z)[1][0]), 1.0
    return CellPoint(z[0], y, growth, arc.half)


def find_linear_step(saturated: Saturated, point: CellPoint, step: float, rng: np.random.Generator) -> float:
    """The longest step, from this one down, such that F is linear along random chords that reach much further."""
    while step > SHORTEST_STEP:
        chord = CHORD_RATIO * step * random_units(CHORD_COUNT, len(point.z), rng)
        _, y = saturated(np.vstack([point.z + chord, point.z - chord]))
        bend = np.abs(y[:CHORD_COUNT] + y[CHORD_COUNT:] - 2 * point.y).max()
        if bend <= 2 * (point.growth + 1) * saturated.noise:
            return step
        step /= STEP_SHRINK
    return step


def random_units(count: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    g = rng.standard_normal((count, dim))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def refuse_nonlinear(circle: KeyCircle, arc: Arc) -> NoReturn:
    key = circle.saturated.length * circle.points(np.array([arc.angle]))[0]
    evidence = Evidence(
        LINEAR_BETWEEN_JUMPS,
        np.stack([key + circle.saturated.q, circle.saturated.q]),
        f"expected so around this one, {arc.half:.1e} away from any jump",
        "neighbours that are not on one line, however close",
    )
    circle.saturated.box.refuse("the box is not a sum of attention heads, or two of them are too alike", evidence)
