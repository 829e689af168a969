"""A head behind a normalisation was read with tokens that are all but zero. Does it hold for ordinary ones?"""

from __future__ import annotations

import numpy as np

from .._meter.lever import longest
from .._models.front_head import FrontHead
from .._oracle import Oracle

SIZE = 0.5  # rms entries: far above any sqrt(eps)
SCATTER = (1.0, 0.3, 0.1, 0.03)  # of the other tokens around the last one: less where scores are too large
SEQUENCES, TOKENS = 8, 4
ENOUGH = 3
LOOSE = 1e-6  # of the range of answers


def holds_for_ordinary_tokens(oracle: Oracle, model: FrontHead, rng: np.random.Generator) -> bool:
    """Whether sequences of ordinary tokens are answered like shorter ones with the same attention output."""
    size = min(SIZE, longest(oracle) / (4 * np.sqrt(oracle.dim)))
    for scatter in SCATTER:
        last = rng.standard_normal((SEQUENCES, 1, oracle.dim))
        others = last + scatter * rng.standard_normal((SEQUENCES, TOKENS - 1, oracle.dim))
        X = size * np.concatenate([others, last], axis=1)
        fits = [which for which in range(SEQUENCES) if can_be_shortened(model, X[which])]
        if len(fits) < ENOUGH:
            continue
        answers = np.asarray(oracle(X[fits])).reshape(len(fits), -1)
        expected = np.asarray(model(X[fits])).reshape(len(fits), -1)
        return float(np.abs(answers - expected).max()) <= LOOSE * float(np.ptp(answers, axis=0).max())
    return False


def can_be_shortened(model: FrontHead, X: np.ndarray) -> bool:
    try:
        return len(list(model.shorter(X))) > 0
    except ValueError:
        return False
