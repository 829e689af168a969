"""Least squares by Levenberg's method, where answers are exact: it ends at rounding, or it is in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ...._meters import SAFETY, Box
from ...._types import Float

ROUNDS, TRIES = 60, 12
START, LEAST = 1e-3, 1e-15  # of the damping, over the mean square of a column
UP, DOWN = 4.0, 5.0
STALLED = 1e-3  # a smaller relative gain than that is none
AGAIN = 2  # rounds without a gain, at the end: rounding takes turns


def least_squares(
    residual: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    x: Float[np.ndarray, " p"],
    enough: float,
) -> tuple[Float[np.ndarray, " p"], float]:
    """The parameters and the root mean square of what is left; once that is `enough`, it goes on while it gains."""
    damping, left, stalled = START, residual(x), 0
    for _ in range(ROUNDS):
        J = jacobian(x)
        if not np.isfinite(J).all():  # parameters that ran away
            break
        scale = np.linalg.norm(J, axis=0)
        scale[scale == 0] = 1.0
        J = J / scale
        square, slope = J.T @ J, J.T @ left
        for _ in range(TRIES):
            tried = x + step(square, slope, damping) / scale
            new = residual(tried)
            if np.linalg.norm(new) < np.linalg.norm(left):
                break
            damping *= UP
        else:
            break
        gain = 1 - np.linalg.norm(new) / np.linalg.norm(left)
        x, left, damping = tried, new, max(damping / DOWN, LEAST)
        stalled = stalled + 1 if gain < STALLED or not left.any() else 0
        if stalled >= AGAIN or (rms(left) <= enough and stalled):
            break
    return x, rms(left)


def step(square: np.ndarray, slope: np.ndarray, damping: float) -> np.ndarray:
    while True:
        try:
            return cho_solve(cho_factor(square + damping * np.eye(len(square))), slope)
        except LinAlgError:
            damping *= 100 * UP


def rms(left: np.ndarray) -> float:
    return float(np.sqrt(np.mean(left**2)))


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
