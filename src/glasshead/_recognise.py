"""Which family a box is of, from a handful of answers, and which to try next where that family did not explain it.

One-row queries pass through everything behind the heads, so three of them tell heads, whose answers are affine there,
from heads with something behind them. What follows is a table: `RULES` says what to try after which failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._errors import (
    ALL_HEADS,
    ANY_RANK,
    ASKED_AGAIN,
    ONE_TOKEN,
    ONE_TOKEN_LAYER,
    SHORTER_KEY,
    STRAIGHT_RAYS,
    AccuracyUnreachable,
    GlassheadError,
    NotIdentifiable,
    law_of,
)
from ._oracles import DOUBLE, Opening, Oracle, law_token, near_token

# Of the size of answers: a plain head is off by rounding, and a network behind it that bends less than this would show
# in the laws that its learner checks.
BENT = 1e-3
NEARBY_PLACES = 3  # where answers are tested for being linear nearby; a kink may spoil one of them
STRAIGHT = 256.0  # roundings of the largest answer
# The dimension up to which one head is cheaper to read alone than as a block: ten queries for each entry of W against
# some 300 for each dimension. That there are several shows in less than a hundred.
CHEAPER_ALONE = 32
SHOWN_OUTPUTS = 0.5  # of the dimension: with fewer outputs hardly any value maps show apart
ROUGH = 0.1  # of the change over a step: answers that rough nearby are noise, which the learner of one head tells
LENGTHS = 2.0**-7, 2.0**-14  # of tokens whose copies are compared; one copy and two, at length 1, are a law of one head
COPIES_ALIKE = 1e-6  # of the size of answers, as for the laws
OUTGROWN = 1.0, 2.0**-10, 2.0**-5, 2.0**5, 2.0**10, 2.0**15, 2.0**20  # lengths at which two tokens may show more
FAR = 2.0**5, 2.0**20  # lengths at which a network that is flat around zero may not be
LOUDER = 4.0  # times the answers to single tokens, which one head never exceeds
SURE = 64.0  # times the error of an answer
TYPICAL_TOKENS = 8  # single tokens whose answers say how large one typically is


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


def find_families(oracle: Oracle, opening: Opening, seed: int, any_number: bool) -> Guess:
    """Whether one-row answers are affine, as for heads, or else linear nearby, as behind a ReLU network.

    Answers of several numbers with all their digits show by themselves how many heads there are; where a rank or an
    accuracy was asked for, not `any_number` will do. Yes and no do not tell what is behind a head.
    """
    oracle.stage = "telling what it is"
    zero, there = opening.zero, opening.first
    back = np.asarray(oracle(-opening.token[None, None])[0])
    size = float(np.abs([zero, there, back]).max())
    bent = float(np.abs(there + back - 2 * zero).max())
    if bent <= BENT * size + 4 * (oracle.tolerance + oracle.rtol * size):
        shown = opening.outputs > 1 and oracle.exact and not oracle.narrow and bool(np.any(there != zero))
        return Guess(("multi-head",)) if shown and any_number else ONE_HEAD
    again = np.asarray(oracle(opening.token[None, None])[0])
    promised = 2 * (oracle.tolerance + oracle.rtol * size)
    fresh = float(np.abs(again - there).max()) > STRAIGHT * oracle.roundoff * size + promised
    return ONE_HEAD if fresh else find_network(oracle, np.random.default_rng(seed))


def find_network(oracle: Oracle, rng: np.random.Generator) -> Guess:
    """What lies behind the head, for one-row answers that are not affine."""
    h = oracle.roundoff ** (1 / 3)
    x, u = (np.stack([law_token(oracle, rng) for _ in range(NEARBY_PLACES)]) for _ in range(2))
    points = np.stack([(1 - h) * x - h * u, (1 - h) * x, (1 - h) * x + h * u], axis=1)
    left, middle, right = oracle(points.reshape(-1, 1, oracle.dim)).reshape(NEARBY_PLACES, 3, -1).transpose(1, 0, 2)
    size = float(np.abs([left, middle, right]).max())
    bent = np.abs(left + right - 2 * middle).max(axis=1)
    allowed = STRAIGHT * oracle.roundoff * size + 4 * (oracle.tolerance + oracle.rtol * size)
    if np.median(bent) > max(allowed, ROUGH * h * size):
        return ONE_HEAD
    if middle.shape[1] == 1 and np.median(bent) <= allowed:
        return Guess(("transformer", "any-network"), "one-row answers are not affine but linear nearby")
    families = "any-network", *RESIDUAL_HEADS.families
    if not enough_outputs(oracle, middle.shape[1]):
        families = families[:1]
    elif oracle.dim > CHEAPER_ALONE:
        families = families[::-1]
    return Guess(families, "one-row answers are not affine, and curved")


def enough_outputs(oracle: Oracle, outputs: int) -> bool:
    """Whether answers may show the heads of a block apart: that takes many numbers, with many digits."""
    return outputs > max(1, SHOWN_OUTPUTS * oracle.dim) and not oracle.narrow


def find_residual(oracle: Oracle, rng: np.random.Generator) -> Guess:
    """Heads beside a residual connection, where answers have as many numbers as that takes."""
    outputs = np.size(np.asarray(oracle(law_token(oracle, rng)[None, None]))[0])
    return RESIDUAL_HEADS if enough_outputs(oracle, outputs) else NO_GUESS


@dataclass(frozen=True)
class Failure:
    """Why a family did not explain the box; `any_rank` unless the caller named one."""

    family: str
    error: GlassheadError
    any_rank: bool

    @property
    def law(self) -> str:
        """The law that the box broke, if that was it."""
        return law_of(self.error)

    @property
    def silent(self) -> bool:
        return isinstance(self.error, NotIdentifiable) and not isinstance(self.error, AccuracyUnreachable)

    @property
    def not_one(self) -> bool:
        """Whether one head is excluded, and several are not. A head of a given rank may just have a higher one, unless
        the law it broke is one in which the rank plays no role."""
        return bool(self.law) and self.law not in ALL_HEADS and (self.any_rank or self.law in ANY_RANK)

    @property
    def may_have_front(self) -> bool:
        """Whether something may stand around one head. Attention that is all or nothing at any length is none."""
        return self.not_one and self.any_rank and self.law != SHORTER_KEY


@dataclass(frozen=True)
class Rule:
    """After `family` failed in a way that `fits`, `find` says what to try, from a few queries."""

    family: str
    fits: Callable[[Failure], bool]
    find: Callable[[Oracle, np.random.Generator], Guess]


def find_cancelling(oracle: Oracle, rng: np.random.Generator) -> Guess:
    """Several heads, if two tokens are answered by far more than each of them alone, beyond the bias. One head answers
    in between; several whose values cancel in every single token need not, and rounding is all that one token shows."""
    one, other = (law_token(oracle, rng) for _ in range(2))
    zero = oracle(np.zeros((1, 1, oracle.dim)))
    for length in OUTGROWN:
        if length * min(1.0, oracle.reach) > oracle.reach:
            continue
        tokens = length * np.stack([one, other])
        alone = float(np.abs(oracle(tokens[:, None]) - zero).max())
        both = oracle(tokens[None])
        error = SURE * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * float(np.abs(both).max()))
        if float(np.abs(both - zero).max()) > LOUDER * alone + error:
            return SEVERAL
    return NO_GUESS


def find_several(oracle: Oracle, rng: np.random.Generator) -> Guess:
    """Several heads, unless they break a law of all sums of heads: copies of a token are answered like one, also where
    it is short, or the box sees positions or counts tokens; and of two tokens hardly apart each has half the weight."""
    if oracle.dim == 1:  # all heads turn on at the same keys
        return NO_GUESS
    token = law_token(oracle, rng)
    for length in LENGTHS:
        one, three = (oracle(np.tile(length * token, (1, copies, 1)))[0] for copies in (1, 3))
        size = max(float(np.abs([one, three]).max()), read_typical(oracle, length, rng))
        loose = (COPIES_ALIKE + SURE * oracle.roundoff) * size
        if float(np.abs(three - one).max()) > loose + 2 * (oracle.tolerance + oracle.rtol * size):
            return NO_GUESS
    near = near_token(oracle, token, law_token(oracle, rng))
    one, other = (np.asarray(y) for y in oracle(np.stack([token, near])[:, None]))
    both = np.asarray(oracle(np.stack([near, token])[None])[0])
    size, apart = float(np.abs([one, other]).max()), float(np.abs(other - one).max())
    size = max(size, read_typical(oracle, 1.0, rng))
    error = oracle.tolerance + (oracle.rtol + STRAIGHT * oracle.roundoff) * size
    return SEVERAL if float(np.abs(2 * both - one - other).max()) <= 4 * error + apart / 8 else NO_GUESS


def read_typical(oracle: Oracle, length: float, rng: np.random.Generator) -> float:
    """The size of answers to single tokens of that length. Where digits are few it takes some queries: what is left of
    one answer that cancels may be hardly more than rounding, which goes with the others."""
    if oracle.roundoff <= DOUBLE:
        return 0.0
    tokens = length * np.stack([law_token(oracle, rng) for _ in range(TYPICAL_TOKENS)])
    return float(np.abs(oracle(tokens[:, None])).max())


def find_front(oracle: Oracle, rng: np.random.Generator) -> Guess:
    """One head with something around it, for what is no sum of heads: a residual connection leaves single tokens as
    affine as a head does, and its learner begins with the laws that such boxes obey."""
    return LAST_RESORT if oracle.dim > 1 else NO_GUESS


def find_elsewhere(oracle: Oracle, rng: np.random.Generator) -> Guess:
    """A network behind the head, if single tokens that are long enough are answered otherwise than all others."""
    lengths = [length for length in FAR if length * min(1.0, oracle.reach) <= oracle.reach]
    if not oracle.exact or not lengths:
        return NO_GUESS
    rays = oracle(np.array([*lengths, *np.negative(lengths)])[:, None, None] * law_token(oracle, rng))
    moved = float(np.ptp(rays, axis=0).max()) > SURE * oracle.roundoff * float(np.abs(rays).max())
    families = ("any-network",) if np.ndim(rays) > 1 else ("transformer", "any-network")
    return Guess(families, "only long tokens are answered differently") if moved else NO_GUESS


LAST_RESORT = Guess(("any-network",), "no sum of heads explains it")
SEVERAL = Guess(("multi-head",), "one head does not explain it")
RESIDUAL_HEADS = Guess(("block",), "heads alone do not explain it")

RULES = (
    Rule("attention", lambda failure: failure.silent or failure.law == STRAIGHT_RAYS, find_cancelling),
    Rule("attention", lambda failure: failure.silent, find_elsewhere),
    Rule("attention", lambda failure: failure.law == ONE_TOKEN, find_network),
    Rule("attention", lambda failure: failure.not_one, find_several),
    Rule("attention", lambda failure: failure.may_have_front, find_front),
    Rule("multi-head", lambda failure: failure.law == ONE_TOKEN_LAYER, find_network),
    Rule("multi-head", lambda failure: bool(failure.law) and failure.law not in ALL_HEADS, find_residual),
    Rule("multi-head", lambda failure: failure.may_have_front, find_front),
    Rule("multi-head", lambda failure: failure.law == ASKED_AGAIN, lambda oracle, rng: ONE_HEAD),  # noise
)


def find_next(oracle: Oracle, failure: Failure, opening: Opening, seed: int) -> Guess:
    """What the first rule suggests that fits and finds something; nothing where the box no longer answers as it did."""
    size = float(np.abs(opening.first).max())
    again = np.asarray(oracle(opening.token[None, None])[0])
    if float(np.abs(again - opening.first).max()) > ROUGH * size:
        return NO_GUESS
    guesses = (rule.find(oracle, np.random.default_rng(seed)) for rule in RULES if fits(rule, failure))
    return next((guess for guess in guesses if guess.families), NO_GUESS)


def fits(rule: Rule, failure: Failure) -> bool:
    return rule.family == failure.family and rule.fits(failure)
