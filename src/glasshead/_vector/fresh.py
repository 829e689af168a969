"""How far each head may be off: scores of fresh tokens, read head by head, against those of the recovered heads."""

from __future__ import annotations

import numpy as np

from .assemble import HeadScores
from .meter import VectorMeter
from .pairs import FEWER
from .scale import Scale, unit

LAST = 2
CAUTION = 3.0  # two queries show an error only so well
SILENT = 32.0  # times the rounding expected: scores of a head that has none


def fresh_error(meter: VectorMeter, scale: Scale, scores: list[HeadScores], rng: np.random.Generator) -> float:
    """The worst head's relative error; a check of answers alone would hardly see a head with small values.

    The tokens are any, not those that heads read best: errors lie where they read badly.
    """
    D = scale.key * unit(rng.standard_normal((max(1, int(FEWER * meter.rank)), meter.oracle.dim)))
    last = scale.last * unit(rng.standard_normal((LAST, meter.oracle.dim)))
    seen, noise = meter.scores(last, D), meter.noise(D, scale.last)
    errors = [error_of(seen[:, h], own.keys_against(last) @ D.T, float(noise[h])) for h, own in enumerate(scores)]
    return CAUTION * max(errors)


def error_of(seen: np.ndarray, expected: np.ndarray, noise: float) -> float:
    size, off = float(np.linalg.norm(expected)), float(np.linalg.norm(seen - expected))
    if size > 0:
        return off / size
    return 0.0 if off <= SILENT * noise * np.sqrt(seen.size) else 1.0  # nothing to be relative to
