"""Fresh answers at one query token, to fit all heads to or to check them with."""

from __future__ import annotations

import numpy as np

from .pairs import Even, Pairs
from .plane import around

FRESH = 2  # questions to check with, for each head and kind
FOUND = 1e-9  # of the largest answer: a set of heads that explains all but this is the right one
ERRORS = 30.0  # times the error of an answer, where that is more
WRONG = 1e-7  # of fresh answers: heads that are further off are others


def more(face: Even, pairs: Pairs, length: float, each: int, rng: np.random.Generator):
    """Fresh random keys in all directions, as sent, the answers, and weights that make the largest 1."""
    Z, y = face(around(pairs, each, length, rng))
    weight = 1 / np.linalg.norm(Z, axis=1)
    return Z, y, weight / max(np.abs(weight * pairs(Z)).max(), np.abs(weight * y).max(), np.finfo(float).tiny)


def off(face: Even, pairs: Pairs, length: float, rng: np.random.Generator) -> float:
    """By how much fresh answers differ from those of the pairs, the largest answer being 1."""
    Z, y, weight = more(face, pairs, length, FRESH, rng)
    return float(np.abs(weight * (y - pairs(Z))).max())


def enough(face: Even, length: float) -> float:
    """What the right heads may leave of the answers, the largest being 1."""
    keys = length * np.eye(face.box.dim)[:1]
    return FOUND + ERRORS * float(face.noise(keys)[0]) / (length * face.loud)
