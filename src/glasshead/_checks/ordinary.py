"""Ordinary sequences: what the judge asks, how far off answers may be, and how far off they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import NamedTuple

import numpy as np

from .._learned import HeldOut, Learned
from .._oracles import Oracle
from .held_out import Compared

ALONE, ALONE_LONG = 7, 3  # sequences of one token, which show errors of v; those as long as v was read with
# A sequence for the sizes of users, suited, and larger: suited ones as long as these, or up to the next one, others
# spread evenly from the first to the last, since a box may go by the length, as one that drops what fills no tile.
JUDGED_LENGTHS = 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64
JUDGE_QUERIES = ALONE + 3 * len(JUDGED_LENGTHS)

OF_RANGE = 0.01  # of the range of answers: what is off by more is another function
VOID = 0.05  # of the same: a check that allows more passes nearly anything
TERM_ROUNDINGS = 4.0  # roundings of the largest number that an answer is made of
FEWEST_OF_A_KIND = 4  # sequences
NEIGHBOURS = 6  # models as far from the found one as bounds leave open
NEIGHBOUR_TIMES = 3.0  # times how far their answers typically are from its own
LEAST_EXPECTED = 2.0**-500  # of an error: its square is still a number
WORSE_THAN_RESIDUAL = 4.0  # times that of the held-out check: about what W is off by, of its norm, at most

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
    suited = np.resize(learned.suits(oracle.reach), count)
    lever, alone_lever = learned.levers(oracle)
    users, larger = 2.0 ** spread(-1, 1, looks * count, rng), np.maximum(suited, 1.0) * 2.0 ** spread(0, 3, count, rng)
    first, *_, last = JUDGED_LENGTHS
    drawn = {
        USERS: (users, spread(first, last + 1, len(users), rng).astype(int)),
        SUITED: (suited, rng.integers(JUDGED_LENGTHS, (*JUDGED_LENGTHS[1:], last + 1))),
        LARGER: (larger, spread(first, last + 1, count, rng).astype(int)),
    }
    X = in_turn([gaussian_sequences(oracle, lengths, sizes, rng) for sizes, lengths in drawn.values()])
    every = [Sequences(name, x, sizes) for (name, (sizes, _)), x in zip(drawn.items(), X, strict=True)]
    every[1] = Sequences(SUITED, [levered(oracle, x, lever) for x in every[1].X], lever * suited)
    alone = 2.0 ** spread(-1, 1, ALONE, rng)
    alone[:ALONE_LONG] *= alone_lever
    every.append(Sequences(SINGLES, gaussian_sequences(oracle, (1,) * ALONE, alone, rng), alone))
    return [kept for kind in every if (kept := said(learned, kind)).X]


def spread(low: float, high: float, count: int, rng: np.random.Generator) -> np.ndarray:
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


def gaussian_sequences(
    oracle: Oracle, lengths: Sequence[int] | np.ndarray, sizes: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """One sequence of each length, of Gaussian tokens with entries of that size, none longer than can be sent."""
    each = zip(lengths, sizes, strict=True)
    return [sendable(oracle, size * rng.standard_normal((length, oracle.dim))) for length, size in each]


def by_length(function: Callable, X: Sequence[np.ndarray]) -> np.ndarray:
    """What a function of batches says of sequences of any lengths, one row for each."""
    out: dict[int, np.ndarray] = {}
    for length in dict.fromkeys(map(len, X)):
        which = [i for i, x in enumerate(X) if len(x) == length]
        said = np.asarray(function(np.stack([X[i] for i in which])))
        out |= zip(which, said.reshape(len(which), -1), strict=True)
    return np.array([out[i] for i in range(len(X))])


@dataclass(frozen=True)
class Answered:
    """Sequences of one kind, what the box answered and what the model predicts, as `(B, k)`.

    `level` is how far off an answer may be by its promise and its format, `typical` how far off predictions are if the
    model is off by its bounds, `furthest` how far at most, `doubt` what comes on top, without end where bounds settle
    nothing, and `chosen` how far attention moves them from what the plain mean would give. `largest` is the largest
    answer, and `extent` their range if tokens have size 1; single tokens, in which heads may cancel, are measured by
    those of users' size where these are larger.
    """

    kind: Sequences
    got: np.ndarray
    want: np.ndarray
    level: np.ndarray
    typical: np.ndarray
    furthest: np.ndarray
    doubt: np.ndarray
    chosen: np.ndarray
    largest: float
    extent: float

    @property
    def X(self) -> list[np.ndarray]:
        return self.kind.X

    @property
    def off(self) -> np.ndarray:
        return np.abs(self.got - self.want).max(axis=1)

    @property
    def range(self) -> np.ndarray:
        """The range of all answers, for tokens of the size of each."""
        return self.extent * self.kind.sizes

    @property
    def share(self) -> np.ndarray:
        """How far off answers are, of their range."""
        return self.off / np.maximum(self.range, np.finfo(float).tiny)

    @property
    def allowed_share(self) -> np.ndarray:
        """How far off answers may be, of their range."""
        return self.allowed / np.maximum(self.range, np.finfo(float).tiny)

    @property
    def allowed(self) -> np.ndarray:
        """How far off answers may be; as far as they are where bounds leave so much open that nothing can be said."""
        open_end = NEIGHBOUR_TIMES * (self.furthest + self.doubt)
        return np.where(open_end > VOID * self.range, np.inf, OF_RANGE * self.range + self.level + open_end)

    @property
    def compared(self) -> Compared:
        return Compared(self.X, self.got, self.want, self.allowed)

    @property
    def expected(self) -> np.ndarray:
        """How far off answers are if the bounds are true and hardly any smaller would be."""
        return np.hypot(self.typical + self.doubt, self.level)

    @property
    def worse(self) -> float:
        """The mean square of how far off answers are, over what is expected."""
        return float(np.mean((self.off / np.maximum(self.expected, LEAST_EXPECTED)) ** 2))

    @property
    def seen(self) -> float:
        """How far off answers are, over what they would be if the model were off by all that its bounds leave open."""
        return float(np.sqrt(replace(self, doubt=np.zeros(len(self.X))).worse))

    @property
    def strays(self) -> Compared:
        """The answers, and how far off they may be if the model is hardly further off than its neighbours."""
        return replace(self.compared, allowed=OF_RANGE * self.range + self.level + NEIGHBOUR_TIMES * self.furthest)


def read_groups(
    oracle: Oracle, learned: Learned, held: HeldOut, kinds: list[Sequences], rng: np.random.Generator
) -> list[Answered]:
    """All sequences of a length are asked at once."""
    everything = [x for kind in kinds for x in kind.X]
    if not everything:
        return []
    got, want = by_length(oracle, everything), by_length(learned.model, everything)
    level = oracle.tolerance + oracle.rtol * np.abs(got).max(axis=1)
    terms = np.array([learned.largest_term(x) for x in everything])
    level += TERM_ROUNDINGS * oracle.roundoff * np.maximum(terms, np.abs(got).max(axis=1))
    flat = learned.flat
    chosen = np.zeros(len(everything)) if flat is None else apart(flat, everything, want)
    groups, start = [], 0
    for kind in kinds:
        part = slice(start, start := start + len(kind.X))
        largest = float(np.abs(got[part]).max())
        moved = got[part] - np.median(got[part], axis=0)  # a bias is no part of the range
        extent = float(np.ptp(moved / kind.sizes[:, None], axis=0).max())
        if len(kind.X) < FEWEST_OF_A_KIND:  # of which a range says little
            extent = max(extent, float(np.ptp(got, axis=0).max() / max(kind.sizes.max(), 1.0)))
        if kind.name == SINGLES and groups:
            largest, extent = max(largest, groups[0].largest), max(extent, groups[0].extent)
        none = np.zeros(len(kind.X))
        groups.append(
            Answered(kind, got[part], want[part], level[part], none, none, none, chosen[part], largest, extent)
        )
    return with_doubts(groups, learned, held, rng)


def with_doubts(groups: list[Answered], learned: Learned, held: HeldOut, rng: np.random.Generator) -> list[Answered]:
    """How far the predictions of neighbours are from the model's, typically and at most. It asks nothing."""
    share = min(VOID, WORSE_THAN_RESIDUAL * (held.residual or 0.0))
    neighbours = learned.neighbours(share, NEIGHBOURS, rng)

    def with_doubt(group: Answered) -> Answered:
        around = [apart(model, group.X, group.want) for model in neighbours] or [np.zeros(len(group.X))]
        typical, furthest = np.sqrt(np.mean(np.square(around), axis=0)), np.max(around, axis=0)
        furthest = np.maximum(furthest, learned.most_alone(group.X) / NEIGHBOUR_TIMES)
        doubt = np.broadcast_to(learned.doubt(group.X, group.want), len(group.X))
        return replace(group, typical=typical, furthest=furthest, doubt=doubt)

    return [with_doubt(group) for group in groups]


def apart(model: Callable, X: list[np.ndarray], want: np.ndarray) -> np.ndarray:
    return np.abs(by_length(model, X) - want).max(axis=1)
