"""Which way each head is turned, and the head that takes the mean: three tokens tell.

Two tokens do not: turning a head over, (k, v) to (-k, -v), adds a head with k = 0 and 2 v. With two copies of `q + z`
beside q, a score s counts `s + log 2`, which is another number for s and -s. The mean gives them 2/3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ...._errors import NotConverged
from ...._types import Float
from .fit import Even, Pairs
from .plane import around, points

COPIES = 2  # of the other token
MEAN = COPIES / (COPIES + 1)  # the weight that they have in the mean
SPARE = 8
SURPLUS = 1.25  # questions for each unknown, where a pair may be two heads
NOTHING = 1e-7  # of all values: a head that is not there, as far as rounding says
CLEAR = 1e-6  # of all values: how well turned heads explain what three tokens are answered, per length of the key
ERRORS = 30.0  # times the error of an answer, where that is more


@dataclass(frozen=True)
class Turned:
    """The v of every head with key `k_h`, of every one with key `-k_h`, and of the one with key 0."""

    ahead: Float[np.ndarray, "H d"]
    back: Float[np.ndarray, "H d"]
    mean: Float[np.ndarray, " d"]


def turned(face: Even, pairs: Pairs, length: float, rng: np.random.Generator) -> Turned:
    """A pair is one head, turned one way or the other; or two with opposite scores, whose values differ by its v."""
    back = -pairs.V * one_way(face, pairs, length, rng)[:, None]
    if not explains(face, pairs, back, length, rng):
        back = both_ways(face, pairs, length, rng)
        if not explains(face, pairs, back, length, rng):
            raise NotConverged("three tokens are not answered by the heads that two tokens show")
    ahead, mean = pairs.V + back, face.box.total - (pairs.V + 2 * back).sum(axis=0)
    error = ERRORS * float(face.noise(length * np.eye(face.box.dim)[:1])[0]) / length
    least = NOTHING * loudness(face, pairs) + error
    return Turned(*(np.where(np.linalg.norm(v, axis=-1, keepdims=True) > least, v, 0.0) for v in (ahead, back, mean)))


def loudness(face: Even, pairs: Pairs) -> float:
    return float(np.linalg.norm(pairs.V, axis=1).sum()) + float(np.linalg.norm(face.box.total))


def one_way(face: Even, pairs: Pairs, length: float, rng: np.random.Generator) -> Float[np.ndarray, " H"]:
    """1 for every pair that is turned over, 0 for the others; nearest to these where it is neither."""
    Z, y = face.box.ask(points(len(pairs) + SPARE, length, face.box.dim, rng), face.q, COPIES)
    weight = 1 / np.linalg.norm(Z, axis=1)
    over = -(gained(pairs, Z) * (Z @ pairs.V.T))
    left = y - answered(face, pairs, np.zeros_like(pairs.V), Z)
    return np.clip(np.round(np.linalg.lstsq(weight[:, None] * over, weight * left, rcond=None)[0]), 0, 1)


def both_ways(face: Even, pairs: Pairs, length: float, rng: np.random.Generator) -> Float[np.ndarray, "H d"]:
    """The values of heads with the opposite keys, whatever they are."""
    each = round(SURPLUS * face.box.dim / 2) + 1
    Z, y = face.box.ask(around(pairs, each, length, rng), face.q, COPIES)
    weight = 1 / np.linalg.norm(Z, axis=1)
    parts = (gained(pairs, Z)[:, :, None] * Z[:, None]).reshape(len(Z), -1)
    left = y - answered(face, pairs, np.zeros_like(pairs.V), Z)
    return np.linalg.lstsq(weight[:, None] * parts, weight * left, rcond=None)[0].reshape(pairs.V.shape)


def gained(pairs: Pairs, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n H"]:
    """The weight of two opposite heads together, less that of two which take the mean instead."""
    scores = Z @ pairs.K.T
    return expit(scores + np.log(COPIES)) + expit(-scores + np.log(COPIES)) - 2 * MEAN


def answered(face: Even, pairs: Pairs, back: Float[np.ndarray, "H d"], Z: Float[np.ndarray, "n d"]) -> np.ndarray:
    """What three tokens should be answered: all values as if by the mean, and what each head makes of its own."""
    own = (expit(Z @ pairs.K.T + np.log(COPIES)) - MEAN) * (Z @ pairs.V.T)
    return MEAN * Z @ face.box.total + own.sum(axis=1) + (gained(pairs, Z) * (Z @ back.T)).sum(axis=1)


def explains(face: Even, pairs: Pairs, back: np.ndarray, length: float, rng: np.random.Generator) -> bool:
    Z, y = face.box.ask(points(SPARE, length, face.box.dim, rng), face.q, COPIES)
    off = np.abs(y - answered(face, pairs, back, Z))
    allowed = CLEAR * np.linalg.norm(Z, axis=1) * loudness(face, pairs) + ERRORS * face.noise(Z)
    return bool((off <= allowed).all())
