"""Which family to try next where one did not explain a box: a table, `RULES`, says what after which failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._errors import ALL_HEADS, ASKED_AGAIN, ONE_TOKEN, ONE_TOKEN_LAYER, STRAIGHT_RAYS
from .._oracles import DOUBLE, Opening, Oracle, law_token, near_token
from .guess import (
    LAST_RESORT,
    NO_GUESS,
    ONE_HEAD,
    RESIDUAL_HEADS,
    ROUGH,
    SEVERAL,
    STRAIGHT,
    Guess,
    enough_outputs,
    find_network,
)
from .tries import Failure, Tries, settled

LENGTHS = 2.0**-7, 2.0**-14  # of tokens whose copies are compared; one copy and two, at length 1, are a law of one head
COPIES_ALIKE = 1e-6  # of the size of answers, as for the laws
OUTGROWN = 1.0, 2.0**-10, 2.0**-5, 2.0**5, 2.0**10, 2.0**15, 2.0**20  # lengths at which two tokens may show more
FAR = 2.0**5, 2.0**20  # lengths at which a network that is flat around zero may not be
LOUDER = 4.0  # times the answers to single tokens, which one head never exceeds
SURE = 64.0  # times the error of an answer
TYPICAL_TOKENS = 8  # single tokens whose answers say how large one typically is


def find_residual(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> Guess:
    """Heads beside a residual connection, where answers have as many numbers as that takes."""
    outputs = np.size(np.asarray(oracle(law_token(oracle, rng)[None, None]))[0])
    return RESIDUAL_HEADS if enough_outputs(oracle, outputs) else NO_GUESS


@dataclass(frozen=True)
class Rule:
    """After `family` failed in a way that `fits`, `find` says what to try, from a few queries."""

    family: str
    fits: Callable[[Failure], bool]
    find: Callable[[Oracle, np.random.Generator, Opening], Guess]


def find_cancelling(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> Guess:
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


def find_several(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> Guess:
    """Several heads, unless they break a law of all sums of heads: copies of a token are answered like one, also where
    it is short, or the box sees positions or counts tokens; and of two tokens hardly apart each has half the weight."""
    if oracle.dim == 1:  # all heads turn on at the same keys
        return NO_GUESS
    single = Single(oracle, opening)
    token = law_token(oracle, rng)
    for length in LENGTHS:
        one = single.read(length * token[None])[0]
        three = oracle(np.tile(length * token, (1, 3, 1)))[0]
        size = max(float(np.abs([one, three]).max()), single.read_typical(length, rng))
        loose = (COPIES_ALIKE + SURE * oracle.roundoff) * size
        if float(np.abs(three - one).max()) > loose + 2 * (oracle.tolerance + oracle.rtol * size):
            return NO_GUESS
    near = near_token(oracle, token, law_token(oracle, rng))
    one, other = single.read(np.stack([token, near]))
    both = np.asarray(oracle(np.stack([near, token])[None])[0])
    size, apart = float(np.abs([one, other]).max()), float(np.abs(other - one).max())
    size = max(size, single.read_typical(1.0, rng))
    error = oracle.tolerance + (oracle.rtol + STRAIGHT * oracle.roundoff) * size
    return SEVERAL if float(np.abs(2 * both - one - other).max()) <= 4 * error + apart / 8 else NO_GUESS


@dataclass(frozen=True)
class Single:
    """Answers to single tokens of a sum of heads, which are affine: asked for, or free of charge where an attempt at
    one head has read v and the bias, of answers with nothing but rounding on them."""

    oracle: Oracle
    opening: Opening

    def read(self, tokens: np.ndarray) -> np.ndarray:
        known = self.opening.known
        if self.oracle.exact and "v" in known:
            return np.asarray(tokens @ known["v"] + known["bias"])
        return np.asarray(self.oracle(tokens[:, None]))

    def read_typical(self, length: float, rng: np.random.Generator) -> float:
        """The size of answers to tokens of that length. Where digits are few it takes some of them: what is left of one
        answer that cancels may be hardly more than rounding, which goes with the others."""
        if self.oracle.roundoff <= DOUBLE:
            return 0.0
        tokens = length * np.stack([law_token(self.oracle, rng) for _ in range(TYPICAL_TOKENS)])
        return float(np.abs(self.read(tokens)).max())


def front_guess(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> Guess:
    """One head with something around it, for what is no sum of heads: a residual connection leaves single tokens as
    affine as a head does, and its learner begins with the laws that such boxes obey."""
    return LAST_RESORT if oracle.dim > 1 else NO_GUESS


def find_elsewhere(oracle: Oracle, rng: np.random.Generator, opening: Opening) -> Guess:
    """A network behind the head, if single tokens that are long enough are answered otherwise than all others."""
    lengths = [length for length in FAR if length * min(1.0, oracle.reach) <= oracle.reach]
    if not oracle.exact or not lengths:
        return NO_GUESS
    rays = oracle(np.array([*lengths, *np.negative(lengths)])[:, None, None] * law_token(oracle, rng))
    moved = float(np.ptp(rays, axis=0).max()) > SURE * oracle.roundoff * float(np.abs(rays).max())
    families = ("any-network",) if np.ndim(rays) > 1 else ("transformer", "any-network")
    return Guess(families, "only long tokens are answered differently") if moved else NO_GUESS


RULES = (
    Rule("attention", lambda failure: failure.silent or failure.law == STRAIGHT_RAYS, find_cancelling),
    Rule("attention", lambda failure: failure.silent, find_elsewhere),
    Rule("attention", lambda failure: failure.law == ONE_TOKEN, find_network),
    Rule("attention", lambda failure: failure.not_one, find_several),
    Rule("attention", lambda failure: failure.may_have_front, front_guess),
    Rule("multi-head", lambda failure: failure.law == ONE_TOKEN_LAYER, find_network),
    Rule("multi-head", lambda failure: bool(failure.law) and failure.law not in ALL_HEADS, find_residual),
    Rule("multi-head", lambda failure: failure.may_have_front, front_guess),
    Rule("multi-head", lambda failure: failure.law == ASKED_AGAIN, lambda oracle, rng, opening: ONE_HEAD),  # noise
)


def find_next(oracle: Oracle, tries: Tries, opening: Opening, seed: int) -> Guess:
    """The families to try after those that failed: what is left of the last guess, or else what a rule suggests; none
    where nothing does, or only what was tried, or where it is settled what is raised."""
    if settled(tries):
        return NO_GUESS
    left = tries.last.left
    guess = left if left.families else find_suggested(oracle, tries.last, opening, seed)
    return guess if guess.families and guess.families[0] not in tries.families else NO_GUESS


def find_suggested(oracle: Oracle, failure: Failure, opening: Opening, seed: int) -> Guess:
    """What the first rule suggests that fits and finds something; nothing where the box no longer answers as it did."""
    size = float(np.abs(opening.first).max())
    again = np.asarray(oracle(opening.token[None, None])[0])
    if float(np.abs(again - opening.first).max()) > ROUGH * size:
        return NO_GUESS
    guesses = (rule.find(oracle, np.random.default_rng(seed), opening) for rule in RULES if fits(rule, failure))
    return next((guess for guess in guesses if guess.families), NO_GUESS)


def fits(rule: Rule, failure: Failure) -> bool:
    return rule.family == failure.family and rule.fits(failure)
