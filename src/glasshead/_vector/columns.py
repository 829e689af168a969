"""Every `k_h(x) = W_h x + key_bias_h`, for all heads at once: first some in full, then the others within their span.

A column in full takes d scores, as many queries as it takes tokens to span everything. Once no head's columns leave the
span of those before, the coordinates in that span are all that is left to ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .meter import VectorMeter
from .pairs import queries_for, read_pairs
from .scale import Scale
from .svd import svd

SURE = 4.0  # times the rounding expected in a column, itself generous: a singular value above that is no rounding
MORE = 2  # columns beyond the rank, which must add nothing: that of the zero token, which may be 0, and one more


@dataclass(frozen=True)
class Columns:
    """`k (h, j, d)` for j last tokens, the rank of each head's columns, and the rounding expected in one of them."""

    k: np.ndarray
    ranks: tuple[int, ...]
    noise: np.ndarray


def read_columns(meter: VectorMeter, scale: Scale, last: np.ndarray, blocks: np.ndarray, first: int, rng) -> Columns:
    """`last` are the zero token and d others that span everything; `first` columns are read in full to begin with."""
    k = np.empty((len(meter.readers), 0, last.shape[1]))
    noise = column_noise(meter, scale, blocks)
    while True:
        count = first if k.shape[1] == 0 else max(2, k.shape[1] // 2)
        k = np.concatenate([k, in_full(meter, scale, last[k.shape[1] : k.shape[1] + count], blocks)], axis=1)
        spans = [span(columns, SURE * level) for columns, level in zip(k, noise, strict=True)]
        ranks = tuple(K.shape[1] for K in spans)
        if k.shape[1] == len(last):
            return Columns(k, ranks, noise)
        if max(ranks) <= k.shape[1] - MORE and queries_for(max(ranks), meter.at_once) < 2 * len(blocks):
            inside = np.stack([columns @ K @ K.T for columns, K in zip(k, spans, strict=True)])
            rest = read_pairs(meter, scale, last[k.shape[1] :], spans, inside[:, 0], rng)
            return Columns(np.concatenate([inside, rest], axis=1), ranks, noise)


def in_full(meter: VectorMeter, scale: Scale, last: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    D = scale.key * blocks
    scores = np.concatenate([meter.scores(last, block) for block in D], axis=2)
    return np.einsum("jhn,dn->hjd", scores, np.linalg.pinv(D.reshape(-1, D.shape[2])), optimize=True)


def column_noise(meter: VectorMeter, scale: Scale, blocks: np.ndarray) -> np.ndarray:
    """Rounding in a whole column of each head, roughly."""
    each = np.stack([meter.noise(scale.key * block, scale.last) for block in blocks])
    keys = scale.key * blocks.reshape(-1, blocks.shape[2])
    return np.sqrt(np.mean(each**2, axis=0)) * np.linalg.norm(np.linalg.pinv(keys))


def span(columns: np.ndarray, noise: float) -> np.ndarray:
    """An orthonormal basis `(d, rank)` of what stands above the noise."""
    _, s, right = svd(columns)
    return right[s > noise * np.sqrt(len(columns))].T
