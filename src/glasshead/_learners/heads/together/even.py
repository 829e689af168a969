"""The even part of a box's answers at one query token, and lengths of tokens that suit its heads.

What the box answers to `[z + q ; q]` beyond `[q]` is a sum over heads, of `sigma(z.k_h) z.v_h`. Less half of `z.total`,
with total the sum of all v, which one-token sequences tell, that is even in z: `G(z) = sum_h tanh(z.k_h / 2) z.v_h /
2`.

A key so short that no head saturates says nothing about scores, since G is then quadratic in z; one so long that all do
says only where a head turns on, since G is then homogeneous of degree 1. In between the answer to `2 z` differs from
twice that to z, and by how much tells the length. Query token and keys grow together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...._meters import SAFETY, SumOfHeads
from ...._types import Float
from .pairs import ANSWER_ERRORS, FOUND, SPREAD, Pairs, keys_around


@dataclass(frozen=True)
class EvenPart:
    """G of the box at one query token. `gain` is how much heads usually answer per length of a saturating key."""

    box: SumOfHeads
    q: Float[np.ndarray, " d"]
    gain: float

    def __call__(self, Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as they were sent, and G there."""
        sent, y = self.box.read(Z, self.q)
        return sent, y - 0.5 * sent @ self.box.total

    def noise(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """How far answers to such keys may be off: the promise, and rounding."""
        box, oracle = self.box, self.box.oracle
        size = abs(box.bias) + abs(float(self.q @ box.total)) + np.linalg.norm(Z, axis=1) * self.gain
        return 2 * oracle.tolerance + (2 * oracle.rtol + SAFETY * np.sqrt(box.dim) * oracle.roundoff) * size

    def at(self, q: Float[np.ndarray, " d"]) -> EvenPart:
        return replace(self, q=q)


LOOK_KEYS = 8  # keys, at each length
# The range of the share of an answer that is not doubled with the key: 0 where heads saturate, 1/2 where G is
# quadratic.
CURVATURE = 0.14, 0.28
LENGTH_HALVINGS = 24
# The length of the query token, over that of keys: a short one is better, but needs longer keys.
QUERY_SHARES = 0.5, 4.0
SHORT_ENOUGH = 0.1  # of the longest keys: beyond, heads may not be seen saturated at all
PAST_LARGEST = 4.0  # times the length with the largest answers: there heads are still far from saturated
SCAN_FACTOR, SCAN_LENGTHS = 8.0, 27  # lengths to look at one after the other, and the shortest of all


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

    box: SumOfHeads
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
        short, long = length * SCAN_FACTOR**-SCAN_LENGTHS, length
        if not look.clear or look.curvature >= CURVATURE[0]:
            return length, look
        for _ in range(LENGTH_HALVINGS):
            length = float(np.sqrt(short * long))
            look = self.read_at(length)
            if look.clear and CURVATURE[0] <= look.curvature <= CURVATURE[1]:
                break
            short, long = (short, length) if look.clear and look.curvature < CURVATURE[0] else (length, long)
        return length, look

    def find_largest(self) -> tuple[float, LengthLook]:
        """The length with the largest gain: heads that cancel wherever they saturate show nowhere else."""
        lengths = self.long * SCAN_FACTOR ** -np.arange(SCAN_LENGTHS)
        seen = [self.read_at(length) for length in lengths]
        best = int(np.argmax([look.gain * look.clear for look in seen]))
        return float(min(PAST_LARGEST * lengths[best], self.long)), seen[best]


def find_even_part(box: SumOfHeads, rng: np.random.Generator) -> tuple[EvenPart, float] | None:
    """G at a query token and the usual length of keys to ask about beside it; None where G is 0 at any length."""
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
        return None
    return looks[1].even(length, look.gain), length


FRESH_EACH = 2  # questions to check with, for each head and kind


def read_around(even: EvenPart, pairs: Pairs, length: float, each: int, rng: np.random.Generator):
    """Fresh random keys in all directions, as sent, the answers, and weights that make the largest 1."""
    Z, y = even(keys_around(pairs, each, length, rng))
    weight = 1 / np.linalg.norm(Z, axis=1)
    return Z, y, weight / max(np.abs(weight * pairs(Z)).max(), np.abs(weight * y).max(), np.finfo(float).tiny)


def read_misfit(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> float:
    """By how much fresh answers differ from those of the pairs, the largest answer being 1."""
    Z, y, weight = read_around(even, pairs, length, FRESH_EACH, rng)
    return float(np.abs(weight * (y - pairs(Z))).max())


def allowed_misfit(even: EvenPart, length: float) -> float:
    """What the right heads may leave of the answers, the largest being 1."""
    keys = length * np.eye(even.box.dim)[:1]
    return FOUND + ANSWER_ERRORS * float(even.noise(keys)[0]) / (length * even.gain)
