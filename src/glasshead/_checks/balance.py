"""The law of balance of one head behind yes and no, of which no model is needed.

A key balances a last token q where the answer to `[k ; q]` changes: there it pulls as hard as q does, to the other
side. Two such keys pull as hard as two copies of q, so `[k, l, q ; q]` is answered as both of them beside q are, if
they are on the same side of their changes. The changes are the box's own, found by bisection: a second head shows, and
noise, though errors of W and v within their bounds would hide it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .._errors import ASKED_AGAIN, BALANCED_KEYS, EVERYWHERE, Evidence
from .._learned import LearnedHead
from .._linalg import rms
from .._models import Attention
from .._oracles import Oracle, Voting
from .answered import NEIGHBOUR_TIMES, NEIGHBOURS, ask_by_length
from .compared import Compared

# Two that suit, as heads may agree at one, and one that hardly has scores: there the least error of a score shows, and
# a key bias may have been read.
LAST_TOKEN_SIZES = 1.0, 1.0, 1 / 64
KEYS = 2  # beside each last token
KEY_DRAWS = 24  # keys to choose from, for each last token
BALANCE_STEPS, FURTHEST = 64, 4.0  # a key is moved along v in so many steps, up to so many times its length, to balance
REFINEMENTS = 10  # times: each step in as many, all that double precision has
CLOSE = 0.1  # of a key's value: what bounds must leave open less than
FINER = 16.0  # times finer than errors within the bounds typically are: how closely changes are found
BALANCE_QUERIES = len(LAST_TOKEN_SIZES) * (KEYS * 14 + 2)  # about as many
PADDED = 2.0  # times what rounding may move a change by


@dataclass(frozen=True)
class Balancing:
    """A key beside a last token: it pulls harder the further it is moved along `way`, and the answer changes between
    `low` and `high`, to yes or to no. `width` is how closely that is to be known, `pad` what rounding adds."""

    key: np.ndarray
    last: np.ndarray
    way: np.ndarray
    yes: bool
    low: float
    high: float
    width: float
    pad: float

    def at(self, along: float) -> np.ndarray:
        return self.key + along * self.way

    def pair(self, along: float) -> np.ndarray:
        return np.stack([self.at(along), self.last])

    @property
    def ends(self) -> tuple[float, float]:
        return self.low - self.pad, self.high + self.pad


def check_balance(oracle: Oracle, learned: LearnedHead, rng: np.random.Generator) -> Evidence | None:
    """What breaks the law, a change that is not where the model has it, or one that is elsewhere when it is asked about
    again; about a dozen queries for each key, and two for each pair of them."""
    suited = learned.suits(oracle.reach / 2)[0]
    keys = [key for shorter in LAST_TOKEN_SIZES for key in balancing_keys(oracle, learned, shorter * suited, rng)]
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    if (broken := check_ends(sure, keys, EVERYWHERE)) is not None:
        return broken
    keys = find_changes(sure, keys)
    if (broken := check_ends(sure, keys, ASKED_AGAIN)) is not None:
        return broken
    pairs = [(k, other, end) for k, other in combinations(keys, 2) if k.last is other.last for end in (0, 1)]
    X = [np.stack([k.at(k.ends[end]), other.at(other.ends[end]), k.last, k.last]) for k, other, end in pairs]
    return check_sides(sure, X, sides_at([(k, end) for k, _, end in pairs]), BALANCED_KEYS)


def check_ends(oracle: Oracle, keys: list[Balancing], law: str) -> Evidence | None:
    ends = [(key, end) for key in keys for end in (0, 1)]
    return check_sides(oracle, [key.pair(key.ends[end]) for key, end in ends], sides_at(ends), law)


def sides_at(ends: list[tuple[Balancing, int]]) -> np.ndarray:
    """What is answered at the lower ends, and at the upper ones."""
    return np.array([key.yes == bool(end) for key, end in ends], bool)


def check_sides(oracle: Oracle, X: list[np.ndarray], want: np.ndarray, law: str) -> Evidence | None:
    if not X:
        return None
    return Compared(X, ask_by_length(oracle, X)[:, 0].astype(bool), want).evidence(law)


def find_changes(oracle: Oracle, keys: list[Balancing]) -> list[Balancing]:
    """The keys, each with ends as close to each other as it wants."""
    while todo := [i for i, key in enumerate(keys) if key.high - key.low > key.width]:
        middles = [(keys[i].low + keys[i].high) / 2 for i in todo]
        answers = ask_by_length(oracle, [keys[i].pair(middle) for i, middle in zip(todo, middles, strict=True)])[:, 0]
        for i, middle, answer in zip(todo, middles, answers, strict=True):
            keys[i] = replace(keys[i], **{"high" if bool(answer) == keys[i].yes else "low": middle})
    return keys


def balancing_keys(oracle: Oracle, learned: LearnedHead, size: float, rng: np.random.Generator) -> Iterator[Balancing]:
    """Keys that balance one last token, by the model, and how far off it may be; none too long to be sent."""
    head, around = learned.model, learned.neighbours(0.0, NEIGHBOURS, rng)
    exact = learned.with_bounds_times(0.0, 0.0)
    found = 0
    last, *draws = size * rng.standard_normal((1 + KEY_DRAWS, oracle.dim)) - float(head.bias) * head.v
    yes = float(last @ head.v + head.bias) < 0
    way = head.v if yes else -head.v
    for key in draws:
        if found == KEYS:
            return
        if (along := balanced_along(head, key, last, way)) is None:
            continue
        made = Balancing(key, last, way, yes, along, along, 0.0, 0.0)
        X = made.pair(along)
        step = CLOSE * float(abs(X[0] @ head.v + head.bias))
        moved = float(np.ptp(head(np.stack([made.pair(along - step), made.pair(along + step)]))))
        if moved == 0:
            continue
        slope = moved / (2 * step)
        off = np.array([abs(float(np.asarray(near(X[None]))[0])) for near in around]) / slope
        pad = PADDED * float(exact.allowed(X[None], oracle)[0]) / slope
        far = NEIGHBOUR_TIMES * float(off.max()) + pad
        if far < step and float(np.linalg.norm(made.pair(along + far + pad), axis=1).max()) <= oracle.reach:
            found += 1
            width = max(rms(off) / FINER, pad)
            yield replace(made, low=along - far, high=along + far, width=width, pad=pad)


def balanced_along(head: Attention, key: np.ndarray, last: np.ndarray, way: np.ndarray) -> float | None:
    """How far the key must be moved for the value beside the last token to be 0, if that is so anywhere near."""
    side = float(np.sign(head.v @ way))
    start = -side * float(key @ head.v + head.bias)
    furthest = FURTHEST * max(float(np.linalg.norm(key)), abs(float(last @ head.v + head.bias)))

    def beyond(along: np.ndarray) -> np.ndarray:
        X = np.stack([key + along[:, None] * way, np.broadcast_to(last, (len(along), len(last)))], axis=1)
        return side * np.asarray(head(X)) > 0

    grid = start + furthest * np.linspace(0, 1, BALANCE_STEPS)
    if not (there := beyond(grid)).any() or there[0]:
        return None
    for _ in range(REFINEMENTS):
        first = max(1, int(there.argmax()))
        grid = np.linspace(grid[first - 1], grid[first], BALANCE_STEPS)
        there = beyond(grid)
    return float(grid.mean())
