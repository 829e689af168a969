"""What a caller may pass in, and the sentence they get when it is something else."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._types import Float

Triples = tuple[Float[np.ndarray, "m d1"], Float[np.ndarray, "m d2"], Float[np.ndarray, "m"]]


def checked(lefts: ArrayLike, rights: ArrayLike, values: ArrayLike) -> Triples:
    A, B, t = _real("A", lefts, 2), _real("B", rights, 2), _real("t", values, 1)
    if not len(A) == len(B) == len(t):
        raise ValueError(
            f"expected one row of A and one of B per measurement in t, got {len(A)}, {len(B)} and {len(t)}; "
            "pass A (m, d1), B (m, d2), t (m,)"
        )
    if A.size == 0 or B.size == 0:
        raise ValueError(f"expected at least one measurement, got A {A.shape} and B {B.shape}; measure first")
    return A, B, t


def check_rank(rank: object, d1: int, d2: int, m: int) -> None:
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


def check_settings(tol: float, max_iterations: int) -> None:
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
