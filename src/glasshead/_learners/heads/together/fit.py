"""Keys and values of all heads at one query token, and the even part of the answers that they explain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...._meters import SAFETY, Box
from ...._types import Float
from .levenberg import levenberg


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


@dataclass(frozen=True)
class Even:
    """G of the box at one query token. `loud` is how much heads usually answer per length of a saturating key."""

    box: Box
    q: Float[np.ndarray, " d"]
    loud: float

    def __call__(self, Z: Float[np.ndarray, "n d"]) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys as they were sent, and G there."""
        sent, y = self.box.ask(Z, self.q)
        return sent, y - 0.5 * sent @ self.box.total

    def noise(self, Z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """How far answers to such keys may be off: the promise, and rounding."""
        box, oracle = self.box, self.box.oracle
        size = abs(box.bias) + abs(float(self.q @ box.total)) + np.linalg.norm(Z, axis=1) * self.loud
        return 2 * oracle.tolerance + (2 * oracle.rtol + SAFETY * np.sqrt(box.dim) * oracle.roundoff) * size

    def at(self, q: Float[np.ndarray, " d"]) -> Even:
        return replace(self, q=q)


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

    x, left = levenberg(residual, jacobian, np.concatenate([pairs.K.ravel(), pairs.V.ravel()]), enough)
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
