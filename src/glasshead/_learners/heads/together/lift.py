"""From a plane of keys to all of them: the other coordinates of keys and values, one direction after the other.

A key of the plane and a little of another direction is answered by the same heads: what it adds is nearly linear in
two numbers for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._errors import NotConverged
from ...._meters import HeadSum
from ...._types import Float
from .fit import EvenPart, Pairs
from .levenberg import levenberg
from .plane import SPREAD, Plane, around, points

SHIFTS = 0.5, 0.05, 0.005  # of a unit of score, for the largest key: how far keys go in the other direction
SHIFT_EACH, SHIFT_SPARE = 1, 4  # questions for each head and kind, and beyond


def read_outside_plane(plane: Plane, flat: Pairs, rest: Float[np.ndarray, "n d"], enough: float) -> Pairs:
    """The pairs in d coordinates, `rest` being the orthonormal directions outside of the plane."""
    coordinates = [read_coordinate(plane, flat, direction, enough) for direction in rest]
    K, V = (np.array([pair[i] for pair in coordinates]).reshape(len(rest), len(flat)).T for i in range(2))
    return Pairs(flat.K @ plane.basis + K @ rest, flat.V @ plane.basis + V @ rest)


def read_coordinate(
    plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], enough: float
) -> Float[np.ndarray, "2 H"]:
    """What keys and values have along one direction. A key may have far more of it than of the plane: then less far."""
    found = np.zeros((2, len(flat)))
    for move in SHIFTS:
        far = move / float(np.linalg.norm(flat.K, axis=1).max())
        found, left = solved_shift(ShiftedPlane(plane, flat, direction, far))
        if left * far <= enough * plane.length:
            break
    return found


class ShiftedPlane:
    """Keys of the plane, moved the same way out of it, in coordinates along it and beyond, and their answers."""

    def __init__(self, plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], far: float):
        edges, others = (
            around(flat, SHIFT_EACH, plane.length, plane.rng),
            points(SHIFT_SPARE, plane.length, len(plane.basis), plane.rng),
        )
        sent, self.y = plane.even(np.vstack([edges, others]) @ plane.basis + far * direction)
        self.Z = np.c_[sent @ plane.basis.T, sent @ direction]
        self.flat, self.far = flat, far

    def pairs(self, x: np.ndarray) -> Pairs:
        k, v = x.reshape(2, -1)
        return Pairs(np.c_[self.flat.K, k], np.c_[self.flat.V, v])


def solved_shift(cut: ShiftedPlane) -> tuple[Float[np.ndarray, "2 H"], float]:
    """The last coordinate of keys and values, and what is left of the answers, over the move."""

    def residual(x: np.ndarray) -> np.ndarray:
        return (cut.y - cut.pairs(x)(cut.Z)) / cut.far

    def jacobian(x: np.ndarray) -> np.ndarray:
        now = cut.pairs(x)
        return np.c_[now.by_keys(cut.Z), 0.5 * now.gates(cut.Z)]

    x, left = levenberg(residual, jacobian, np.zeros(2 * len(cut.flat)), 0.0)
    return x.reshape(2, -1), left


LOOK_KEYS = 8  # keys, at each length
CURVATURE = (
    0.14,
    0.28,
)  # how much of an answer is not doubled with the key: 0 where heads saturate, 1/2 where they are flat
LENGTH_STEPS = 24
QUERY_SHARES = (
    0.5,
    4.0,
)  # the length of the query token, over that of keys: a short one is better, but needs longer keys
SHORT_ENOUGH = 0.1  # of the longest keys: beyond, heads may not be seen saturated at all
PAST_LARGEST = 4.0  # times the length with the loudest answers: there heads are still flat
LENGTH_FACTOR, LENGTH_COUNT = 8.0, 27  # lengths to look at one after the other, and the shortest of all


class Silent(NotConverged):
    """There is nothing to be seen at any length."""


@dataclass(frozen=True)
class LengthLook:
    """What keys of one length show: how much their answers bend, how large these are per length, and their errors."""

    curvature: float
    gain: float
    noise: float

    @property
    def clear(self) -> bool:
        return bool(self.gain > self.noise)


@dataclass(frozen=True)
class GrowingKeys:
    """A query token and keys that grow together, from unit keys."""

    box: HeadSum
    query: Float[np.ndarray, " d"]
    keys: Float[np.ndarray, "n d"]

    @property
    def long(self) -> float:
        return self.box.oracle.reach / (float(np.linalg.norm(self.query)) + SPREAD)

    def even(self, length: float, gain: float) -> EvenPart:
        return EvenPart(self.box, length * self.query, gain)

    def read_at(self, length: float) -> LengthLook:
        even = self.even(length, 0.0)
        sent, y = even(length * np.vstack([self.keys, 2 * self.keys]))
        once, twice = y[: len(self.keys)], y[len(self.keys) :]
        size = float(np.linalg.norm(twice))
        curvature = float(np.linalg.norm(twice - 2 * once)) / size if size > 0 else 0.0
        return LengthLook(curvature, size / (2 * length * np.sqrt(LOOK_KEYS)), float(even.noise(sent).max()) / length)

    def find_length(self) -> tuple[float, LengthLook]:
        """The length at which answers bend as they should, or the longest."""
        length, look = self.long, self.read_at(self.long)
        short, long = length * LENGTH_FACTOR**-LENGTH_COUNT, length
        if not look.clear or look.curvature >= CURVATURE[0]:
            return length, look
        for _ in range(LENGTH_STEPS):
            length = float(np.sqrt(short * long))
            look = self.read_at(length)
            if look.clear and CURVATURE[0] <= look.curvature <= CURVATURE[1]:
                break
            short, long = (short, length) if look.clear and look.curvature < CURVATURE[0] else (length, long)
        return length, look

    def find_largest(self) -> tuple[float, LengthLook]:
        """The length with the loudest answers: heads that cancel wherever they saturate show nowhere else."""
        lengths = self.long * LENGTH_FACTOR ** -np.arange(LENGTH_COUNT)
        seen = [self.read_at(length) for length in lengths]
        best = int(np.argmax([look.gain * look.clear for look in seen]))
        return float(min(PAST_LARGEST * lengths[best], self.long)), seen[best]


def find_even_part(box: HeadSum, rng: np.random.Generator) -> tuple[EvenPart, float]:
    """A query token, and the usual length of keys to ask about beside it."""
    directions = rng.standard_normal((LOOK_KEYS + 1, box.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    looks = [GrowingKeys(box, query * directions[0], directions[1:]) for query in QUERY_SHARES]
    length, look = looks[0].find_length()
    if look.clear and length <= SHORT_ENOUGH * looks[0].long:
        return looks[0].even(length, look.gain), length
    length, look = looks[1].find_length()
    if not look.clear:
        length, look = looks[1].find_largest()
    if not look.clear:
        raise Silent("no head prefers any token to another, as far as any tokens show")
    return looks[1].even(length, look.gain), length
