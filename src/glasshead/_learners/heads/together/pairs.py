"""Keys and values of all heads at one query token, and their fit to the even part of the answers that they explain.

At a query token q every head has a key `k_h = W_h q + key_bias_h`. The answer to `[z + q ; q]`, less what q alone gives
and half of `z.total`, is even in z:

    G(z) = sum_h tanh(z.k_h / 2) z.v_h / 2.

It does not change when a pair (k_h, v_h) changes its sign; `orientation` tells signs later. This module has G of given
pairs, its derivatives, the fit of pairs to answers, and random keys to ask about.

It also has how far equations of all heads may be from holding. Each such number is an allowance for what iteration and
conditioning leave in float64, and stands beside `ANSWER_ERRORS` times the error of an answer, which is derived from the
box (`EvenPart.noise`) and is the larger of the two for narrow answers. They can be absolute because there is a wide gap
to sit in: a fit of the right heads ends at rounding, a wrong set of heads leaves about a thousandth of the answers.
Their order is what matters: a fit is refined to `PRECISE`, accepted at `FOUND`, held to be wrong on fresh answers past
`CONTRADICTED`, and what follows from it is judged more mildly, since errors of pairs grow on the way. docs/constants.md
shows what becomes of boxes where one of them is ten times off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._least_squares import levenberg
from ...._types import Float

ANSWER_ERRORS = 30.0  # times the error of an answer: what conditioning usually makes of it

# Of the largest answer.
PRECISE = 1e-13  # fresh answers met so well are fine as they are: a thousand roundings
FOUND = 1e-9  # a set of heads that explains all but this is the right one
CONTRADICTED = 1e-7  # heads that are further off on fresh answers are others

# Of what it is a part of.

# What follows from pairs: equations for a key at another query token hold so well, of a head's answer; a new column of
# W leaves the span of those before by so much, if it does not; and so much of a key is a key bias, if there is none.
FOLLOWED = 1e-8
NO_HEAD = 1e-7  # of all values: those of a head that is not there
ORIENTED = 1e-6  # of all values: how well oriented heads explain answers to three tokens, per length of the key
SMALLEST_COLUMN = 1e-3  # of a key: about the smallest column, in steps, that W is expected to have

# Where numbers stop being of use.
PROPORTIONAL = 1e-3  # of a key, across another: less is a proportional one, which no point of a hyperplane turns off
COLLINEAR = 1e-6  # of the product of two squares: a determinant below says that the two columns are one
READABLE_WEIGHT = 1e-4  # how far from 0 and 1 a weight has to be for its logit
LARGEST_GATE = 1 - 1e-12  # the largest gate that is still a number of its own

# Keys that are asked about.
SPREAD = 4.0  # of the lengths of z, either way
HALF_ON = 2.5  # the largest score of a head that is neither on nor off


@dataclass(frozen=True)
class Pairs:
    """Keys and values of all heads, each pair up to a sign."""

    K: Float[np.ndarray, "H d"]
    V: Float[np.ndarray, "H d"]

    def __len__(self) -> int:
        return len(self.K)

    def __call__(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return 0.5 * (self.gates(Z) * (Z @ self.V.T)).sum(axis=1)

    def gates(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n H"]:
        return np.tanh(Z @ self.K.T / 2)

    def by_keys(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n H"]:
        """The derivative of G by each score."""
        return 0.25 * (1 - self.gates(Z) ** 2) * (Z @ self.V.T)


def fitted_pairs(
    pairs: Pairs,
    Z: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    enough: float,
) -> tuple[Pairs, float]:
    """The pairs that explain the answers, from a first guess, and the weighted root mean square of what is left."""

    def unpack(x: np.ndarray) -> Pairs:
        K, V = x.reshape(2, *pairs.K.shape)
        return Pairs(K, V)

    def residual(x: np.ndarray) -> np.ndarray:
        return weight * (y - unpack(x)(Z))

    def jacobian(x: np.ndarray) -> np.ndarray:
        return weight[:, None] * pair_jacobian(unpack(x), Z)

    x, left = levenberg(residual, jacobian, np.concatenate([pairs.K.ravel(), pairs.V.ravel()]), enough)
    return unpack(x), left


def pair_jacobian(pairs: Pairs, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    """The derivatives of G by all keys and then by all values."""
    parts = pairs.by_keys(Z), 0.5 * pairs.gates(Z)
    return np.concatenate([(part[:, :, None] * Z[:, None]).reshape(len(Z), -1) for part in parts], axis=1)


def with_best_values(
    K: Float[np.ndarray, "H d"],
    Z: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> Pairs:
    """The pairs with these keys whose values explain most."""
    gates = (0.5 * np.tanh(Z @ K.T / 2)[:, :, None] * Z[:, None]).reshape(len(Z), -1)
    V = np.linalg.lstsq(weight[:, None] * gates, weight * y, rcond=None)[0]
    return Pairs(K, V.reshape(K.shape))


def random_keys(count: int, length: float, dim: int, rng: np.random.Generator) -> Float[np.ndarray, "n m"]:
    """Random directions, lengths spread evenly over some octaves."""
    Z = rng.standard_normal((count, dim))
    sizes = length * SPREAD ** rng.uniform(-1, 1, count)
    return Z * (sizes / np.linalg.norm(Z, axis=1))[:, None]


def keys_around(pairs: Pairs, each: int, length: float, rng: np.random.Generator) -> Float[np.ndarray, "n m"]:
    """Random keys for which some head is half on, and as many others: these show keys, those show values."""
    H, dim = pairs.K.shape
    Z = random_keys(H * each, length, dim, rng)
    K = np.repeat(pairs.K, each, axis=0)
    shift = rng.uniform(-HALF_ON, HALF_ON, len(Z)) - (Z * K).sum(axis=1)
    on_edge = Z + (shift / (K**2).sum(axis=1))[:, None] * K
    size = np.linalg.norm(on_edge, axis=1, keepdims=True)
    on_edge *= np.minimum(1.0, SPREAD * length / np.maximum(size, np.finfo(float).tiny))
    return np.vstack([on_edge, random_keys(H * each, length, dim, rng)])
