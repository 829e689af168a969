"""The parameters of all heads side by side: a batch costs a few matrix products, however many heads there are."""

from __future__ import annotations

import numpy as np

from .attention import Attention


class Stacked:
    """Factors padded with zeros to the largest rank where every head has them, otherwise whole matrices."""

    def __init__(self, heads: tuple[Attention, ...]):
        self.dim = heads[0].dim
        factors = [head._factors for head in heads if head._factors is not None]
        factored = len(factors) == len(heads)
        self.Q = stack([Q for Q, _ in factors] if factored else [head.W for head in heads])
        self.K = stack([K for _, K in factors]) if factored else None
        biased = any(head.has_key_bias for head in heads)
        self.key_bias = np.stack([head.key_bias for head in heads])[:, None] if biased else None
        self.v = np.stack([head.v for head in heads])

    def keys_against(self, last: np.ndarray) -> np.ndarray:
        """`(H, B, d)`."""
        rows = last @ self.Q.reshape(-1, self.dim).T
        by_head = rows.reshape(len(last), *self.Q.shape[:2]).swapaxes(0, 1)
        keys = by_head if self.K is None else by_head @ self.K
        return keys if self.key_bias is None else keys + self.key_bias

    def read(self, batch: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """What the heads answer together, for `weights (B, H, N)`."""
        if self.v.ndim == 2:
            return np.einsum("bhn,bhn->b", weights, self.v @ batch.swapaxes(1, 2))
        # With k outputs it is cheaper to add up tokens before reading them than to read every token for every head.
        by_input = self.v.reshape(-1, self.v.shape[2])
        return (weights @ batch).reshape(len(batch), len(by_input)) @ by_input


def stack(matrices: list[np.ndarray]) -> np.ndarray:
    rows = max(map(len, matrices))
    return np.stack([np.pad(M, ((0, rows - len(M)), (0, 0))) for M in matrices])
