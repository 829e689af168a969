"""Keys and values of all heads at one query token, and their fit to the even part of the answers that they explain.

At a query token q every head has a key `k_h = W_h q + key_bias_h`. The answer to `[z + q ; q]`, less what q alone gives
and half of `z.total`, is even in z:

    G(z) = sum_h tanh(z.k_h / 2) z.v_h / 2.

It does not change when a pair (k_h, v_h) changes its sign; `orientation` tells signs later. This module has G of given
pairs, its derivatives, the fit of pairs to answers, and random keys to ask about.

The fit is Levenberg's method, for equations that hold exactly: each step solves `(J^T J + damping I) dx = J^T r` with
the columns of J scaled to length 1, and the damping falls while steps help. The normal equations square the condition
of J, which costs digits of a step but none of the solution: the residual is always that of the equations themselves, so
it ends at rounding, or it is in the wrong place. MINPACK's Levenberg-Marquardt
(`scipy.optimize.least_squares(method="lm")`) solves by QR and takes twice as long here (13 s against 6 s on the hidden
heads of the tests); where the problem is small, as in `baselines`, that one is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ...._linalg import rms
from ...._types import Float

STEPS, TRIALS = 60, 12  # at most, and of dampings for each
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-15  # over the mean square of a column; the last one is a few roundings
UP, DOWN = 4.0, 5.0
NO_GAIN = 1e-3  # of the residual: a step that lessens it by less than that gains nothing
STALLS = 2  # steps without a gain, at the end: roundings go up and down


def levenberg(
    residual: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    x: Float[np.ndarray, " p"],
    enough: float,
) -> tuple[Float[np.ndarray, " p"], float]:
    """The parameters and the root mean square of `residual = data - model` there; `jacobian` is that of the model.

    Once the root mean square is `enough` it goes on only while it gains.
    """
    damping, left, stalled = FIRST_DAMPING, residual(x), 0
    for _ in range(STEPS):
        J = jacobian(x)
        if not np.isfinite(J).all():  # parameters that ran away
            break
        scale = np.linalg.norm(J, axis=0)
        scale[scale == 0] = 1.0
        J = J / scale
        square, slope = J.T @ J, J.T @ left
        for _ in range(TRIALS):
            tried = x + damped_step(square, slope, damping) / scale
            new = residual(tried)
            if np.linalg.norm(new) < np.linalg.norm(left):
                break
            damping *= UP
        else:
            break
        gain = 1 - np.linalg.norm(new) / np.linalg.norm(left)
        x, left, damping = tried, new, max(damping / DOWN, LEAST_DAMPING)
        stalled = stalled + 1 if gain < NO_GAIN or not left.any() else 0
        if stalled >= STALLS or (rms(left) <= enough and stalled):
            break
    return x, rms(left)


def damped_step(square: np.ndarray, slope: np.ndarray, damping: float) -> np.ndarray:
    while True:
        try:
            return cho_solve(cho_factor(square + damping * np.eye(len(square))), slope)
        except LinAlgError:
            damping *= 100 * UP


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
