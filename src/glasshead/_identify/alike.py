"""Which heads score alike: equal (W, key_bias), up to a relative tolerance that does not depend on units of length.

If tokens are measured in another unit, W changes with its square and a key bias with the unit itself. So a key bias is
compared with the root of W, and W with the square of the key bias.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components

from .._models import Attention
from .parts import length

SAME = 1e-9
# With a token q long enough for W q to matter beside a key bias k, scores reach |q| |k| = k^2 / W and are rounded in
# proportion: answers in float64 do not clearly show a part of W smaller than this part of k^2.
ROUNDED = 2.0**-40


def clusters(heads: list[Attention], tol: float) -> list[list[int]]:
    """Indices of heads that score alike, directly or through others."""
    _, labels = connected_components(alike(heads, tol), directed=False)
    return [np.flatnonzero(labels == label).tolist() for label in dict.fromkeys(labels)]


def alike(heads: list[Attention], tol: float) -> np.ndarray:
    matrices, biases = [head.W for head in heads], [head.key_bias for head in heads]
    W, key = np.array([length(M) for M in matrices]), np.array([length(k) for k in biases])
    answer = np.eye(len(heads), dtype=bool)
    for i, j in zip(*np.triu_indices(len(heads), 1), strict=True):
        larger, longer = max(W[i], W[j]), max(key[i], key[j])
        answer[i, j] = (
            abs(W[i] - W[j]) <= (allowed := tol * larger + ROUNDED * longer**2)
            and length(biases[i] - biases[j]) <= tol * max(longer, np.sqrt(larger))
            and length(matrices[i] - matrices[j]) <= allowed
        )
    return answer
