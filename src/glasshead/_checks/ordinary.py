"""Ordinary sequences: what the judge asks, of tokens as users send them and of those that show most of a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import NamedTuple

import numpy as np

from .._learned import Learned
from .._linalg import rms
from .._oracles import Oracle
from .held_out import USER_SIZES, even

ALONE, ALONE_LONG = 4, 2  # sequences of one token, which show errors of v; those as long as v was read with
# A sequence for each suited size as long as these, or up to the next one; others of any length between the ends, since
# a box may go by the length, as one that drops what fills no tile.
JUDGED_LENGTHS = 2, 3, 4, 6, 10, 16, 24, 40, 64
FROM_LARGER = 5
# Sequences of users' size: nearly three for every tenth of all there are; eight where half of those that another box
# answers otherwise show nothing, since a yes is a yes, or 8 bits leave so much open.
FROM_USERS, FROM_USERS_COARSE = {"value": 28, "sign": 84}, 84
MOVED_TOO = 3  # one in so many of users' sequences that are answered yes or no is asked next to a change, too
JUDGE_QUERIES = {answers: users + len(JUDGED_LENGTHS) + FROM_LARGER + ALONE for answers, users in FROM_USERS.items()}
JUDGE_QUERIES["sign"] += FROM_USERS["sign"] // MOVED_TOO
DRAWN = 2000  # sequences of users' size that the former are chosen from

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
    users = users_sequences(oracle, rng)
    suited = np.resize(learned.suits(oracle.reach), len(JUDGED_LENGTHS))
    lever, alone_lever = learned.levers(oracle)
    larger = np.maximum(np.resize(learned.suits(oracle.reach), FROM_LARGER), 1.0) * 2.0 ** even(0, 3, FROM_LARGER, rng)
    first, *_, last = JUDGED_LENGTHS
    asked = set(map(len, users))
    lengths = other_lengths([*JUDGED_LENGTHS, last + 1], asked, rng)
    any_lengths = other_lengths(even_parts(first, last + 1, FROM_LARGER), asked | set(lengths), rng)
    drawn = {
        USERS: users,
        SUITED: gaussian_sequences(oracle, lengths, suited, rng),
        LARGER: gaussian_sequences(oracle, any_lengths, larger, rng),
    }
    sizes = {USERS: np.array([rms(x) for x in drawn[USERS]]), SUITED: lever * suited, LARGER: larger}
    every = [Sequences(name, X, sizes[name]) for name, X in zip(drawn, in_turn([*drawn.values()]), strict=True)]
    every[1] = every[1]._replace(X=[levered(oracle, x, lever) for x in every[1].X])
    alone = 2.0 ** even(*USER_SIZES, ALONE, rng)
    alone[:ALONE_LONG] *= alone_lever
    every.append(Sequences(SINGLES, gaussian_sequences(oracle, (1,) * ALONE, alone, rng), alone))
    return [kept for kind in every if (kept := said(learned, kind)).X]


def users_sequences(oracle: Oracle, rng: np.random.Generator, count: int | None = None) -> list[np.ndarray]:
    """Gaussian tokens from half to twice the standard size, of any length: of many such sequences those that are spread
    the most evenly in whatever of it a box may go by, be it the last token's size, or the longest's."""
    first, *_, last = JUDGED_LENGTHS
    count = count or (FROM_USERS_COARSE if oracle.box.narrow else FROM_USERS[oracle.answers])
    of_length = rng.integers(count, size=DRAWN)
    lengths = np.array(asked_lengths(first, last + 1, count, rng))[of_length]
    scale = 2.0 ** rng.uniform(*USER_SIZES, DRAWN)
    norms = scale[:, None] * np.sqrt(rng.chisquare(oracle.dim, (DRAWN, last)))
    norms = np.minimum(norms, oracle.reach)  # of the last token first, and of those before it
    sent = np.arange(last) < lengths[:, None]
    squares = np.where(sent, norms**2, 0.0)
    rest = squares[:, 1:].sum(axis=1) / (lengths - 1)
    goes_by = (
        squares.sum(axis=1) / lengths,
        norms[:, 0],
        norms[:, 1],
        norms[:, 0] ** 2 / rest,
        np.where(sent, norms, 0.0).max(axis=1),
        np.where(sent, norms, np.inf).min(axis=1),
    )
    chosen = spread(np.stack(goes_by, axis=1), of_length, count)

    def tokens(i: int) -> np.ndarray:
        x = rng.standard_normal((lengths[i], oracle.dim))
        return np.roll(norms[i, : lengths[i], None] * x / np.linalg.norm(x, axis=1, keepdims=True), -1, axis=0)

    return [sendable(oracle, tokens(i)) for i in chosen]


def spread(goes_by: np.ndarray, kind: np.ndarray, count: int) -> list[int]:
    """So many rows of these numbers, nearly each of another of as many kinds, that of each column nearly every part, of
    as many parts of equal chance, is met."""
    part = np.c_[kind, goes_by.argsort(axis=0).argsort(axis=0) * count // len(goes_by)]
    columns = np.arange(part.shape[1])
    unmet, chosen = np.ones((len(columns), count), bool), []
    for _ in range(count):
        best = int(np.argmax(unmet[columns, part].sum(axis=1)))
        unmet[columns, part[best]] = False
        chosen.append(best)
    return chosen


def even_parts(low: int, high: int, count: int) -> list[int]:
    """The ends of so many parts of a range, of nearly as many numbers each."""
    return [low + (high - low) * i // count for i in range(count + 1)]


def asked_lengths(low: int, high: int, count: int, rng: np.random.Generator) -> list[int]:
    """So many lengths of a range: no two alike and one of each part of it, or else all of them and then some more."""
    all_of_them = (count - 1) // (high - low) * list(range(low, high))
    ends = even_parts(low, high, count - len(all_of_them))
    return all_of_them + [int(rng.integers(*part)) for part in pairwise(ends)]


def other_lengths(ends: Sequence[int], asked: set[int], rng: np.random.Generator) -> list[int]:
    """One length from each part of a range, given by the ends of parts: one that was not asked, where there is one, for
    a box that goes by the length to be met."""
    parts = (range(*part) for part in pairwise(ends))
    return [int(rng.choice([n for n in part if n not in asked] or list(part))) for part in parts]


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
    oracle: Oracle, lengths: Sequence[int] | np.ndarray, sizes: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """One sequence of each length, none longer than can be sent, of Gaussian tokens whose entries have exactly that
    root mean square, for a few to show as many sizes as they can."""

    def drawn(length: int, size: float) -> np.ndarray:
        x = rng.standard_normal((length, oracle.dim))
        return size * x / rms(x)

    each = zip(np.asarray(lengths).tolist(), sizes.tolist(), strict=True)
    return [sendable(oracle, drawn(*one)) for one in each]
