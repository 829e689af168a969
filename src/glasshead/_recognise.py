"""What a box could be, from a handful of one-row queries: they pass through everything behind the head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._checks import law_token
from ._errors import ALL_HEADS, ANY_RANK, ONE_TOKEN, STRAIGHT_RAYS, AccuracyUnreachable, GlassheadError, NotIdentifiable
from ._oracles import Oracle, Replayed

CLEARLY = 1e-3  # of the answers' size: less is not worth a closer look yet
PLACES = 3  # where the answers are tested for being linear nearby; a kink may spoil one of them
STRAIGHT_NEARBY = 256.0  # roundings of the largest answer
ROUGH = (
    0.1  # of the change over such a step: answers that rough nearby are noise, which is for the same learner to tell
)
PLAIN = ("attention",)
OUTGROWN = 1.0, 2.0**-10, 2.0**-5, 2.0**5, 2.0**10, 2.0**15, 2.0**20  # lengths at which two tokens may show more
LOUDER, SURE = 4.0, 64.0  # times the answers to one token, which one head never exceeds; times the error of an answer
ONE_IS_NOT_ENOUGH = "one head does not explain it"
LENGTHS, ALIKE = (1.0, 2.0**-7, 2.0**-14), 1e-6  # of a token; and what counts as alike, of the answers' size


@dataclass(frozen=True)
class Look:
    """The families to try, in this order, and what was seen."""

    families: tuple[str, ...]
    words: str = ""

    def without(self, family: str) -> Look | None:
        """What is left to try, if anything."""
        rest = tuple(other for other in self.families if other != family)
        return Look(rest, self.words) if rest else None


def look(oracle: Replayed, seed: int) -> Look:
    """Whether one-row answers are affine, as for a plain head, or else linear nearby, as behind a ReLU network.

    Yes and no do not tell, and a network behind the head makes them ten times as dear: for that one has to ask.
    """
    if oracle.answers == "sign":
        return Look(PLAIN)
    oracle.stage = "telling what it is"
    token = law_token(oracle, np.random.default_rng(seed))  # the one that the learner of a plain head will ask for
    X = np.stack([np.zeros_like(token), token, -token])[:, None]
    zero, there, back = oracle.remember(X)
    size = float(np.abs([zero, there, back]).max())
    bent = float(np.abs(there + back - 2 * zero).max())
    if bent <= CLEARLY * size + 4 * (oracle.tolerance + oracle.rtol * size):
        return Look(PLAIN)
    again = oracle.inner(X[1:2])[0]  # noise that is not the same twice is for the learner of a plain head to tell
    fresh = float(np.abs(again - there).max()) > STRAIGHT_NEARBY * oracle.roundoff * size
    return Look(PLAIN) if fresh else behind(oracle, np.random.default_rng(seed))


def look_again(oracle: Oracle, mismatch: GlassheadError, family: str, seed: int, any_rank: bool) -> Look:
    """After what a plain head could not have answered. One of a given rank may just have a higher one, unless it broke
    a law in which the rank plays no role."""
    evidence = getattr(mismatch, "evidence", None)
    if family != "attention" or oracle.answers == "sign":
        return Look(())
    silent = isinstance(mismatch, NotIdentifiable) and not isinstance(mismatch, AccuracyUnreachable)
    rough = evidence is not None and evidence.law == STRAIGHT_RAYS
    if (silent or rough) and outgrown(oracle, np.random.default_rng(seed)):
        return Look(("multi-head",), ONE_IS_NOT_ENOUGH)
    if evidence is None:
        return Look(())
    if evidence.law == ONE_TOKEN:
        return behind(oracle, np.random.default_rng(seed))
    several = (
        (any_rank or evidence.law in ANY_RANK)
        and oracle.dim > 1
        and evidence.law not in ALL_HEADS
        and copies_agree(oracle, np.random.default_rng(seed))
    )
    return Look(("multi-head",) if several else (), ONE_IS_NOT_ENOUGH)


def outgrown(oracle: Oracle, rng: np.random.Generator) -> bool:
    """Whether two tokens are answered by far more than each of them alone, beyond the bias. One head answers in
    between; several whose values cancel in every single token need not, and then rounding is all that one token shows.
    """
    one, other = (law_token(oracle, rng) for _ in range(2))
    zero = oracle(np.zeros((1, 1, oracle.dim)))
    for tokens in (length * np.stack([one, other]) for length in OUTGROWN):
        if np.linalg.norm(tokens, axis=1).max() > oracle.reach:
            continue
        alone = float(np.abs(oracle(tokens[:, None]) - zero).max())
        both = oracle(tokens[None])
        error = SURE * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * float(np.abs(both).max()))
        if float(np.abs(both - zero).max()) > LOUDER * alone + error:
            return True
    return False


def copies_agree(oracle: Oracle, rng: np.random.Generator) -> bool:
    """Whether copies of a token are answered like one, at any length of it: else the box sees positions, or counts."""
    token = law_token(oracle, rng)
    for length in LENGTHS:
        one, two, three = (oracle(np.tile(length * token, (1, copies, 1)))[0] for copies in (1, 2, 3))
        size = float(np.abs([one, two, three]).max())
        allowed = ALIKE * size + 2 * (oracle.tolerance + oracle.rtol * size)
        if float(np.abs([two - one, three - one]).max()) > allowed:
            return False
    return True


def behind(oracle: Oracle, rng: np.random.Generator) -> Look:
    """What lies behind the head, for one-row answers that are not affine."""
    h = oracle.roundoff ** (1 / 3)
    x, u = (np.stack([law_token(oracle, rng) for _ in range(PLACES)]) for _ in range(2))
    points = np.stack([(1 - h) * x - h * u, (1 - h) * x, (1 - h) * x + h * u], axis=1)
    left, middle, right = oracle(points.reshape(-1, 1, oracle.dim)).reshape(PLACES, 3, -1).transpose(1, 0, 2)
    size = float(np.abs([left, middle, right]).max())
    bent = np.abs(left + right - 2 * middle).max(axis=1)
    allowed = STRAIGHT_NEARBY * oracle.roundoff * size + 4 * (oracle.tolerance + oracle.rtol * size)
    if np.median(bent) > max(allowed, ROUGH * h * size):
        return Look(PLAIN)
    if middle.shape[1] == 1 and np.median(bent) <= allowed:
        return Look(("transformer", "any-network"), "one-row answers are not affine but linear nearby")
    return Look(("any-network",), "one-row answers are not affine, and curved")
