"""How far each head may be off: scores of fresh tokens, read head by head, against those of the recovered heads."""

from __future__ import annotations

import numpy as np

from .assemble import HeadScores
from .meter import VectorMeter
from .pairs import FEWER
from .scale import Scale, unit

LAST = 2
CAUTION = 3.0  # two queries show an error only so well


def fresh_error(
    meter: VectorMeter, scale: Scale, scores: list[HeadScores], noise: np.ndarray, rng: np.random.Generator
) -> float:
    """The worst head's relative error; a check of answers alone would hardly see a head with small values.

    The tokens are any, not those that heads read best: errors lie where they read badly.
    """
    D = scale.key * unit(rng.standard_normal((max(1, int(FEWER * meter.rank)), meter.oracle.dim)))
    last = scale.last * unit(rng.standard_normal((LAST, meter.oracle.dim)))
    seen = meter.scores(last, D)
    errors = []
    for h, own in enumerate(scores):
        expected = own.keys_against(last) @ D.T
        size = max(float(np.linalg.norm(expected)), 1e3 * float(noise[h]) * scale.key)  # a head with W = 0 has none
        errors.append(float(np.linalg.norm(seen[:, h] - expected)) / size)
    return CAUTION * max(errors)
