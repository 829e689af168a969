"""Singular values of K^T Q without forming it."""

from __future__ import annotations

import numpy as np


def factored_svd(Q: np.ndarray, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    left, upper_k = np.linalg.qr(K.T)
    right, upper_q = np.linalg.qr(Q.T)
    U, s, Vt = np.linalg.svd(upper_k @ upper_q.T)
    return left @ U, s, Vt @ right.T


def numerical_rank(singular_values: np.ndarray, dim: int, floor: float = 0.0) -> int:
    """How many singular values stand above `floor` and above the rounding of a `dim`-dimensional product."""
    if len(singular_values) == 0:
        return 0
    rounding = 4 * dim * np.finfo(singular_values.dtype).eps * singular_values[0]
    return int(np.sum(singular_values > max(floor, rounding)))
