"""What two-row answers show before heads are told apart: how long tokens must be, and whether there is only one head.

`[q + z ; q]` moves the answer from that to `[q]` by `sum_h sigma(s_h) z B_h`, and by `z B / 2` if all scores are 0. The
distance between the two, over `|z B| / 2`, is a mean of `|tanh(s_h / 2)|`: small scores, saturated ones and all between
show in it. One head alone moves the answer along the known line `z B`, by a share whose logit is linear in z. Several
heads with different scores leave the line, or, where their value maps are multiples of each other, their logits do not
add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from ...._errors import NOT_HEADS, TargetMismatch
from ...._linalg import LEAST_DIVISOR, rms, unit
from ...._meters import Readout, VectorMeter
from ...._oracles import DOUBLE, Oracle

TRIED_LENGTHS = 4.0 ** np.arange(-10, 11)  # lengths tried: a factor of 4 apart, each with directions of its own
REACH_SHARE = 0.49  # of the longest token for each of two that are added
ACTIVE = 0.5  # |tanh(s/2)| at s = 1.1
SCALE_DIRECTIONS = 4  # asked again near the scale found: one alone may be all but orthogonal to the keys
ACTIVE_SCORE = 1.1
BIAS_ROUNDINGS = 16
LEVER = 2.0**12  # key tokens over the last one, where no key bias limits them
# The longest last token over key tokens, in float64 and with fewer digits: what it adds to answers hides what they add.
CLUTTER, CLUTTER_NARROW = 2.0**16, 2.0**6
KEY_BIAS_SHARE = 0.5  # of the score that the key bias may take where there is one


@dataclass(frozen=True)
class Scale:
    """Lengths of the key tokens, relative to the last one, and of the last one."""

    key: float
    last: float


def find_token_lengths(oracle: Oracle, readout: Readout, rng: np.random.Generator) -> Scale:
    """Finds how long keys and last tokens should be, by at most `2 len(TRIED_LENGTHS) + 3 SCALE_DIRECTIONS` queries."""
    reach = REACH_SHARE * oracle.reach

    def directions(count: int) -> np.ndarray:
        return unit(rng.standard_normal((count, oracle.dim)))

    def read_activity_of_key_bias(lengths: np.ndarray) -> np.ndarray:
        keys = lengths[:, None] * directions(len(lengths))
        moved = read_moved(oracle, readout, np.zeros(oracle.dim), keys)
        return activity(oracle, readout, keys, moved, keys @ readout.map / 2)

    limit = find_active_length(read_activity_of_key_bias, reach)
    key = min(length_above_bias(readout) if limit is None else KEY_BIAS_SHARE * limit, reach)
    few = key * directions(SCALE_DIRECTIONS)
    resting = read_moved(oracle, readout, np.zeros(oracle.dim), few)

    def read_activity_of_W(lengths: np.ndarray) -> np.ndarray:
        turn = np.arange(len(lengths)) % SCALE_DIRECTIONS
        last = lengths[:, None] * directions(len(lengths))
        return activity(oracle, readout, few[turn], read_moved(oracle, readout, last, few[turn]), resting[turn])

    last = find_active_length(read_activity_of_W, reach) or reach
    return (
        Scale(key, min(last, most_clutter(oracle) * key))
        if limit is not None
        else split_product(key * last, key, reach)
    )


def most_clutter(oracle: Oracle) -> float:
    return CLUTTER_NARROW if oracle.roundoff > DOUBLE else CLUTTER


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


NO_SCORE = 1e-3  # in place of a score of 0: keys grow by 8 at most, which scores up to 0.1 have them do


def find_active_length(measure: Callable[[np.ndarray], np.ndarray], reach: float) -> float | None:
    """The length at which scores are about `ACTIVE_SCORE`, or None if they stay small up to `reach`."""
    lengths = np.append(TRIED_LENGTHS[reach > TRIED_LENGTHS], reach if reach < TRIED_LENGTHS[-1] else [])
    active = np.flatnonzero(measure(lengths) >= ACTIVE)
    if len(active) == 0:
        return None
    if active[0] == 0:
        raise TargetMismatch(
            f"{NOT_HEADS}, or its scores are too steep to read: tokens that differ by {lengths[0]:.0e} count unequally"
        )
    length = float(lengths[active[0]]) / 2
    scores = 2 * np.arctanh(np.minimum(measure(np.full(SCALE_DIRECTIONS, length)), 0.98))
    factor = ACTIVE_SCORE / max(rms(scores), NO_SCORE)
    return min(length * float(np.clip(factor, 1 / 8, 8)), reach)


TUNING_ROUNDS = 2
W_SCORE = 1.0  # rms of what W adds to the scores of the head with the largest ones,
KEY_BIAS_SCORE = 0.5  # and of what its key bias gives them
LARGEST_TUNING = 16.0  # tokens grow or shrink by that factor at most


def find_tuned_lengths(meter: VectorMeter, scale: Scale, block: np.ndarray, rng: np.random.Generator) -> Scale:
    """Keys and last tokens of lengths that give scores of about 1, by three queries in each of a few rounds."""
    reach = REACH_SHARE * meter.oracle.reach
    for _ in range(TUNING_ROUNDS):
        last = scale.last * unit(rng.standard_normal((3, meter.oracle.dim)))
        last[0] = 0.0
        scores = meter.read_scores(last, scale.key * block)
        resting = largest_rms(scores[:1])
        shorter = min(1.0, KEY_BIAS_SCORE / resting) if resting > 0 else 1.0
        moved = shorter * largest_rms(scores[1:] - scores[:1])
        last_one = scale.last * float(np.clip(W_SCORE / max(moved, LEAST_DIVISOR), 1 / LARGEST_TUNING, LARGEST_TUNING))
        clutter = most_clutter(meter.oracle) * scale.key * shorter
        scale = Scale(min(scale.key * shorter, reach), min(last_one, reach, clutter))
    return scale


def largest_rms(scores: np.ndarray) -> float:
    """The rms score of the head that has the largest."""
    return float(np.sqrt(np.mean(scores**2, axis=(0, 2))).max())


LINE_ROUNDINGS = 64.0  # roundings of the largest answer: what a line is missed by for no other reason
SAME_SCORES = 1e-9  # of the way that z alone moves answers: at 1e-6, heads 1e-7 apart were read as one, to 1e-3 only
UNSATURATED = 2.0**-10  # of the weight, where the logit of a share still has its digits


def check_one_head(oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator) -> bool:
    """Whether three answers, two keys and their mean direction at one last token, are those of one head."""
    draws = rng.spawn(1)[0]  # so that what follows is the same whether this was looked at or not
    q = scale.last * unit(draws.standard_normal(oracle.dim))
    keys = scale.key * unit(draws.standard_normal((3, oracle.dim)))
    keys[2] = (keys[0] + keys[1]) / 2
    moved, line = read_moved(oracle, readout, q, keys), keys @ readout.map
    length = np.linalg.norm(line, axis=1)
    largest = np.linalg.norm(readout.bias) + np.linalg.norm(readout.B, 2) * (scale.last + scale.key)
    noise = LINE_ROUNDINGS * oracle.roundoff * largest / length
    share = np.sum(moved * line, axis=1) / length**2
    across = np.linalg.norm(moved - share[:, None] * line, axis=1) / length
    if np.any(across > SAME_SCORES + noise):
        return False
    if np.any(np.minimum(share, 1 - share) < UNSATURATED):
        return True  # saturated: what follows will tell
    s = logit(share)
    blur = (SAME_SCORES + noise) / (share * (1 - share))
    return bool(abs(s[2] - (s[0] + s[1]) / 2) <= blur[2] + (blur[0] + blur[1]) / 2)
