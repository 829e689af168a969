"""Columns known to lie in a span, read two by two.

The coordinates of one column take a little more than one query, and two queries would be too many. So last tokens go in
pairs: `W` is linear, so queries at `cos(t) x + sin(t) x'` for a few angles t read both columns, three queries for two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._linalg import svd
from ...._meters import VectorMeter
from .scale import Scale

SCORES_EACH = 1.2  # scores for each coordinate
MORE_SCORES = 0.6  # beyond one, where digits are few, times the effort
TOKEN_SHARE = 0.75  # of the tokens that a head can just tell apart, where there is no need for more
TOKEN_DRAWS = 6


def scores_per_pair(meter: VectorMeter, rank: int) -> float:
    """How many scores it takes to read two columns with so many coordinates."""
    return 2 * (1 + MORE_SCORES * meter.effort if meter.few_digits else SCORES_EACH) * rank


def queries_per_pair(meter: VectorMeter, rank: int) -> int:
    return max(2, int(np.ceil(scores_per_pair(meter, rank) / meter.at_once)))


def read_column_pairs(
    meter: VectorMeter, scale: Scale, last: np.ndarray, spans: list[np.ndarray], resting, rng
) -> np.ndarray:
    """`W_h x + key_bias_h (h, j, d)` for every row x of `last`; `resting (h, d)` are the key biases."""
    largest = max(K.shape[1] for K in spans)
    count = queries_per_pair(meter, largest)
    angles = np.pi * np.arange(count) / count
    turns = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    blocks = scale.key * best_tokens(meter, spans, turns, largest, rng)
    pairs = np.concatenate([last, last[: len(last) % 2]]).reshape(-1, 2, last.shape[1])
    lasts = np.einsum("ta,pad->tpd", turns, pairs)
    scores = [meter.read_scores(x, D) - resting @ D.T for x, D in zip(lasts, blocks, strict=True)]
    together = np.concatenate(scores, axis=2)
    each = [solved_columns(together[:, h], score_map(blocks, turns, K), K) for h, K in enumerate(spans)]
    return np.stack(each)[:, : len(last)] + resting[:, None]


def score_map(blocks: np.ndarray, turns: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The linear map from the coordinates of two columns to all scores of the pair."""
    return np.einsum("ta,tnr->tnar", turns, blocks @ K).reshape(blocks.shape[0] * blocks.shape[1], 2 * K.shape[1])


def solved_columns(scores: np.ndarray, through: np.ndarray, K: np.ndarray) -> np.ndarray:
    return (scores @ np.linalg.pinv(through).T).reshape(2 * len(scores), K.shape[1]) @ K.T


def best_tokens(meter: VectorMeter, spans: list[np.ndarray], turns: np.ndarray, largest: int, rng) -> np.ndarray:
    """The tokens, of a few draws, with which the worst head's coordinates are told apart best."""
    count = len(turns)
    enough = max(TOKEN_SHARE * meter.rank, scores_per_pair(meter, largest) / count)
    each = min(meter.at_once, max(1, int(np.ceil(enough))))
    draws = [meter.tokens(each, count * each, rng) for _ in range(TOKEN_DRAWS)]

    def least(blocks: np.ndarray) -> float:
        maps = [score_map(blocks, turns, K) for K in spans if K.shape[1]]
        return min((float(np.linalg.svd(M, compute_uv=False)[-1]) for M in maps), default=0.0)

    return max(draws, key=least)


# Times the rounding expected in a column, itself generous: a singular value above that is no rounding.
COLUMN_ROUNDINGS = 4.0
OVERESTIMATED = 16.0  # how many times too large the rounding that is expected may be, at most
CLEAR_GAP = 16.0  # between singular values of columns and of rounding, if there is no doubt which is which
SPARE_READ = 2  # columns beyond the rank, which must add nothing: that of the zero token, which may be 0, and one more
# Columns beyond the rank where digits are few, as a share of it, times the effort. As many as the rank show badly the
# direction that they share least: errors along it are thirty times larger at rank 32.
MORE_COLUMNS = 0.5


@dataclass(frozen=True)
class LayerColumns:
    """`k (h, j, d)` for j last tokens, the rank of each head's columns, and the rounding expected in one of them;
    `by_gap` where that is a rough guess."""

    k: np.ndarray
    ranks: tuple[int, ...]
    noise: np.ndarray
    by_gap: bool


def columns_for_span(meter: VectorMeter, rank: int) -> int:
    """How many columns show the span of columns of that rank."""
    return rank + int(np.ceil(MORE_COLUMNS * meter.effort * rank)) * meter.few_digits + SPARE_READ


def read_layer_columns(
    meter: VectorMeter, scale: Scale, last: np.ndarray, blocks: np.ndarray, first: int, rng
) -> LayerColumns:
    """`last` are the zero token and d others that span everything; `first` columns are read in full to begin with."""
    k = np.empty((len(meter.readers), 0, last.shape[1]))
    noise = column_noise(meter, scale, blocks)
    while True:
        count = first if k.shape[1] == 0 else max(2, k.shape[1] // 2)
        k = np.concatenate([k, read_in_full(meter, scale, last[k.shape[1] : k.shape[1] + count], blocks)], axis=1)
        levels = zip(k, COLUMN_ROUNDINGS * noise, strict=True)
        spans = [span(columns, level, meter.few_digits) for columns, level in levels]
        ranks = tuple(K.shape[1] for K in spans)
        if k.shape[1] == len(last):
            return LayerColumns(k, ranks, noise, meter.few_digits)
        if columns_for_span(meter, max(ranks)) <= k.shape[1] and queries_per_pair(meter, max(ranks)) < 2 * len(blocks):
            inside = np.stack([columns @ K @ K.T for columns, K in zip(k, spans, strict=True)])
            rest = read_column_pairs(meter, scale, last[k.shape[1] :], spans, inside[:, 0], rng)
            return LayerColumns(np.concatenate([inside, rest], axis=1), ranks, noise, meter.few_digits)


def read_in_full(meter: VectorMeter, scale: Scale, last: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    D = scale.key * blocks
    scores = np.concatenate([meter.read_scores(last, block) for block in D], axis=2)
    return np.einsum("jhn,dn->hjd", scores, np.linalg.pinv(D.reshape(-1, D.shape[2])), optimize=True)


def column_noise(meter: VectorMeter, scale: Scale, blocks: np.ndarray) -> np.ndarray:
    """Rounding in a whole column of each head, roughly."""
    each = np.stack([meter.noise(scale.key * block, scale.last) for block in blocks])
    keys = scale.key * blocks.reshape(-1, blocks.shape[2])
    return np.sqrt(np.mean(each**2, axis=0)) * np.linalg.norm(np.linalg.pinv(keys))


def span(columns: np.ndarray, noise: float, by_gap: bool = False) -> np.ndarray:
    """An orthonormal basis `(d, rank)` of what stands above the noise; and, `by_gap`, above the widest gap near it."""
    _, s, right = svd(columns)
    level = noise * np.sqrt(len(columns))
    rank = int(np.sum(s > level))
    if by_gap and rank > 0:
        near, s = int(np.sum(s > level / OVERESTIMATED)), np.append(s, 0.0)
        gaps = s[rank - 1 : near] / np.maximum(s[rank : near + 1], np.finfo(float).tiny)
        rank += int(np.argmax(gaps)) if gaps.max() > CLEAR_GAP else 0
    return right[:rank].T
