"""What a scheme hands back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._models import Attention


@dataclass(frozen=True)
class Measured:
    """`W = left @ right` (or `left` alone), its rank, and `||W_hat - W||_F <= bound` with the given confidence."""

    left: np.ndarray
    right: np.ndarray | None
    rank: int
    bound: float
    confidence: float = 1.0

    @property
    def W(self) -> np.ndarray:
        return self.left if self.right is None else self.left @ self.right

    def head(self, v, key_bias, bias) -> Attention:
        """As factors where these are the smaller description, else as one matrix."""
        if self.right is None or 2 * len(self.right) >= len(self.left):
            return Attention(self.W, v, key_bias=key_bias, bias=bias)
        tensors = {"Q": self.right, "K": self.left.T, "v": v, "bias": np.asarray(bias)}
        return Attention.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias})


def from_matrix(W: np.ndarray, bound: float, rank: int) -> Measured:
    """A W none of whose entries can be told from zero is zero."""
    size = float(np.linalg.norm(W))
    if size <= bound:
        return Measured(np.zeros_like(W), None, 0, bound + size)
    return Measured(W, None, rank, bound)
