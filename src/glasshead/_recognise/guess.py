"""What a box may be, as its first answers suggest: a guess.

One-row queries pass through everything behind the heads, so three of them tell heads, whose answers are affine there,
from heads with something behind them; some more tell whether that is linear nearby, as ReLU networks are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._oracles import SINGLE, Opening, Oracle, few_bits, law_token, read_format

# Of the size of answers: a plain head is off by rounding, and a network behind it that bends less than this would show
# in the laws that its learner checks.
BENT = 1e-3
ODD_STEP = 0.5  # of the first token, backwards, where 0 is answered with 0: a whole step says nothing of odd functions
STRAIGHT = 256.0  # roundings of the largest answer
# Whether answers are linear nearby is looked at `NEARBY_PLACES` at a time, at so many points in a row each, over twice
# `NEARBY` times the cube root of the error level: second differences of a curve stand above that level then, and few
# kinks of a ReLU network lie there. Where they do, second differences change abruptly; along a curve they are within
# `EVEN` of the largest. One such place settles it, most often in the first look. Chosen on 600 boxes in float32; of 608
# others 303 of 320 curved ones were told, 3 taken for ReLU networks, and 274 of 288 ReLU networks; the rest looked like
# one head at first.
NEARBY_LOOKS, NEARBY_PLACES, NEARBY_POINTS, NEARBY, EVEN = 2, 2, 5, 2.0, 0.5
NEARBY_ROUNDINGS = 16.0  # of the largest answer, in a second difference
LONGEST_NEARBY = 0.05  # of a token, where much is allowed for: a strong curve would look like noise
# The dimension up to which one head is cheaper to read alone than as a block: ten queries for each entry of W against
# some 300 for each dimension. That there are several shows in less than a hundred.
CHEAPER_ALONE = 32
SHOWN_OUTPUTS = 0.5  # of the dimension: with fewer outputs hardly any value maps show apart
ROUGH = 0.1  # of the change over a step: answers that rough nearby are noise, which the learner of one head tells


@dataclass(frozen=True)
class Guess:
    """The families to try, in this order, and what was seen."""

    families: tuple[str, ...] = ()
    words: str = ""

    def without(self, family: str) -> Guess:
        """What is left to try."""
        return Guess(tuple(other for other in self.families if other != family), self.words)


ONE_HEAD = Guess(("attention",))
NO_GUESS = Guess()
LAST_RESORT = Guess(("any-network",), "no sum of heads explains it")
SEVERAL = Guess(("multi-head",), "one head does not explain it")
RESIDUAL_HEADS = Guess(("block",), "heads alone do not explain it")


def find_families(oracle: Oracle, opening: Opening, seed: int, any_number: bool) -> Guess:
    """Whether one-row answers are affine, as for heads, or else linear nearby, as behind a ReLU network.

    Answers of several numbers with all their digits show by themselves how many heads there are; where a rank or an
    accuracy was asked for, not `any_number` will do. Yes and no do not tell what is behind a head.
    """
    oracle.stage = "telling what it is"
    zero, there = opening.zero, opening.first
    step = 1.0 if np.any(zero) else ODD_STEP
    back = np.asarray(oracle(-step * opening.token[None, None])[0])
    size = float(np.abs([zero, there, back]).max())
    bent = float(np.abs(step * there + back - (1 + step) * zero).max()) * 2 / (1 + step)
    straight = BENT * size + 4 * (oracle.tolerance + oracle.rtol * size)
    if bent > straight and few_bits(np.array([zero, there, back])):
        read_format(oracle, opening)
        straight += 4 * oracle.roundoff * size if oracle.narrow else 0.0
    if bent <= straight:
        read_format(oracle, opening)
        shown = opening.outputs > 1 and oracle.exact and not oracle.narrow and bool(np.any(there != zero))
        return Guess(("multi-head",)) if shown and any_number else ONE_HEAD
    again = np.asarray(oracle(opening.token[None, None])[0])
    promised = 2 * (oracle.tolerance + oracle.rtol * size)
    if float(np.abs(again - there).max()) <= STRAIGHT * shown_roundoff(oracle) * size + promised:
        return find_network(oracle, np.random.default_rng(seed), opening)
    read_format(oracle, opening)
    return ONE_HEAD


def find_network(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> Guess:
    """What lies behind the head, for one-row answers that are not affine."""
    for _ in range(NEARBY_LOOKS if opening.outputs == 1 else 1):
        bends, allowed, noise = read_bends(oracle, rng, opening)
        if np.median(np.abs(bends).max(axis=2)) > max(allowed, noise):
            return ONE_HEAD
        if curved(bends, allowed):
            break
    else:
        if opening.outputs == 1:
            return Guess(("transformer", "any-network"), "one-row answers are not affine but linear nearby")
    families = "any-network", *RESIDUAL_HEADS.families
    if not enough_outputs(oracle, opening.outputs):
        families = families[:1]
    elif oracle.dim > CHEAPER_ALONE:
        families = families[::-1]
    return Guess(families, "one-row answers are not affine, and curved")


def read_bends(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> tuple[np.ndarray, float, float]:
    """Second differences `(places, points - 2, outputs)` of one-row answers, how large errors alone make them, and how
    large those of a function are that is hardly rough."""
    level = nearby_level(oracle, float(np.abs([opening.zero, opening.first]).max()))
    h = min(NEARBY * level ** (1 / 3), LONGEST_NEARBY)
    x, u = (np.stack([law_token(oracle, rng) for _ in range(NEARBY_PLACES)]) for _ in range(2))
    points = (1 - h) * x[:, None] + np.linspace(-h, h, NEARBY_POINTS)[:, None] * u[:, None]
    answers = oracle(points.reshape(-1, 1, oracle.dim)).reshape(NEARBY_PLACES, NEARBY_POINTS, -1)
    size = float(np.abs(answers).max())
    return np.diff(answers, 2, axis=1), max(level, nearby_level(oracle, size)) * size, ROUGH * h * size


def nearby_level(oracle: Oracle, size: float) -> float:
    """How far off a second difference of answers of that size may be, over that size, for all that is promised."""
    promised = oracle.tolerance / size + oracle.rtol if size > 0 else oracle.rtol
    return NEARBY_ROUNDINGS * shown_roundoff(oracle) + 4 * promised


def shown_roundoff(oracle: Oracle) -> float:
    """The roundoff of answers of which a few are known: one that needs all digits of float64 would have shown them."""
    return oracle.roundoff if oracle.format_known else max(oracle.roundoff, SINGLE)


def curved(bends: np.ndarray, allowed: float) -> bool:
    """Whether second differences at some place are those of a curve: none is 0, and they are about equal, as those of a
    function with kinks are not."""
    size = np.abs(bends)
    even = np.ptp(bends, axis=1) <= EVEN * size.max(axis=1)
    return bool(np.any(even & (size.min(axis=1) > allowed)))


def enough_outputs(oracle: Oracle, outputs: int) -> bool:
    """Whether answers may show the heads of a block apart: that takes many numbers, with many digits."""
    return outputs > max(1, SHOWN_OUTPUTS * oracle.dim) and not oracle.narrow
