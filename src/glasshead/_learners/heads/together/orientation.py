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
from .even import EvenPart
from .pairs import Pairs, keys_around, random_keys

TOKEN_COPIES = 2  # of the other token
MEAN_WEIGHT = TOKEN_COPIES / (TOKEN_COPIES + 1)  # the weight that they have in the mean
ORIENTATION_SPARE = 8
OPPOSITE_SURPLUS = 1.25  # questions for each unknown, where a pair may be two heads
NO_HEAD = 1e-7  # of all values: a head that is not there, as far as rounding says
ORIENTED = 1e-6  # of all values: how well turned heads explain what three tokens are answered, per length of the key
ANSWER_ERRORS = 30.0  # times the error of an answer, where that is more


@dataclass(frozen=True)
class Oriented:
    """The v of every head with key `k_h`, of every one with key `-k_h`, and of the one with key 0."""

    positive: Float[np.ndarray, "H d"]
    negative: Float[np.ndarray, "H d"]
    mean: Float[np.ndarray, " d"]


def find_orientation(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> Oriented:
    """A pair is one head, turned one way or the other; or two with opposite scores, whose values differ by its v."""
    negative = -pairs.V * read_signs(even, pairs, length, rng)[:, None]
    if not check_orientation(even, pairs, negative, length, rng):
        negative = read_opposite_values(even, pairs, length, rng)
        if not check_orientation(even, pairs, negative, length, rng):
            raise NotConverged("three tokens are not answered by the heads that two tokens show")
    positive, mean = pairs.V + negative, even.box.total - (pairs.V + 2 * negative).sum(axis=0)
    error = ANSWER_ERRORS * float(even.noise(length * np.eye(even.box.dim)[:1])[0]) / length
    least = NO_HEAD * sum_of_norms(even, pairs) + error
    return Oriented(
        *(np.where(np.linalg.norm(v, axis=-1, keepdims=True) > least, v, 0.0) for v in (positive, negative, mean))
    )


def sum_of_norms(even: EvenPart, pairs: Pairs) -> float:
    return float(np.linalg.norm(pairs.V, axis=1).sum()) + float(np.linalg.norm(even.box.total))


def read_signs(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> Float[np.ndarray, " H"]:
    """1 for every pair that is turned over, 0 for the others; nearest to these where it is neither."""
    Z, y = even.box.read(random_keys(len(pairs) + ORIENTATION_SPARE, length, even.box.dim, rng), even.q, TOKEN_COPIES)
    weight = 1 / np.linalg.norm(Z, axis=1)
    over = -(opposite_weights(pairs, Z) * (Z @ pairs.V.T))
    left = y - predicted_answers(even, pairs, np.zeros_like(pairs.V), Z)
    return np.clip(np.round(np.linalg.lstsq(weight[:, None] * over, weight * left, rcond=None)[0]), 0, 1)


def read_opposite_values(
    even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator
) -> Float[np.ndarray, "H d"]:
    """The values of heads with the opposite keys, whatever they are."""
    each = round(OPPOSITE_SURPLUS * even.box.dim / 2) + 1
    Z, y = even.box.read(keys_around(pairs, each, length, rng), even.q, TOKEN_COPIES)
    weight = 1 / np.linalg.norm(Z, axis=1)
    parts = (opposite_weights(pairs, Z)[:, :, None] * Z[:, None]).reshape(len(Z), -1)
    left = y - predicted_answers(even, pairs, np.zeros_like(pairs.V), Z)
    return np.linalg.lstsq(weight[:, None] * parts, weight * left, rcond=None)[0].reshape(pairs.V.shape)


def opposite_weights(pairs: Pairs, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n H"]:
    """The weight of two opposite heads together, less that of two which take the mean instead."""
    scores = Z @ pairs.K.T
    return expit(scores + np.log(TOKEN_COPIES)) + expit(-scores + np.log(TOKEN_COPIES)) - 2 * MEAN_WEIGHT


def predicted_answers(
    even: EvenPart, pairs: Pairs, negative: Float[np.ndarray, "H d"], Z: Float[np.ndarray, "n d"]
) -> np.ndarray:
    """What three tokens should be answered: all values as if by the mean, and what each head makes of its own."""
    own = (expit(Z @ pairs.K.T + np.log(TOKEN_COPIES)) - MEAN_WEIGHT) * (Z @ pairs.V.T)
    return (
        MEAN_WEIGHT * Z @ even.box.total + own.sum(axis=1) + (opposite_weights(pairs, Z) * (Z @ negative.T)).sum(axis=1)
    )


def check_orientation(
    even: EvenPart, pairs: Pairs, negative: np.ndarray, length: float, rng: np.random.Generator
) -> bool:
    Z, y = even.box.read(random_keys(ORIENTATION_SPARE, length, even.box.dim, rng), even.q, TOKEN_COPIES)
    read_misfit = np.abs(y - predicted_answers(even, pairs, negative, Z))
    allowed = ORIENTED * np.linalg.norm(Z, axis=1) * sum_of_norms(even, pairs) + ANSWER_ERRORS * even.noise(Z)
    return bool((read_misfit <= allowed).all())
