"""Ordinary sequences: what the judge asks, of tokens as users send them and of those that show most of a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np

from .._learned import Learned
from .._linalg import rms
from .._oracles import Oracle
from .held_out import USER_SIZES, even

ALONE, ALONE_LONG = 7, 3  # sequences of one token, which show errors of v; those as long as v was read with
# A sequence for the sizes of users, suited, and larger: suited ones as long as these, or up to the next one, others
# spread evenly from the first to the last, since a box may go by the length, as one that drops what fills no tile.
JUDGED_LENGTHS = 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64
JUDGE_QUERIES = ALONE + 3 * len(JUDGED_LENGTHS)
# Times as many of users' size where numbers have 8 or 11 bits: bounds leave most answers open there, and a box that is
# another one at tokens of some size was met by one or two sequences, of which one in four happens to be answered alike.
NARROW_LOOKS = 3

USERS, SUITED, LARGER, SINGLES = "users", "suited", "larger", "single"  # whose sizes tokens have; or they are alone


class Sequences(NamedTuple):
    """Some of one kind, and the sizes of their tokens."""

    name: str
    X: list[np.ndarray]
    sizes: np.ndarray


def ordinary_sequences(oracle: Oracle, learned: Learned, rng: np.random.Generator) -> list[Sequences]:
    """Tokens of users' size, of the suited one, and larger ones; single tokens; all that the model predicts.

    Suited keys are some times as long and suited last tokens as much shorter, which leaves their scores as they are,
    and some of the single tokens are longer: the box is judged where its parameters were read, too.
    """
    count = len(JUDGED_LENGTHS)
    looks = learned.looks if oracle.answers == "value" else 1
    looks = max(looks, NARROW_LOOKS) if oracle.box.narrow else looks
    suited = np.resize(learned.suits(oracle.reach), count)
    lever, alone_lever = learned.levers(oracle)
    users = 2.0 ** even(*USER_SIZES, looks * count, rng)
    larger = np.maximum(suited, 1.0) * 2.0 ** even(0, 3, count, rng)
    first, *_, last = JUDGED_LENGTHS
    drawn = {
        USERS: (users, stratified(first, last + 1, len(users), rng).astype(int)),
        SUITED: (suited, rng.integers(JUDGED_LENGTHS, (*JUDGED_LENGTHS[1:], last + 1))),
        LARGER: (larger, stratified(first, last + 1, count, rng).astype(int)),
    }
    last_tokens = {USERS: rng.permutation(users)}  # as evenly spread, and at times longer than those before, or shorter
    X = [gaussian_sequences(oracle, each, sizes, rng, last_tokens.get(n)) for n, (sizes, each) in drawn.items()]
    every = [Sequences(name, x, sizes) for (name, (sizes, _)), x in zip(drawn.items(), in_turn(X), strict=True)]
    every[1] = Sequences(SUITED, [levered(oracle, x, lever) for x in every[1].X], lever * suited)
    alone = 2.0 ** even(*USER_SIZES, ALONE, rng)
    alone[:ALONE_LONG] *= alone_lever
    every.append(Sequences(SINGLES, gaussian_sequences(oracle, (1,) * ALONE, alone, rng), alone))
    return [kept for kind in every if (kept := said(learned, kind)).X]


def stratified(low: float, high: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers drawn from a range, one from each of as many parts of it, in any order."""
    return low + (high - low) * (rng.permutation(count) + rng.random(count)) / count


def in_turn(kinds: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """The sequences of every kind, with the largest entry of each last token at another place than those before: a box
    may go by that, and few of the tokens that are drawn have it where they would show."""

    def with_largest_at(x: np.ndarray, place: int) -> np.ndarray:
        last, largest = x[-1].copy(), int(np.abs(x[-1]).argmax())
        last[[place, largest]] = last[[largest, place]]
        return np.concatenate([x[:-1], last[None]])

    places = cycle(range(kinds[0][0].shape[1]))
    return [[with_largest_at(x, next(places)) for x in X] for X in kinds]


def levered(oracle: Oracle, x: np.ndarray, lever: float) -> np.ndarray:
    """Keys that much longer, and a last token that much shorter."""
    return sendable(oracle, np.concatenate([lever * x[:-1], x[-1:] / lever]))


def sendable(oracle: Oracle, tokens: np.ndarray) -> np.ndarray:
    """The tokens, none longer than can be sent."""
    return tokens * np.minimum(1.0, oracle.reach / np.linalg.norm(tokens, axis=1, keepdims=True))


def said(learned: Learned, kind: Sequences) -> Sequences:
    """The sequences of a kind that the model predicts."""
    which = [i for i, x in enumerate(kind.X) if learned.says(x)]
    return Sequences(kind.name, [kind.X[i] for i in which], kind.sizes[which])


def with_doubted(
    kinds: list[Sequences], oracle: Oracle, learned: Learned, doubted: Sequence[np.ndarray]
) -> list[Sequences]:
    """These, and sequences that have shown a box to be something else, among those of users: what explains it explains
    them, too."""
    X = [x for x in doubted if x.shape[1] == oracle.dim and rms(x) > 0]
    more = said(learned, Sequences(USERS, X, np.array([rms(x) for x in X])))
    if not more.X:
        return kinds
    of_users = next((kind for kind in kinds if kind.name == USERS), Sequences(USERS, [], np.zeros(0)))
    both = Sequences(USERS, [*of_users.X, *more.X], np.concatenate([of_users.sizes, more.sizes]))
    return [both, *(kind for kind in kinds if kind.name != USERS)]


def gaussian_sequences(
    oracle: Oracle,
    lengths: Sequence[int] | np.ndarray,
    sizes: np.ndarray,
    rng: np.random.Generator,
    last_sizes: np.ndarray | None = None,
) -> list[np.ndarray]:
    """One sequence of each length, none longer than can be sent, of Gaussian tokens whose entries have exactly that
    root mean square, for a few to show as many sizes as they can; the last token has nearly one of its own, if said."""

    def drawn(length: int, size: float, last: float | None) -> np.ndarray:
        x = rng.standard_normal((length, oracle.dim))
        if last is not None and length > 1:
            x = np.concatenate([size * x[:-1] / rms(x[:-1]), last * x[-1:] / rms(x[-1:])])
        return size * x / rms(x)

    last_of = [None] * len(sizes) if last_sizes is None else last_sizes.tolist()
    each = zip(np.asarray(lengths).tolist(), sizes.tolist(), last_of, strict=True)
    return [sendable(oracle, drawn(*one)) for one in each]
