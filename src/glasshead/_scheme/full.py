"""Every entry of W: d keys against d queries, d^2 scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._errors import BudgetExceeded
from .._meter import ValueMeter
from .._meter.frame import Frame

BLOCK_SCORES = 2**15  # scores asked for between two looks at what is known
TUNING = 4  # columns after which the scale is settled, where a column has enough scores to tell
ENOUGH = 8


def full(meter: ValueMeter, keys: Frame, queries: Frame) -> tuple[np.ndarray, float]:
    """W, and a bound on `||W_hat - W||_F` from the meter's intervals."""
    scores = np.empty((len(queries), len(keys)))
    width = np.empty_like(scores)
    drift = 0.0
    for part in blocks(len(queries), len(keys)):
        try:
            block = meter.columns(queries.vectors[part], keys.vectors)
        except BudgetExceeded as error:
            error.known |= {"b": queries.vectors[: part.start], "W_b": scores[: part.start] @ keys.inverse.T}
            error.needed = (len(queries) - part.start) * len(keys)
            raise
        scores[part], width[part] = block.t, block.halfwidth
        drift = max(drift, meter.drift)
        if part.start == 0 and len(keys) >= ENOUGH:
            meter = meter.tuned(block.t)
    W = keys.inverse @ scores.T @ queries.inverse.T
    return W, bound(meter, keys, queries, width, float(np.linalg.norm(W)))


def blocks(columns: int, scores_each: int) -> Iterator[slice]:
    yield slice(0, min(TUNING, columns))
    step = max(1, BLOCK_SCORES // scores_each)
    for start in range(TUNING, columns, step):
        yield slice(start, min(start + step, columns))


def bound(meter: ValueMeter, keys: Frame, queries: Frame, width: np.ndarray, W_norm: float) -> float:
    """`W = K^-1 T B^-T`, so errors of the scores grow by the two gains; one that all columns share is spread by `B^-1 1`."""
    rounding = meter.rounding(W_norm) * np.sqrt(width.size)
    shared = meter.drift * np.linalg.norm(queries.inverse.sum(axis=1))
    return float(keys.gain * queries.gain * (np.linalg.norm(width) + rounding) + shared)
