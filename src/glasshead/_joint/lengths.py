"""How long tokens have to be for heads to show what they are: neither flat nor all or nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import NotConverged
from .._meter.lever import longest
from .._multi.box import Box
from .._types import Float
from .pairs import Even
from .plane import SPREAD

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
        return longest(self.box.oracle) / (float(np.linalg.norm(self.query)) + SPREAD)

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
