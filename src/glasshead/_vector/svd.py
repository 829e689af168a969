"""A singular value decomposition that does not give up."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def svd(A: np.ndarray, full: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divide and conquer fails on some matrices that are all but singular; the slower way does not."""
    try:
        return np.linalg.svd(A, full_matrices=full)
    except np.linalg.LinAlgError:
        return scipy.linalg.svd(A, full_matrices=full, lapack_driver="gesvd")  # type: ignore[return-value]
