"""Keys that the values can see: a key a shows in the answer by `a . v`, so where that is small something is added."""

from __future__ import annotations

import numpy as np

from .._types import Float
from .frame import Frame, cone

GIVEN_UP = 64.0  # how much signal may be given up to keep keys inside a span that W only nearly fills


def pairs(
    v: Float[np.ndarray, " d"], A: Float[np.ndarray, "n d"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n 2 d"], Float[np.ndarray, "n 2"]]:
    """For each unit vector a in `A` two keys that can be seen whatever a is, and the numbers to combine them with:
    `(v + f) / sqrt 2` and `(v - f) / sqrt 2`, v normalised, where a lies in the plane of v and f."""
    v = v / np.linalg.norm(v)
    along = A @ v
    f = A - np.outer(along, v)
    flat = np.linalg.norm(f, axis=1) < 1e-8
    f[flat] = rng.standard_normal((int(flat.sum()), len(v)))
    f -= np.outer(f @ v, v)
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    across = np.einsum("nd,nd->n", A, f)
    keys = np.stack([v + f, v - f], axis=1) * np.sqrt(0.5)
    return keys, np.stack([along + across, along - across], axis=1) * np.sqrt(0.5)


def inside(v: Float[np.ndarray, " d"], Q: Float[np.ndarray, "d r"], rng: np.random.Generator, exact: bool) -> Frame:
    """Keys for vectors known to lie in the span of the orthonormal columns of `Q`, exactly or nearly so.

    What v has outside that span is seen but scores nothing, so it may light up every key; where much of v lies inside,
    or scores outside may not quite be zero, the keys lean towards the inner part instead.
    """
    inner = Q.T @ v
    outer = v - Q @ inner
    norm_in, norm_out = np.linalg.norm(inner), np.linalg.norm(outer)
    axis = inner / norm_in if norm_in > 0 else np.eye(len(inner))[0]
    if norm_out < (1 if exact else GIVEN_UP) * norm_in:
        base = cone(axis, rng)
        return Frame(base.vectors @ Q.T, Q @ base.inverse, base.gain)
    base = cone(axis, rng, lean=float(1 / np.sqrt(len(inner))))
    vectors = (base.vectors @ Q.T + outer / norm_out) * np.sqrt(0.5)
    return Frame(vectors, Q @ base.inverse * np.sqrt(2), float(base.gain * np.sqrt(2)))
