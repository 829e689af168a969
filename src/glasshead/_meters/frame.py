"""Sets of directions to probe with, each with the way back from scores to vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._linalg import mean_zero, random_rotation
from .._types import Float


@dataclass(frozen=True)
class Frame:
    """n probe directions spanning a subspace, and the n-column inverse: `inverse @ (vectors @ w) = w` for w in it.

    `gain` is the spectral norm of the inverse: by how much errors of the scores can grow.
    """

    vectors: Float[np.ndarray, "n d"]
    inverse: Float[np.ndarray, "d n"]
    gain: float

    def __len__(self) -> int:
        return len(self.vectors)


NO_FRAME = Frame(np.empty((0, 0)), np.empty((0, 0)), 1.0)


def orthonormal_frame(dim: int, rng: np.random.Generator) -> Frame:
    """A random orthonormal basis. Random, so that no structure of W can conspire with it."""
    Q = random_rotation(dim, rng)
    return Frame(Q, Q.T, 1.0)


def simplex(axis: Float[np.ndarray, " d"], rng: np.random.Generator) -> Float[np.ndarray, "d d"]:
    """The d corners of a regular simplex of unit vectors in the hyperplane orthogonal to the unit vector `axis`.

    They sum to zero, and `E^T E = d/(d-1)` times the projection on that hyperplane.
    """
    d = len(axis)
    if d == 1:
        return np.zeros((1, 1))
    return np.sqrt(d / (d - 1)) * mean_zero(d) @ random_rotation(d, rng, axis)[1:]


def cone(axis: Float[np.ndarray, " d"], rng: np.random.Generator, lean: float = np.sqrt(0.5)) -> Frame:
    """d unit vectors that all have the same dot product `lean` with the unit vector `axis`.

    At `lean = 1/sqrt(d)` this is an orthonormal basis (the Householder probes of the design). Leaning further towards
    the axis buys signal, `lean` instead of `1/sqrt(d)`, for a condition of `1/sqrt(1 - lean^2)` across the axis; the
    product is best at 45 degrees, and better than the orthonormal choice by `sqrt(d)/2`.
    """
    d = len(axis)
    if d == 1:
        return Frame(axis[None], axis[:, None], 1.0)
    across = np.sqrt(1 - lean**2)
    corners = simplex(axis, rng)
    inverse = axis[:, None] / (d * lean) + corners.T * ((d - 1) / (d * across))
    gain = max(1 / (lean * np.sqrt(d)), np.sqrt((d - 1) / d) / across)
    return Frame(lean * axis + across * corners, inverse, gain)


def squeezed(axis: np.ndarray, along: np.ndarray, factor: float, rng: np.random.Generator) -> Frame:
    """A cone around `axis` whose vectors are shortened by `factor` along the unit vector `along`.

    All of them have the same dot product with `axis`, as in a plain cone, and small ones with `along`.
    """
    squeezed_axis = axis - (1 - factor) * (axis @ along) * along
    base = cone(squeezed_axis / np.linalg.norm(squeezed_axis), rng)
    vectors = base.vectors - np.outer((1 - factor) * (base.vectors @ along), along)
    inverse = base.inverse + np.outer((1 / factor - 1) * along, along @ base.inverse)
    return Frame(vectors, inverse, base.gain / factor)


ALONG = 1e-8  # of a unit vector: a part across v below that has lost half its digits, and any other does as well
GIVEN_UP = 64.0  # how much signal may be given up to keep keys inside a span that W only nearly fills


def key_pairs(
    v: Float[np.ndarray, " d"], A: Float[np.ndarray, "n d"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n 2 d"], Float[np.ndarray, "n 2"]]:
    """For each unit vector a in `A` two keys that can be seen whatever a is, and the numbers to combine them with:
    `(v + f) / sqrt 2` and `(v - f) / sqrt 2`, v normalised, where a lies in the plane of v and f."""
    v = v / np.linalg.norm(v)
    along = A @ v
    f = A - np.outer(along, v)
    flat = np.linalg.norm(f, axis=1) < ALONG
    f[flat] = rng.standard_normal((int(flat.sum()), len(v)))
    f -= np.outer(f @ v, v)
    f /= np.linalg.norm(f, axis=1, keepdims=True)
    across = np.einsum("nd,nd->n", A, f)
    keys = np.stack([v + f, v - f], axis=1) * np.sqrt(0.5)
    return keys, np.stack([along + across, along - across], axis=1) * np.sqrt(0.5)


def inside_frame(
    v: Float[np.ndarray, " d"], Q: Float[np.ndarray, "d r"], rng: np.random.Generator, exact: bool
) -> Frame:
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
