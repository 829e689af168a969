"""What `gh.blockdiag` accepts, and the sentence for everything else."""

from __future__ import annotations

import numpy as np

from .._arrays import as_real, check_shape
from .._numbers import real
from .._types import Float

ASYMMETRY = 0.1  # of the size of an entry: as much can be error


def checked(matrices, tol: float | None) -> Float[np.ndarray, "m n n"]:
    """The symmetric parts, as one array. A little asymmetry is error; it is averaged out."""
    if tol is not None:
        real(tol, "tol", "None or a number >= 0", lambda x: x >= 0)
    A = as_real(matrices, "matrices").astype(np.float64, copy=False)
    A = A[None] if A.ndim == 2 else A
    fits = A.ndim == 3 and A.shape[1] == A.shape[2] and A.size > 0
    check_shape(fits, "matrices of shape (m, n, n) with m, n >= 1", A.shape)
    symmetric = (A + A.transpose(0, 2, 1)) / 2
    asymmetry, size = np.sqrt(np.mean((A - symmetric) ** 2)), np.sqrt(np.mean(A**2))
    if asymmetry > max(ASYMMETRY * size, 3 * (tol or 0.0)):
        raise ValueError(
            f"expected symmetric matrices, got entries that differ from their mirror images by {2 * asymmetry:.2g}, "
            f"where an entry has size {size:.2g}; pass the symmetric parts (A + A.T) / 2 if the rest is error"
        )
    return symmetric
