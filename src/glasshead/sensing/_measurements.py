"""Measurements `a_k^T W b_k = t_k`: checked, brought to one scale, and how many of them it takes.

`EvenRows` are the measurements with entries of size 1, `Point` a matrix with its misfit, `Constraints` the independent
ones among them with a Cholesky factor of their Gram matrix.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from math import ceil, log2
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from .._types import Float
from ._factors import Factors

Triples = tuple[Float[np.ndarray, "m d1"], Float[np.ndarray, "m d2"], Float[np.ndarray, "m"]]


def as_measurements(lefts: ArrayLike, rights: ArrayLike, values: ArrayLike) -> Triples:
    A, B, t = _real("A", lefts, 2), _real("B", rights, 2), _real("t", values, 1)
    if not len(A) == len(B) == len(t):
        raise ValueError(
            f"expected one row of A and one of B per measurement in t, got {len(A)}, {len(B)} and {len(t)}; "
            "pass A (m, d1), B (m, d2), t (m,)"
        )
    if A.size == 0 or B.size == 0:
        raise ValueError(f"expected at least one measurement, got A {A.shape} and B {B.shape}; measure first")
    return A, B, t


def require_matrix_rank(rank: object, d1: int, d2: int, m: int) -> None:
    if not isinstance(rank, int | np.integer) or not 1 <= rank <= min(d1, d2):
        raise ValueError(
            f"expected a whole rank from 1 to {min(d1, d2)} for a {d1} x {d2} matrix, got {rank!r}; "
            "call nuclear_norm(A, B, t) if the rank is not known"
        )
    needed = degrees_of_freedom(d1, d2, int(rank))
    if m < needed:
        raise ValueError(
            f"expected at least {needed} measurements, r(d1 + d2 - r), for rank {rank} of a {d1} x {d2} matrix, "
            f"got {m}; measure {needed - m} more or ask for a lower rank"
        )


def require_settings(tol: float, max_iterations: int) -> None:
    if not 0 < tol < 1:
        raise ValueError(f"expected a relative tolerance 0 < tol < 1, got {tol!r}; leave it out for the default")
    if max_iterations < 1:
        raise ValueError(f"expected max_iterations >= 1, got {max_iterations!r}; leave it out for the default")


def degrees_of_freedom(d1: int, d2: int, rank: int) -> int:
    return rank * (d1 + d2 - rank)


def _real(name: str, values: ArrayLike, ndim: int) -> np.ndarray:
    array = np.asarray(values)
    shape = "(m,)" if ndim == 1 else "(m, d)"
    if array.ndim != ndim:
        raise ValueError(f"expected {name} of shape {shape}, got {array.shape}; pass one row per measurement")
    if array.dtype.kind not in "fiu":
        raise ValueError(
            f"expected real numbers in {name}, got {array.dtype}; measure real and imaginary parts one by one"
            if array.dtype.kind == "c"
            else f"expected real numbers in {name}, got {array.dtype}; convert to a float array first"
        )
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers in {name}, got NaN or infinity; drop those measurements")
    return array


class EvenRows:
    """`A`, `B`, `t` with entries of size 1; `W_here = W / unit`."""

    def __init__(self, A: Float[np.ndarray, "m d1"], B: Float[np.ndarray, "m d2"], t: Float[np.ndarray, "m"]) -> None:
        (self.A, a), (self.B, b) = _evened(A), _evened(B)
        even, unit = _evened((t / a / b)[None])
        self.t, self.unit = even[0], float(unit[0])
        self.lengths = a * b

    def __len__(self) -> int:
        return len(self.t)

    def subset(self, index: np.ndarray) -> EvenRows:
        part = copy(self)
        part.__dict__.pop("single", None)
        part.A, part.B, part.t, part.lengths = (x[index] for x in (self.A, self.B, self.t, self.lengths))
        return part

    @cached_property
    def single(self) -> tuple[Float[np.ndarray, "m d1"], Float[np.ndarray, "m d2"]]:
        """Rows in float32, half the memory traffic; column-major, so that both products of a tangent step run fast."""
        return self.A.astype(np.float32, order="F"), self.B.astype(np.float32, order="F")

    def residual(self, misfit: Float[np.ndarray, "m"]) -> float:
        """Relative, over the measurements as given and over those of unit a_k and b_k: the larger of the two."""
        return max(_ratio(misfit, self.t), _ratio(misfit * self.lengths, self.t * self.lengths))

    def in_callers_units(self, W: Factors) -> Factors:
        return W._replace(s=W.s * self.unit)


class Point:
    """A matrix of rank r with everything about the measurements that a step from it needs."""

    def __init__(self, rows: EvenRows, W: Factors) -> None:
        self.W = W
        self.AU, self.BV = W.U @ rows.A.T, W.V @ rows.B.T
        self.misfit = rows.t - np.einsum("rm,rm->m", self.AU * W.s[:, None], self.BV)
        self.size = float(np.linalg.norm(self.misfit)) / len(rows) ** 0.5
        self.residual = rows.residual(self.misfit)


def _evened(rows: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m"]]:
    """Rows whose entries have size 1, and the size they had. In two steps: squares of tiny numbers would vanish."""
    peak = max(float(rows.max()), -float(rows.min())) or 1.0
    even = rows / peak
    sizes = np.sqrt(np.einsum("md,md->m", even, even) / rows.shape[1])
    sizes[sizes == 0] = 1.0
    even /= sizes[:, None]
    return even, peak * sizes


def _ratio(x: Float[np.ndarray, "m"], y: Float[np.ndarray, "m"]) -> float:
    return float(np.linalg.norm(x) / (np.linalg.norm(y) or 1.0))


# The Gram matrix holds squares: a pivot below this (of a unit diagonal) is a measurement known to six digits already.
DEPENDENT = 1e-12
GRAM_ROWS = 256

(triangular_solve,) = get_blas_funcs(("trsv",), dtype=np.float64)
cholesky, pivoted_cholesky = get_lapack_funcs(("potrf", "pstrf"), dtype=np.float64)


class Constraints:
    """`kept` are the independent measurements, `rows` what they say; the others follow from them or contradict them."""

    def __init__(self, rows: EvenRows) -> None:
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


def _gram(rows: EvenRows) -> Float[np.ndarray, "m m"]:
    G = rows.A @ rows.A.T
    G /= rows.A.shape[1] * rows.B.shape[1]
    for i in range(0, len(G), GRAM_ROWS):
        G[i : i + GRAM_ROWS] *= rows.B[i : i + GRAM_ROWS] @ rows.B.T
    return G


def _cholesky(rows: EvenRows) -> tuple[Float[np.ndarray, "k k"], np.ndarray]:
    """A Cholesky factor of the Gram matrix G, made in place, because nothing else here is as large; `.T` because LAPACK
    wants columns and G is symmetric."""
    m, scale = len(rows), (rows.A.shape[1] * rows.B.shape[1]) ** 0.5
    if m <= rows.A.shape[1] * rows.B.shape[1]:
        factor, info = cholesky(_gram(rows).T, lower=1, clean=0, overwrite_a=1)
        if info == 0 and np.min(np.diag(factor)) ** 2 > DEPENDENT:
            factor *= scale
            return factor, np.arange(m)
    factor, pivots, rank, _ = pivoted_cholesky(_gram(rows).T, lower=1, tol=DEPENDENT, overwrite_a=1)
    return np.asfortranarray(factor[:rank, :rank]) * scale, pivots[:rank] - 1


def measurements_needed(dim: int, rank: int, success: float = 0.95) -> int:
    """The number of Gaussian rank-one measurements from which `nuclear_norm` recovers a `dim` x `dim` W of this rank.

    >>> measurements_needed(32, 2)
    334

    Measured, not derived: `bench/sensing/phase.py` looks for the smallest m at which W is recovered, seed by seed. In
    units of the degrees of freedom `r(2d - r)`, the median and, in brackets, what this function asks for:

    | d  | r = 1       | r = 2       | r = 4       | r = 8       |
    |----|-------------|-------------|-------------|-------------|
    | 16 | 2.59 (3.26) | 1.98 (2.35) | 1.55 (1.78) | 1.22 (1.33) |
    | 32 | 2.96 (3.68) | 2.28 (2.69) | 1.87 (2.09) | 1.55 (1.67) |
    | 64 | 3.35 (4.10) | 2.73 (3.04) | 2.23 (2.41) | 1.84 (1.96) |
    | 96 | 3.54 (4.35) | 2.84 (3.24) | 2.40 (2.59) | 2.02 (2.14) |

    The curve is `1 + (0.28 + 0.14 / r) log2(d / r)` and varies by `0.35 / r` (one standard deviation) from seed to
    seed. Both are rounded up, for safety: at every size at most one of the 8 to 40 seeds wanted more. Outside of
    16 <= d <= 96 and r <= 8 it extrapolates. `d^2` measurements determine any W, so it never asks for more.
    """
    if not 1 <= rank <= dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank}; no {dim} x {dim} matrix has another")
    if not 0 < success < 1:
        raise ValueError(f"expected a probability 0 < success < 1, got {success}; leave it out for 0.95")
    curve = 1 + (0.28 + 0.14 / rank) * log2(dim / rank)
    margin = NormalDist().inv_cdf(success) * 0.35 / rank
    return min(ceil(max(curve + margin, 1.0) * rank * (2 * dim - rank)), dim * dim)
