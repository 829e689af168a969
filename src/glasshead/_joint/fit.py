"""Keys and values of all heads at once, from answers at one query token."""

from __future__ import annotations

import numpy as np

from .._types import Float
from .levenberg import least_squares
from .pairs import Pairs


def fitted(
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
        return weight[:, None] * derivatives(unpack(x), Z)

    x, left = least_squares(residual, jacobian, np.concatenate([pairs.K.ravel(), pairs.V.ravel()]), enough)
    return unpack(x), left


def derivatives(pairs: Pairs, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
    """Of G, by all keys and then by all values."""
    parts = pairs.by_keys(Z), 0.5 * pairs.gates(Z)
    return np.concatenate([(part[:, :, None] * Z[:, None]).reshape(len(Z), -1) for part in parts], axis=1)


def with_values(
    K: Float[np.ndarray, "H d"],
    Z: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> Pairs:
    """The pairs with these keys whose values explain most."""
    gates = (0.5 * np.tanh(Z @ K.T / 2)[:, :, None] * Z[:, None]).reshape(len(Z), -1)
    V = np.linalg.lstsq(weight[:, None] * gates, weight * y, rcond=1e-12)[0]
    return Pairs(K, V.reshape(K.shape))
