"""What every sum of heads obeys, in a few queries: for all else there is no point in trying harder."""

from __future__ import annotations

import numpy as np

from .._learner.laws import law_token
from .._oracle import Oracle

LENGTHS = 1.0, 2.0**-10  # of tokens, over the one that laws are tested with
BROKEN = 1e-6  # of the largest answer
ERRORS = 8.0  # times the error of an answer


def could_be_heads(oracle: Oracle, rng: np.random.Generator) -> bool:
    """One token is answered by an affine function, copies of it like one, and the order of others does not matter;
    `[q + z ; q]` less `[q - z ; q]` is z.total."""
    return all(laws_hold(oracle, length, rng) for length in LENGTHS)


def laws_hold(oracle: Oracle, length: float, rng: np.random.Generator) -> bool:
    x, y, z = (length * law_token(oracle, rng) / 2 for _ in range(3))
    zero, ahead, back = ask(oracle, [[0 * x], [x], [-x]])
    copies, one, other = ask(oracle, [[x, x, x], [x, y, z], [y, x, z]])
    plus, minus, end = ask(oracle, [[z + x, z], [z - x, z], [z]])
    broken = ahead + back - 2 * zero, copies - ahead, one - other, plus - minus - (ahead - zero)
    largest = float(np.abs([zero, ahead, back, copies, one, other, plus, minus, end]).max())
    allowed = BROKEN * largest + ERRORS * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * largest)
    return bool(np.abs(broken).max() <= allowed)


def largest_change(oracle: Oracle, rng: np.random.Generator) -> float:
    """By how much the answer to three tokens differs from that to the zero token; 0 where rounding would explain it."""
    X = [[length * law_token(oracle, rng) for _ in range(3)] for length in LENGTHS]
    zero, *answers = ask(oracle, [[0 * X[0][0]], *X])
    change, largest = np.abs(np.subtract(answers, zero)), np.maximum(np.abs(answers), abs(zero))
    allowed = ERRORS * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * largest)
    return float(np.max(change, where=change > allowed, initial=0.0))


def ask(oracle: Oracle, sequences: list[list[np.ndarray]]) -> np.ndarray:
    """The answers to sequences of any lengths."""
    return np.array([float(oracle(np.array(sequence)[None])[0]) for sequence in sequences])
