"""Hessians of `F(z) = f([z + q ; q])` from value queries."""

from __future__ import annotations

import numpy as np

from .._oracle import Oracle
from .._types import Float


def at_zero(oracle: Oracle, q: np.ndarray, v: np.ndarray, step: float) -> Float[np.ndarray, "d d"]:
    """Four times the Hessian at 0, with `d (d + 1) / 2` queries: half of what central differences take.

    For every head `F(z) - F(-z) = z.v`, so with v, the sum of all, known, the even part `F(z) - q.v - z.v / 2` is known
    from z alone.
    """
    Z, a, b = directions(len(q), step)
    even = asked(oracle, Z, q) - q @ v - Z @ v / 2
    return assembled(8 * even / step**2, a, b)


def at_point(oracle: Oracle, q: np.ndarray, z: np.ndarray, step: float) -> Float[np.ndarray, "d d"]:
    """Four times the Hessian at z by central differences: `d (d + 1) + 1` queries."""
    Z, a, b = directions(len(q), step)
    answers = asked(oracle, np.vstack([z + Z, z - Z, z[None]]), q)
    second = answers[: len(Z)] + answers[len(Z) : -1] - 2 * answers[-1]
    return assembled(4 * second / step**2, a, b)


def directions(d: int, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`step * (e_a + e_b)` for a < b, and `step * e_a` for a = b."""
    a, b = np.triu_indices(d)
    unit = np.eye(d)
    return step * (unit[a] + unit[b]) / np.where(a == b, 2, 1)[:, None], a, b


def assembled(quadratic: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The symmetric matrix with these values of `x . A x` along the directions above, steps divided out."""
    diagonal = quadratic[a == b]
    A = np.diag(diagonal)
    A[a, b] = A[b, a] = np.where(a == b, quadratic, (quadratic - diagonal[a] - diagonal[b]) / 2)
    return A


def asked(oracle: Oracle, Z: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.asarray(oracle(np.stack([Z + q, np.broadcast_to(q, Z.shape)], axis=1)))
