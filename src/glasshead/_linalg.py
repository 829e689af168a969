"""Lengths, directions, rotations, singular values and ranks: what numpy has not got in one call."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def norms(x: np.ndarray) -> np.ndarray:
    """The length of every vector along the last axis."""
    return np.linalg.norm(x, axis=-1)


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
