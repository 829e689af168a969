"""The lengths of tokens, settled by a look at real scores."""

from __future__ import annotations

import numpy as np

from .._meter.lever import longest
from .meter import VectorMeter
from .scale import CLUTTER, REACH, Scale, unit

ROUNDS = 2
TARGET = 1.0  # rms of what W adds to the scores of the head with the largest ones,
OFFSET = 0.5  # and of what its key bias gives them
STEP = 16.0  # tokens grow or shrink by that factor at most


def tuned(meter: VectorMeter, scale: Scale, block: np.ndarray, rng: np.random.Generator) -> Scale:
    """Three queries a round."""
    reach = REACH * longest(meter.oracle)
    for _ in range(ROUNDS):
        last = scale.last * unit(rng.standard_normal((3, meter.oracle.dim)))
        last[0] = 0.0
        scores = meter.scores(last, scale.key * block)
        resting = loudest(scores[:1])
        shorter = min(1.0, OFFSET / resting) if resting > 0 else 1.0
        moved = shorter * loudest(scores[1:] - scores[:1])
        last_one = scale.last * float(np.clip(TARGET / max(moved, 1e-300), 1 / STEP, STEP))
        scale = Scale(min(scale.key * shorter, reach), min(last_one, reach, CLUTTER * scale.key * shorter))
    return scale


def loudest(scores: np.ndarray) -> float:
    """The rms score of the head that has the largest."""
    return float(np.sqrt(np.mean(scores**2, axis=(0, 2))).max())
