"""From a plane of keys to all of them: the other coordinates of keys and values, one direction after the other.

A key of the plane and a little of another direction is answered by the same heads: what it adds is nearly linear in
two numbers for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._errors import NotConverged
from ...._meters import Box
from ...._types import Float
from .fit import Even, Pairs
from .levenberg import levenberg
from .plane import SPREAD, Plane, around, points

MOVE = 0.5, 0.05, 0.005  # of a unit of score, for the largest key: how far keys go in the other direction
EACH, SPARE = 1, 4  # questions for each head and kind, and beyond


def lifted(plane: Plane, flat: Pairs, rest: Float[np.ndarray, "n d"], enough: float) -> Pairs:
    """The pairs in d coordinates, `rest` being the orthonormal directions outside of the plane."""
    coordinates = [beside(plane, flat, direction, enough) for direction in rest]
    K, V = (np.array([pair[i] for pair in coordinates]).reshape(len(rest), len(flat)).T for i in range(2))
    return Pairs(flat.K @ plane.basis + K @ rest, flat.V @ plane.basis + V @ rest)


def beside(plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], enough: float) -> Float[np.ndarray, "2 H"]:
    """What keys and values have along one direction. A key may have far more of it than of the plane: then less far."""
    found = np.zeros((2, len(flat)))
    for move in MOVE:
        far = move / float(np.linalg.norm(flat.K, axis=1).max())
        found, left = solved(Slice(plane, flat, direction, far))
        if left * far <= enough * plane.length:
            break
    return found


class Slice:
    """Keys of the plane, moved the same way out of it, in coordinates along it and beyond, and their answers."""

    def __init__(self, plane: Plane, flat: Pairs, direction: Float[np.ndarray, " d"], far: float):
        edges, others = (
            around(flat, EACH, plane.length, plane.rng),
            points(SPARE, plane.length, len(plane.basis), plane.rng),
        )
        sent, self.y = plane.face(np.vstack([edges, others]) @ plane.basis + far * direction)
        self.Z = np.c_[sent @ plane.basis.T, sent @ direction]
        self.flat, self.far = flat, far

    def pairs(self, x: np.ndarray) -> Pairs:
        k, v = x.reshape(2, -1)
        return Pairs(np.c_[self.flat.K, k], np.c_[self.flat.V, v])


def solved(cut: Slice) -> tuple[Float[np.ndarray, "2 H"], float]:
    """The last coordinate of keys and values, and what is left of the answers, over the move."""

    def residual(x: np.ndarray) -> np.ndarray:
        return (cut.y - cut.pairs(x)(cut.Z)) / cut.far

    def jacobian(x: np.ndarray) -> np.ndarray:
        now = cut.pairs(x)
        return np.c_[now.by_keys(cut.Z), 0.5 * now.gates(cut.Z)]

    x, left = levenberg(residual, jacobian, np.zeros(2 * len(cut.flat)), 0.0)
    return x.reshape(2, -1), left


LOOKS = 8  # keys, at each length
BENT = 0.14, 0.28  # how much of an answer is not doubled with the key: 0 where heads saturate, 1/2 where they are flat
STEPS = 24
QUERIES = 0.5, 4.0  # the length of the query token, over that of keys: a short one is better, but needs longer keys
AT_EASE = 0.1  # of the longest keys: beyond, heads may not be seen saturated at all
BEYOND = 4.0  # times the length with the loudest answers: there heads are still flat
FINER, DEPTH = 8.0, 27  # lengths to look at one after the other, and the shortest of all


class Silent(NotConverged):
    """There is nothing to be seen at any length."""


@dataclass(frozen=True)
class Look:
    """What keys of one length show: how much their answers bend, how large these are per length, and their errors."""

    bent: float
    loud: float
    noise: float

    @property
    def clear(self) -> bool:
        return bool(self.loud > self.noise)


@dataclass(frozen=True)
class Looks:
    """A query token and keys that grow together, from unit keys."""

    box: Box
    query: Float[np.ndarray, " d"]
    keys: Float[np.ndarray, "n d"]

    @property
    def long(self) -> float:
        return self.box.oracle.reach / (float(np.linalg.norm(self.query)) + SPREAD)

    def face(self, length: float, loud: float) -> Even:
        return Even(self.box, length * self.query, loud)

    def at(self, length: float) -> Look:
        face = self.face(length, 0.0)
        sent, y = face(length * np.vstack([self.keys, 2 * self.keys]))
        once, twice = y[: len(self.keys)], y[len(self.keys) :]
        size = float(np.linalg.norm(twice))
        bent = float(np.linalg.norm(twice - 2 * once)) / size if size > 0 else 0.0
        return Look(bent, size / (2 * length * np.sqrt(LOOKS)), float(face.noise(sent).max()) / length)

    def search(self) -> tuple[float, Look]:
        """The length at which answers bend as they should, or the longest."""
        length, look = self.long, self.at(self.long)
        short, long = length * FINER**-DEPTH, length
        if not look.clear or look.bent >= BENT[0]:
            return length, look
        for _ in range(STEPS):
            length = float(np.sqrt(short * long))
            look = self.at(length)
            if look.clear and BENT[0] <= look.bent <= BENT[1]:
                break
            short, long = (short, length) if look.clear and look.bent < BENT[0] else (length, long)
        return length, look

    def scan(self) -> tuple[float, Look]:
        """The length with the loudest answers: heads that cancel wherever they saturate show nowhere else."""
        lengths = self.long * FINER ** -np.arange(DEPTH)
        seen = [self.at(length) for length in lengths]
        best = int(np.argmax([look.loud * look.clear for look in seen]))
        return float(min(BEYOND * lengths[best], self.long)), seen[best]


def suited(box: Box, rng: np.random.Generator) -> tuple[Even, float]:
    """A query token, and the usual length of keys to ask about beside it."""
    directions = rng.standard_normal((LOOKS + 1, box.dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    looks = [Looks(box, query * directions[0], directions[1:]) for query in QUERIES]
    length, look = looks[0].search()
    if look.clear and length <= AT_EASE * looks[0].long:
        return looks[0].face(length, look.loud), length
    length, look = looks[1].search()
    if not look.clear:
        length, look = looks[1].scan()
    if not look.clear:
        raise Silent("no head prefers any token to another, as far as any tokens show")
    return looks[1].face(length, look.loud), length
