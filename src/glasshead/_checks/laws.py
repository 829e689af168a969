"""Laws that boxes of a family obey, as one table, asked with a handful of queries before the expensive ones.

A law is a linear relation between answers. It makes a few sequences out of one, and the answers to them, each times its
weight, add up to 0, or to what the values that were read before say. Each family picks laws and the sequences to ask
them of; one class asks, and whoever breaks a law is refused with that law as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._errors import (
    ANY_ORDER,
    ASKED_AGAIN,
    EVERY_TOKEN_TWICE,
    HARDLY_APART,
    NOT_HEADS,
    ONE_TOKEN,
    ONE_TOKEN_LAYER,
    ONE_TOKEN_SIDE,
    OPPOSITE_TOKENS,
    STRAIGHT_RAYS,
    THREE_COPIES,
    TWO_COPIES,
    TargetMismatch,
)
from .._meters import Values
from .._oracles import Oracle, law_token, near_token
from .._types import Float
from .compared import Compared
from .noise import Unpromised, find_unpromised


@dataclass(frozen=True)
class Law:
    """`sequences(s)` makes sequences `(B, M, d)` out of `s (B, N, d)`; their answers times `weights` add up to 0.

    The first weight is 1, and the first sequence is the one that evidence shows.
    """

    sequences: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    weights: tuple[float, ...] = (1.0, -1.0)


def alone(s: np.ndarray) -> tuple[np.ndarray, ...]:
    return (s,)


def copied(times: int) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    return lambda s: (np.repeat(s, times, axis=1), s)


def reordered(s: np.ndarray) -> tuple[np.ndarray, ...]:
    """The sequence, and the same with its first token next to its last one."""
    return s, np.concatenate([s[:, 1:-1], s[:, :1], s[:, -1:]], axis=1)


def opposite(s: np.ndarray) -> tuple[np.ndarray, ...]:
    """For `[x ; z]` the sequences `[z + x ; z]`, `[z - x ; z]`, `[x]` and `[0]`."""
    x, z = s[:, :1], s[:, 1:]
    return *(np.concatenate([z + side * x, z], axis=1) for side in (1, -1)), x, 0 * x


LAWS = {
    ASKED_AGAIN: Law(lambda s: (s, s)),
    ONE_TOKEN: Law(alone, (1.0,)),
    ONE_TOKEN_LAYER: Law(alone, (1.0,)),
    ONE_TOKEN_SIDE: Law(alone, (1.0,)),
    TWO_COPIES: Law(copied(2)),
    THREE_COPIES: Law(copied(3)),
    EVERY_TOKEN_TWICE: Law(copied(2)),
    ANY_ORDER: Law(reordered),
    STRAIGHT_RAYS: Law(lambda s: (s, -s, 0 * s), (1.0, 1.0, -2.0)),
    OPPOSITE_TOKENS: Law(opposite, (1.0, -1.0, -1.0, 1.0)),
    HARDLY_APART: Law(lambda s: (s, s[:, -1:])),
}


@dataclass(frozen=True)
class Claim:
    """A law, the sequences `(B, N, d)` it is asked of, what the weighted answers add up to (NaN where nobody knows),
    and the error of that number."""

    law: str
    s: Float[np.ndarray, "B N d"]
    total: np.ndarray | float = 0.0
    error: float = 0.0


@dataclass(frozen=True)
class Slack:
    """How far off a law may be, over the size of answers, beyond the promised error of each answer that it weighs.

    Laws are about what the box is, not about its last digits: `loose` is far above those of double precision, and far
    below what other boxes do. `roundings` of narrower numbers may be more than that.
    """

    loose: float
    roundings: float = 0.0

    def allowed(self, oracle: Oracle, size: float, claim: Claim, promise: float | None = None) -> float:
        """How far off a law about answers of that size may be; `promise` is their error, else it is the oracle's."""
        each = (oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol) if promise is None else promise
        answers = float(np.abs(LAWS[claim.law].weights).sum())
        return answers * each + claim.error + (self.loose + self.roundings * oracle.roundoff) * size


class Asked:
    """The answers to sequences `(B, N, d)`. Each is asked once, unless a law is about asking it again."""

    def __init__(self, ask: Callable[[np.ndarray], np.ndarray]):
        self.ask = ask
        self.answers: dict[tuple, np.ndarray] = {}

    def remember(self, s: np.ndarray, answers: np.ndarray) -> None:
        """What the box answered to these sequences before."""
        self.answers[self.key(s, 0)] = np.asarray(answers)

    @staticmethod
    def key(s: np.ndarray, turn: int) -> tuple:
        return s.shape, s.tobytes(), turn

    @property
    def largest(self) -> float:
        return max(float(np.abs(answers).max()) for answers in self.answers.values())

    def read(self, *claims: Claim) -> list[Compared]:
        """Asks what is not known yet, and sets answers beside what the laws make of the others."""
        asked = [list(self.turns(LAWS[claim.law].sequences(claim.s))) for claim in claims]
        missing = {self.key(s, turn): s for one in asked for s, turn in one if self.key(s, turn) not in self.answers}
        for keys in batches(missing):
            parts = [missing[key] for key in keys]
            answers = np.asarray(self.ask(np.concatenate(parts)))
            self.answers |= zip(keys, np.split(answers, len(keys)), strict=True)
        return [self.compared(claim, one) for claim, one in zip(claims, asked, strict=True)]

    @staticmethod
    def turns(sequences: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, int]]:
        """Each with how often the same law has asked for it already."""
        before: list[np.ndarray] = []
        for s in sequences:
            yield s, sum(np.array_equal(s, other) for other in before)
            before.append(s)

    def compared(self, claim: Claim, sequences: list[tuple[np.ndarray, int]]) -> Compared:
        got, *others = (self.answers[self.key(s, turn)] for s, turn in sequences)
        weighted = zip(LAWS[claim.law].weights[1:], others, strict=True)
        want = claim.total - sum((weight * other for weight, other in weighted), np.zeros(np.shape(got)))
        return Compared(list(sequences[0][0]), got, np.where(np.isnan(want), got, want))


def batches(questions: Iterable[tuple]) -> Iterator[list[tuple]]:
    """Neighbours of the same shape go to the box together, but none with its own repetition."""
    batch: list[tuple] = []
    for key in questions:
        shape, content, _ = key
        if batch and (batch[0][0] != shape or any(other[1] == content for other in batch)):
            yield batch
            batch = []
        batch.append(key)
    if batch:
        yield batch


def refuse_broken(
    claims: Iterable[Claim],
    outcomes: Iterable[Compared],
    allowed: Callable[[Claim], float],
    what: str,
    origin: np.ndarray | float = 0.0,
) -> None:
    """`TargetMismatch` for the first law that does not hold; queries were seen from `origin`."""
    for claim, outcome in zip(claims, outcomes, strict=True):
        evidence = replace(outcome, allowed=allowed(claim)).evidence(claim.law)
        if evidence is not None:
            raise TargetMismatch(what, replace(evidence, query=evidence.query + origin))


# One head, and heads in vector answers, once their values were read.

# Recorded heads break laws by up to 1e-14 of an answer in float64, by a rounding in float32; other boxes one by 6e-5 at
# least.
HEAD_SLACK = Slack(loose=1e-6)  # sixteen roundings of float32: what narrower numbers leave is looked for as noise
LAYER_SLACK = Slack(loose=1e-6, roundings=64.0)  # of which layers in float32 need one


def check_head_laws(
    oracle: Oracle, values: Values, token: np.ndarray, first: np.ndarray, rng: np.random.Generator
) -> Unpromised | None:
    """The laws of one head whose values were read; the noise if what shows first is noise that nobody promised.

    `first` is what the box answered to the one-row query `[token]` before v was read.
    """
    length = float(np.linalg.norm(token))
    size = values.backdrop + values.length * length
    predicted = values.bias_error(oracle) + float(np.sqrt(oracle.dim)) * length * values.entry_error(oracle)
    one, three = token[None, None], np.stack([*(law_token(oracle, rng) for _ in range(2)), token])[None]
    asked = Asked(lambda X: values.of(oracle(X)))
    asked.remember(one, values.of(first[None]))
    claims = [
        Claim(ASKED_AGAIN, one),
        Claim(ONE_TOKEN, one, float(token @ values.v + values.bias), predicted),
        Claim(TWO_COPIES, one),
        Claim(ANY_ORDER, three),
    ]
    again = asked.read(claims[0])
    if oracle.exact and (again[0].off[0] > 0 or oracle.narrow):
        noise = find_unpromised(oracle, values, one[0], float(again[0].got[0]), float(again[0].want[0]), size)
        if noise is not None:
            return noise
    promise = float(values.promise(oracle, size))
    less = "" if oracle.exact else ", or its answers are less accurate than promised"
    refuse_broken(
        claims,
        again + asked.read(*claims[1:]),
        partial(HEAD_SLACK.allowed, oracle, size, promise=promise),
        f"the box is not a single attention head{less}",
    )
    return None


def check_layer_laws(
    oracle: Oracle, B: np.ndarray, bias: np.ndarray, token: np.ndarray, first: np.ndarray, rng: np.random.Generator
) -> None:
    """The laws of several heads in vector answers; `first` is what the box answered to `[token]` before B was read."""
    other, another = (law_token(oracle, rng) for _ in range(2))
    one, three = token[None, None], np.stack([other, another, token])[None]
    size = float(np.abs(bias).max() + np.abs(B).sum(axis=0).max() * np.abs(token).max())
    # No score is steep enough to tell such tokens apart, and any share but a half would be a residual connection's.
    near = np.stack([near_token(oracle, token, other), token])[None]
    nearby = (near[0, 0] - token) @ B
    asked = Asked(oracle)
    asked.remember(one, first[None])
    laws = [
        Claim(ASKED_AGAIN, one),
        Claim(ONE_TOKEN_LAYER, one, token @ B + bias),
        Claim(TWO_COPIES, one),
        Claim(ANY_ORDER, three),
    ]
    half = [Claim(HARDLY_APART, near, nearby / 2, float(np.abs(nearby).max()) / 16)]
    for claims, slack in ((laws, LAYER_SLACK), (half, replace(LAYER_SLACK, loose=0.0))):
        allowed = partial(slack.allowed, oracle, size)
        refuse_broken(claims, asked.read(*claims), allowed, NOT_HEADS)
