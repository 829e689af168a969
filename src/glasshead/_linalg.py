"""Lengths, directions, singular values and ranks: what numpy has not got in one call.

And two kinds of spaces. A `Frame` is a set of directions to probe with, and the way back from scores to vectors. A null
space is where one head's outputs are: what a two-row query moves the answer by is `y = sum_h a_h z B_h`, and in the
directions that the other heads do not reach `y - a z B` vanishes for the weight a of one head. Over many rows the
matrix of them, with the right weights, has that null space, and Newton's method on "the smallest singular values are
zero" finds both from a rough guess of the latter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ._types import Float

# In place of a 0 that is divided by; `np.finfo(float).tiny`, as others have it, makes larger quotients of the same.
LEAST_DIVISOR = 1e-300


def norms(x: np.ndarray) -> np.ndarray:
    """The length of every vector along the last axis."""
    return np.linalg.norm(x, axis=-1)


def rms(x: np.ndarray) -> float:
    """The root of the mean square of all numbers."""
    return float(np.sqrt(np.mean(np.square(x))))


def unit(x: np.ndarray) -> np.ndarray:
    """Every vector along the last axis at length 1, or 0 where it is 0."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(norm > 0, norm, 1.0)


def factored_svd(Q: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The singular value decomposition of `K^T Q` without forming it."""
    left, upper_k = np.linalg.qr(K.T)
    right, upper_q = np.linalg.qr(Q.T)
    U, s, Vt = np.linalg.svd(upper_k @ upper_q.T)
    return left @ U, s, Vt @ right.T


def spectral_norm(A: np.ndarray) -> float:
    """The largest singular value, from the smaller Gram matrix: half the digits, in far less time than `norm(A, 2)`."""
    gram = A @ A.T if len(A) <= A.shape[1] else A.T @ A
    return float(np.sqrt(max(0.0, np.linalg.eigvalsh(gram)[-1])))


def numerical_rank(singular_values: np.ndarray, dim: int, floor: float = 0.0) -> int:
    """How many singular values stand above `floor` and above the rounding of a `dim`-dimensional product."""
    if len(singular_values) == 0:
        return 0
    rounding = 4 * dim * np.finfo(singular_values.dtype).eps * singular_values[0]
    return int(np.sum(singular_values > max(floor, rounding)))


def svd(A: np.ndarray, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The singular value decomposition of any finite matrix.

    Divide and conquer, which numpy has, fails on some matrices that are all but singular; the slower way does not.
    """
    try:
        return np.linalg.svd(A, full_matrices=full)
    except np.linalg.LinAlgError:
        return scipy.linalg.svd(A, full_matrices=full, lapack_driver="gesvd")  # type: ignore[return-value]


def mean_zero(dim: int) -> np.ndarray:
    """An orthonormal basis, in columns, of the vectors whose entries sum to zero.

    A reflection that swaps the first unit vector and the diagonal; its rows all lean equally on the first one.
    """
    mirror = np.full(dim, -1 / np.sqrt(dim))
    mirror[0] += 1
    reflection = np.eye(dim) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.ascontiguousarray(reflection[:, 1:])


def random_rotation(dim: int, rng: np.random.Generator, first: np.ndarray | None = None) -> np.ndarray:
    """Orthonormal rows, the first along `first` if given."""
    G = rng.standard_normal((dim, dim))
    if first is not None:
        G[:, 0] = first
    Q, R = np.linalg.qr(G)
    return (Q * np.where(np.diag(R) < 0, -1.0, 1.0)).T


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

    At `lean = 1/sqrt(d)` this is an orthonormal basis. Leaning further towards the axis buys signal, `lean` instead of
    `1/sqrt(d)`, for a condition of `1/sqrt(1 - lean^2)` across the axis; the product is best at 45 degrees, and better
    than the orthonormal choice by `sqrt(d)/2`.
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


NULL_ROUNDED = 1e-6  # a ratio of singular values below which failing to fall further means rounding
NEWTON_ROUNDS, ASTRAY = 12, 0.5  # at most; and how far a step may leave 0 and 1, between which weights lie
EQUATIONS_EACH = 1.5  # equations for each unknown


@dataclass(frozen=True)
class NullSpace:
    """A basis of the null space, and how much smaller its singular values are than the others."""

    basis: np.ndarray
    ratio: float


def spare_rows(m: int, rank: int) -> int:
    """Rows beyond m that it takes: `(rank + spare) rank` equations for `m + spare` weights."""
    return max(2, int(np.ceil((EQUATIONS_EACH * m - rank**2) / (rank - min(EQUATIONS_EACH, rank - 0.5)))))


def null_space(Y: np.ndarray, Z: np.ndarray, guess: np.ndarray, rank: int, free: float = 0.0) -> NullSpace:
    """`guess (m, <= rank)` spans most of the null space, nearly. Combinations of weights that move the equations by
    less than a share `free` are not determined by them, and stay as they are."""
    m, ratios = Y.shape[1], []
    weights = best_weights(Y @ guess, Z @ guess)
    best = NullSpace(guess, np.inf)
    for _ in range(NEWTON_ROUNDS):
        A = Y - weights[:, None] * Z
        left, s, right = svd(A, full=True)
        null, left_null = right[m - rank :].T, left[:, m - rank :]
        ratios.append(float(s[m - rank] / s[m - rank - 1]) if m > rank else 0.0)
        if ratios[-1] < best.ratio:
            best = NullSpace(null, ratios[-1])
        if m == rank or (len(ratios) > 1 and ratios[-1] > ratios[-2] / 4 and ratios[-1] < NULL_ROUNDED):
            break
        weights = np.clip(weights + newton_step(left_null, Z @ null, left_null.T @ A @ null, free), -ASTRAY, 1 + ASTRAY)
    return best


def newton_step(left: np.ndarray, z: np.ndarray, residual: np.ndarray, free: float) -> np.ndarray:
    """The least x with `left^T diag(x) z = residual`, but for combinations that move it by less than a share `free`.

    There are many more equations than unknowns. Where few digits are asked for, as `free` does, normal equations have
    them: their matrix is a product of two small ones, entry by entry.
    """
    if not free:
        equations = (left[:, :, None] * z[:, None, :]).reshape(len(z), -1).T
        return np.linalg.lstsq(equations, residual.reshape(-1), rcond=None)[0]
    values, vectors = np.linalg.eigh((left @ left.T) * (z @ z.T))
    seen = values > free**2 * values[-1]
    return vectors[:, seen] @ (vectors[:, seen].T @ np.sum((left @ residual) * z, axis=1) / values[seen])


def best_weights(y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """For each row the weight that brings `y - weight z` closest to 0."""
    return np.clip(np.sum(y * z, axis=1) / np.maximum(np.sum(z**2, axis=1), LEAST_DIVISOR), -ASTRAY, 1 + ASTRAY)
