"""The sign of every pair (k_h, v_h), and the head that takes the mean: three tokens tell.

Two tokens do not: a head (-k, -v) answers like (k, v) with a head of key 0 and value -v added. With two copies of `q +
z` and one q, a score s gives them the weight `sigma(s + log 2)`, and `sigma(s + log 2) + sigma(-s + log 2)` is not
twice the weight 2/3 that the mean gives them, unless s = 0. So the signs are coefficients 0 or 1 of a linear system;
where they are not, a pair is two heads with opposite scores, and their values are solved for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ...._errors import NotConverged
from ...._types import Float
from .even import EvenPart
from .pairs import ANSWER_ERRORS, NO_HEAD, ORIENTED, Pairs, keys_around, random_keys

TOKEN_COPIES = 2  # of the other token
MEAN_WEIGHT = TOKEN_COPIES / (TOKEN_COPIES + 1)  # the weight that they have in the mean
ORIENTATION_SPARE = 8
OPPOSITE_SURPLUS = 1.25  # questions for each unknown, where a pair may be two heads


@dataclass(frozen=True)
class Oriented:
    """The v of every head with key `k_h`, of every one with key `-k_h`, and of the one with key 0."""

    positive: Float[np.ndarray, "H d"]
    negative: Float[np.ndarray, "H d"]
    mean: Float[np.ndarray, " d"]


def find_orientation(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> Oriented:
    """The heads behind the pairs: one each, (k, v) or (-k, -v), or two of opposite scores whose values differ by v."""
    negative = -pairs.V * read_signs(even, pairs, length, rng)[:, None]
    if not check_orientation(even, pairs, negative, length, rng):
        negative = read_opposite_values(even, pairs, length, rng)
        if not check_orientation(even, pairs, negative, length, rng):
            raise NotConverged("three tokens are not answered by the heads that two tokens show")
    positive, mean = pairs.V + negative, even.box.total - (pairs.V + 2 * negative).sum(axis=0)
    error = ANSWER_ERRORS * float(even.noise(length * np.eye(even.box.dim)[:1])[0]) / length
    norms = sum_of_norms(even, pairs)
    least = NO_HEAD * norms + error
    if least < np.linalg.norm(mean) < np.sqrt(even.box.oracle.roundoff) * norms:  # what errors of the others leave over
        raise NotConverged("a head that takes the mean cannot be told from what the values of the others are off by")
    return Oriented(
        *(np.where(np.linalg.norm(v, axis=-1, keepdims=True) > least, v, 0.0) for v in (positive, negative, mean))
    )


def sum_of_norms(even: EvenPart, pairs: Pairs) -> float:
    return float(np.linalg.norm(pairs.V, axis=1).sum()) + float(np.linalg.norm(even.box.total))


def read_signs(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> Float[np.ndarray, " H"]:
    """1 for every pair whose head is (-k, -v), 0 for the others; nearest to these where it is neither."""
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
    opposite = opposite_weights(pairs, Z) * (Z @ negative.T)
    return MEAN_WEIGHT * Z @ even.box.total + own.sum(axis=1) + opposite.sum(axis=1)


def check_orientation(
    even: EvenPart, pairs: Pairs, negative: np.ndarray, length: float, rng: np.random.Generator
) -> bool:
    Z, y = even.box.read(random_keys(ORIENTATION_SPARE, length, even.box.dim, rng), even.q, TOKEN_COPIES)
    misfit = np.abs(y - predicted_answers(even, pairs, negative, Z))
    allowed = ORIENTED * np.linalg.norm(Z, axis=1) * sum_of_norms(even, pairs) + ANSWER_ERRORS * even.noise(Z)
    return bool((misfit <= allowed).all())
