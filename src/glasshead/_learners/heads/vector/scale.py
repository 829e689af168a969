"""How long tokens must be for scores of about 1: read off how far two-row answers lie from the middle.

`[q + z ; q]` moves the answer by `sum_h sigma(s_h) z B_h`, and by `z B / 2` if all scores are 0. The distance between
the two, over `|z B| / 2`, is a mean of `|tanh(s_h / 2)|`: small scores, saturated ones and all between show in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...._errors import NOT_HEADS, TargetMismatch
from ...._linalg import unit
from ...._meters import Readout, VectorMeter
from ...._oracles import Oracle

TOKEN_LENGTHS = 4.0 ** np.arange(-10, 11)  # lengths tried: a factor of 4 apart, each with directions of its own
REACH_SHARE = 0.49  # of the longest token for each of two that are added
ACTIVE = 0.5  # |tanh(s/2)| at s = 1.1
SCALE_DIRECTIONS = 4  # asked again near the scale found: one alone may be all but orthogonal to the keys
ACTIVE_SCORE = 1.1
BIAS_ROUNDINGS = 16
LEVER = 2.0**12  # key tokens over the last one, where no key bias limits them
CLUTTER = 2.0**16  # the longest last token over key tokens: what it adds to an answer hides what they add
KEY_BIAS_SHARE = 0.5  # of the score that the key bias may take where there is one


@dataclass(frozen=True)
class Scale:
    """Lengths of the key tokens, relative to the last one, and of the last one."""

    key: float
    last: float


def find_token_lengths(oracle: Oracle, readout: Readout, rng: np.random.Generator) -> Scale:
    """At most `2 len(RUNGS) + 3 DIRECTIONS` queries."""
    reach = REACH_SHARE * oracle.reach

    def directions(count: int) -> np.ndarray:
        return unit(rng.standard_normal((count, oracle.dim)))

    def of_key_bias(lengths: np.ndarray) -> np.ndarray:
        keys = lengths[:, None] * directions(len(lengths))
        moved = read_moved(oracle, readout, np.zeros(oracle.dim), keys)
        return activity(oracle, readout, keys, moved, keys @ readout.map / 2)

    limit = find_active_length(of_key_bias, reach)
    key = min(length_above_bias(readout) if limit is None else KEY_BIAS_SHARE * limit, reach)
    few = key * directions(SCALE_DIRECTIONS)
    resting = read_moved(oracle, readout, np.zeros(oracle.dim), few)

    def of_W(lengths: np.ndarray) -> np.ndarray:
        turn = np.arange(len(lengths)) % SCALE_DIRECTIONS
        last = lengths[:, None] * directions(len(lengths))
        return activity(oracle, readout, few[turn], read_moved(oracle, readout, last, few[turn]), resting[turn])

    last = find_active_length(of_W, reach) or reach
    return Scale(key, min(last, CLUTTER * key)) if limit is not None else split_product(key * last, key, reach)


def split_product(product: float, key: float, reach: float) -> Scale:
    """Only the product matters to the scores where there is no key bias."""
    longer = min(max(key, float(np.sqrt(product * LEVER))), reach)
    return Scale(longer, product / longer)


def length_above_bias(readout: Readout) -> float:
    """A length at which tokens stand above the bias."""
    above = 8 * np.linalg.norm(readout.bias) / np.linalg.norm(readout.B, 2)
    return float(2.0 ** np.ceil(np.log2(max(1.0, above))))


def read_moved(oracle: Oracle, readout: Readout, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    q = np.broadcast_to(q, keys.shape)
    return readout.moved(oracle(np.stack([q + keys, q], axis=1)), q)


def activity(oracle: Oracle, readout: Readout, keys: np.ndarray, moved: np.ndarray, resting: np.ndarray) -> np.ndarray:
    """What short keys seem to do may be the rounding of the bias: that much is left aside."""
    rounding = BIAS_ROUNDINGS * oracle.roundoff * float(np.linalg.norm(readout.bias))
    distance = np.maximum(np.linalg.norm(moved - resting, axis=1) - rounding, 0.0)
    return 2 * distance / np.linalg.norm(keys @ readout.map, axis=1)


def find_active_length(measure: Callable[[np.ndarray], np.ndarray], reach: float) -> float | None:
    """The length at which scores are about `SCORE`, or None if they stay small up to `reach`."""
    lengths = np.append(TOKEN_LENGTHS[reach > TOKEN_LENGTHS], reach if reach < TOKEN_LENGTHS[-1] else [])
    active = np.flatnonzero(measure(lengths) >= ACTIVE)
    if len(active) == 0:
        return None
    if active[0] == 0:
        raise TargetMismatch(
            f"{NOT_HEADS}, or its scores are too steep to read: tokens that differ by {lengths[0]:.0e} count unequally"
        )
    length = float(lengths[active[0]]) / 2
    scores = 2 * np.arctanh(np.minimum(measure(np.full(SCALE_DIRECTIONS, length)), 0.98))
    factor = ACTIVE_SCORE / max(float(np.sqrt(np.mean(scores**2))), 1e-3)
    return length * float(np.clip(factor, 1 / 8, 8))


TUNING_ROUNDS = 2
W_SCORE = 1.0  # rms of what W adds to the scores of the head with the largest ones,
KEY_BIAS_SCORE = 0.5  # and of what its key bias gives them
LARGEST_TUNING = 16.0  # tokens grow or shrink by that factor at most


def find_tuned_lengths(meter: VectorMeter, scale: Scale, block: np.ndarray, rng: np.random.Generator) -> Scale:
    """Three queries a round."""
    reach = REACH_SHARE * meter.oracle.reach
    for _ in range(TUNING_ROUNDS):
        last = scale.last * unit(rng.standard_normal((3, meter.oracle.dim)))
        last[0] = 0.0
        scores = meter.read_scores(last, scale.key * block)
        resting = largest_rms(scores[:1])
        shorter = min(1.0, KEY_BIAS_SCORE / resting) if resting > 0 else 1.0
        moved = shorter * largest_rms(scores[1:] - scores[:1])
        last_one = scale.last * float(np.clip(W_SCORE / max(moved, 1e-300), 1 / LARGEST_TUNING, LARGEST_TUNING))
        scale = Scale(min(scale.key * shorter, reach), min(last_one, reach, CLUTTER * scale.key * shorter))
    return scale


def largest_rms(scores: np.ndarray) -> float:
    """The rms score of the head that has the largest."""
    return float(np.sqrt(np.mean(scores**2, axis=(0, 2))).max())
