from __future__ import annotations

import numpy as np

from .._numbers import positive
from ._defence import Defence


class clipped(Defence):
    """Tokens longer than `max_norm` are scaled back to that length before the box sees them.

    >>> box = gh.defences.clipped(lambda X: X.sum(axis=(1, 2)), max_norm=5)
    >>> box(np.array([[[30.0, 40.0]], [[3.0, 0.0]]])), box.max_norm
    (array([7., 3.]), 5.0)

    Shorter tokens pass unchanged, so it answers exactly to tokens no longer than `max_norm`, and of longer ones tells
    only the direction.
    """

    def __init__(self, f, max_norm):
        super().__init__(f, f"max_norm={max_norm}")
        limit = positive(max_norm, "max_norm")
        self._limit = limit
        self.max_norm = limit if self.max_norm is None else min(limit, self.max_norm)

    def asked(self, X: np.ndarray) -> np.ndarray:
        # Relative to its largest entry, so that no square overflows.
        largest = np.maximum(np.abs(X).max(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        with np.errstate(over="ignore"):
            length = largest * np.linalg.norm(X / largest, axis=-1, keepdims=True)
        return np.where(length > self._limit, X * (self._limit / np.maximum(length, self._limit)), X)
