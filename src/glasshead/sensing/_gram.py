"""The affine set of all W that fit the measurements, known by the m x m Gram matrix `(A A^T) * (B B^T)` alone."""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from .._types import Float
from ._rows import Rows

# The Gram matrix holds squares: a pivot below this (of a unit diagonal) is a measurement known to six digits already.
DEPENDENT = 1e-12
BLOCK = 256

(triangular_solve,) = get_blas_funcs(("trsv",), dtype=np.float64)
cholesky, pivoted_cholesky = get_lapack_funcs(("potrf", "pstrf"), dtype=np.float64)


class Constraints:
    """`kept` are the independent measurements, `rows` what they say; the others follow from them or contradict them."""

    def __init__(self, rows: Rows) -> None:
        self._factor, self.kept = _cholesky(rows)
        self.rows = rows if len(self.kept) == len(rows) else rows.subset(self.kept)

    def measure(self, W: Float[np.ndarray, "d1 d2"]) -> Float[np.ndarray, "m"]:
        return np.einsum("md,md->m", self.rows.A @ W, self.rows.B)

    def adjoint(self, y: Float[np.ndarray, "m"]) -> Float[np.ndarray, "d1 d2"]:
        return self.rows.A.T @ (y[:, None] * self.rows.B)

    def solve(self, x: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """The coefficients y for which `adjoint(y)` measures as x."""
        if not len(x):  # BLAS refuses nothing at all
            return x
        half_way = triangular_solve(self._factor, x, lower=1)
        return triangular_solve(self._factor, half_way, lower=1, trans=1)

    def least_norm(self) -> Float[np.ndarray, "d1 d2"]:
        """The W of smallest Frobenius norm that fits."""
        return self.adjoint(self.solve(self.rows.t))


def _gram(rows: Rows) -> Float[np.ndarray, "m m"]:
    G = rows.A @ rows.A.T
    G /= rows.A.shape[1] * rows.B.shape[1]
    for i in range(0, len(G), BLOCK):
        G[i : i + BLOCK] *= rows.B[i : i + BLOCK] @ rows.B.T
    return G


def _cholesky(rows: Rows) -> tuple[Float[np.ndarray, "k k"], np.ndarray]:
    """In place, because nothing else here is as large; `.T` because LAPACK wants columns and G is symmetric."""
    m, scale = len(rows), (rows.A.shape[1] * rows.B.shape[1]) ** 0.5
    if m <= rows.A.shape[1] * rows.B.shape[1]:
        factor, info = cholesky(_gram(rows).T, lower=1, clean=0, overwrite_a=1)
        if info == 0 and np.min(np.diag(factor)) ** 2 > DEPENDENT:
            factor *= scale
            return factor, np.arange(m)
    factor, pivots, rank, _ = pivoted_cholesky(_gram(rows).T, lower=1, tol=DEPENDENT, overwrite_a=1)
    return np.asfortranarray(factor[:rank, :rank]) * scale, pivots[:rank] - 1
