"""Columns known to lie in a span, read two by two.

The coordinates of one column take a little more than one query, and two queries would be too many. So last tokens go in
pairs: `W` is linear, so queries at `cos(t) x + sin(t) x'` for a few angles t read both columns, three queries for two.
"""

from __future__ import annotations

import numpy as np

from .meter import VectorMeter
from .scale import Scale

OVER = 1.2  # scores for each coordinate
FEWER = 0.75  # of the tokens that a head can just tell apart, where there is no need for more
DRAWS = 6


def queries_for(rank: int, each: int) -> int:
    """How many queries it takes to read two columns with so many coordinates, `each` scores at a time."""
    return max(2, int(np.ceil(2 * OVER * rank / each)))


def read_pairs(meter: VectorMeter, scale: Scale, last: np.ndarray, spans: list[np.ndarray], resting, rng) -> np.ndarray:
    """`W_h x + key_bias_h (h, j, d)` for every row x of `last`; `resting (h, d)` are the key biases."""
    largest = max(K.shape[1] for K in spans)
    count = queries_for(largest, meter.at_once)
    angles = np.pi * np.arange(count) / count
    turns = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    blocks = scale.key * best_tokens(meter, spans, turns, largest, rng)
    pairs = np.concatenate([last, last[: len(last) % 2]]).reshape(-1, 2, last.shape[1])
    lasts = np.einsum("ta,pad->tpd", turns, pairs)
    scores = [meter.scores(x, D) - resting @ D.T for x, D in zip(lasts, blocks, strict=True)]
    together = np.concatenate(scores, axis=2)
    each = [solve(together[:, h], spread(blocks, turns, K), K) for h, K in enumerate(spans)]
    return np.stack(each)[:, : len(last)] + resting[:, None]


def spread(blocks: np.ndarray, turns: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The linear map from the coordinates of two columns to all scores of the pair."""
    return np.einsum("ta,tnr->tnar", turns, blocks @ K).reshape(blocks.shape[0] * blocks.shape[1], 2 * K.shape[1])


def solve(scores: np.ndarray, through: np.ndarray, K: np.ndarray) -> np.ndarray:
    return (scores @ np.linalg.pinv(through).T).reshape(2 * len(scores), K.shape[1]) @ K.T


def best_tokens(meter: VectorMeter, spans: list[np.ndarray], turns: np.ndarray, largest: int, rng) -> np.ndarray:
    """Of a few draws the one in which the worst head's coordinates are told apart best."""
    count = len(turns)
    enough = max(FEWER * meter.rank, 2 * OVER * largest / count)
    each = min(meter.at_once, max(1, int(np.ceil(enough))))
    draws = [meter.tokens(each, count * each, rng) for _ in range(DRAWS)]

    def least(blocks: np.ndarray) -> float:
        maps = [spread(blocks, turns, K) for K in spans if K.shape[1]]
        return min((float(np.linalg.svd(M, compute_uv=False)[-1]) for M in maps), default=0.0)

    return max(draws, key=least)
