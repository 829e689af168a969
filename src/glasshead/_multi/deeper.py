"""From a narrow arc to the middle of its cell.

The hyperplanes of H heads cut the space of keys into cells in which F is linear. Seen on a circle a cell is narrow; off
the circle there is room, and slopes are read with steps as long as there is room. So walk: along a random line through
the cell, to its middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float
from .saturated import Saturated

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
