"""Sets of directions to probe with, each with the way back from scores to vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


NOTHING = Frame(np.empty((0, 0)), np.empty((0, 0)), 1.0)


def orthonormal(dim: int, rng: np.random.Generator) -> Frame:
    """A random orthonormal basis. Random, so that no structure of W can conspire with it."""
    Q = random_rotation(dim, rng)
    return Frame(Q, Q.T, 1.0)


def random_rotation(dim: int, rng: np.random.Generator, first: np.ndarray | None = None) -> np.ndarray:
    """Orthonormal rows, the first along `first` if given."""
    G = rng.standard_normal((dim, dim))
    if first is not None:
        G[:, 0] = first
    Q, R = np.linalg.qr(G)
    return (Q * np.where(np.diag(R) < 0, -1.0, 1.0)).T


def simplex(axis: Float[np.ndarray, " d"], rng: np.random.Generator) -> Float[np.ndarray, "d d"]:
    """The d corners of a regular simplex of unit vectors in the hyperplane orthogonal to the unit vector `axis`.

    They sum to zero, and `E^T E = d/(d-1)` times the projection on that hyperplane.
    """
    d = len(axis)
    if d == 1:
        return np.zeros((1, 1))
    # A reflection that sends the first unit vector to the diagonal has rows that all lean equally on it.
    mirror = np.full(d, -1 / np.sqrt(d))
    mirror[0] += 1
    reflection = np.eye(d) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.sqrt(d / (d - 1)) * reflection[:, 1:] @ random_rotation(d, rng, axis)[1:]


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
