"""A promise gives guarantees; no promise and noise seen gives statistics, labelled as such."""

from __future__ import annotations

import numpy as np

from .._errors import TargetMismatch
from .._oracle import Oracle
from .._oracle.narrow import Narrow, is_narrow
from .attention import learn_attention
from .learned import Learned
from .narrow import from_narrow
from .noise import Unpromised, measure_noise
from .repeated import from_fresh_noise
from .straight import explained


def learn_values(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> Learned:
    """Recover one head from value answers, as accurate as promised or not."""
    unaware = not is_narrow(oracle)
    try:
        return learn_attention(oracle, rng, rank, accuracy)
    except Unpromised as noticed:
        seen = noticed
    except TargetMismatch as mismatch:
        reason, seen = explained(oracle, mismatch, rng), None
        if not (unaware and is_narrow(oracle)):
            raise reason from None
    if seen is None:  # in few dimensions it takes the answers up to here to recognise their format
        return learn_values(oracle, rng, rank, accuracy)
    return from_noise(oracle, seen, rng, rank, accuracy)


def from_noise(oracle: Oracle, seen: Unpromised, rng: np.random.Generator, rank: int | None, accuracy: float | None):
    if not is_narrow(oracle):
        return from_fresh_noise(oracle, measure_noise(oracle, seen), rng, rank, accuracy)
    narrow = Narrow(oracle)
    if not seen.fresh:
        return from_narrow(narrow, rng, rank, accuracy)
    return from_fresh_noise(narrow, measure_noise(narrow, seen), rng, rank, accuracy)
