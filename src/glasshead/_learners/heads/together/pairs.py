"""Keys and values of all heads at one query token, and their fit to the even part of the answers that they explain.

At a query token q every head has a key `k_h = W_h q + key_bias_h`. The answer to `[z + q ; q]`, less what q alone gives
and half of `z.total`, is even in z:

    G(z) = sum_h tanh(z.k_h / 2) z.v_h / 2.

It does not change when a pair (k_h, v_h) changes its sign; `orientation` tells signs later. This module has G of given
pairs, its derivatives, the fit of pairs to answers, and random keys to ask about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._least_squares import levenberg
from ...._types import Float

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
