"""Yes-or-no answers held against what was found: fresh sequences, half of them as close to a change of sign as is
safe, and then, for the judge, ordinary ones.

A sign says little where the value is large. Between two fresh sequences that the recovered head answers differently
there is one where its answer changes; on either side of it, as near as the error bounds allow, the box must agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._errors import EVERYWHERE, FRESH_HEAD, Evidence
from .._learned import HeldOut, Learned, LearnedHead, head_length
from .._models import Attention
from .._oracles import Oracle, Voting
from .answered import NEIGHBOUR_TIMES, NEIGHBOURS, OF_RANGE, ask_by_length
from .balance import check_balance
from .compared import Compared
from .held_out import CHECKED_LENGTHS, CHECKING, PER_LENGTH, unit_scale, with_sequences
from .ordinary import MOVED_TOO, SINGLES, SUITED, USERS, Sequences, ordinary_sequences

SAFE_MARGIN = 2.0  # times the error bounds: what a predicted value must be to be held against the box
SIGN_DRAWS = 64  # sequences drawn until two of them are answered differently
EDGE_HALVINGS = 60  # all that double precision has
FLAT_SCORE = 0.25  # scores of tokens of that length are certainly below a quarter
LEAST_BOUND = 2.0**-512
SIDES_MISSED = 1  # of yes-or-no answers behind a network, which may change next to an ordinary sequence,
UNLIKELY_MISS = 1e-3  # unless bounds say that hardly one in a thousand of such checks would meet that
MORE_SIDES = 3  # times as many sequences again where none can be asked next to a change: each says yes or no

SIGN_QUERIES = len(CHECKED_LENGTHS) * 2 * PER_LENGTH


def check_held_out_signs(oracle: Oracle, learned: LearnedHead, rng: np.random.Generator) -> HeldOut:
    """`SIGN_QUERIES` fresh queries of 1 to 64 tokens: of each length two at random and two next to a change of sign."""
    oracle.stage = CHECKING
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    X, said, values, allowed = [], [], [], []
    for length in CHECKED_LENGTHS:
        batch = np.concatenate(
            [around_the_plane(oracle, learned, length, PER_LENGTH, rng), edge(oracle, learned, length, rng)]
        )
        X += list(batch)
        said.append(np.asarray(sure(batch), bool))
        values.append(np.asarray(learned.model(batch)))
        allowed.append(learned.allowed(batch, oracle))
    yes, want = np.concatenate(said), np.concatenate(values)
    # A wrong answer is off by the value that should have decided it, up to 0, where the other answer begins.
    compared = Compared(X, np.where(yes == (want > 0), want, 0.0), want, np.concatenate(allowed))
    evidence = compared.evidence(FRESH_HEAD)
    if evidence is not None:
        i = int(np.argmax(compared.excess))
        expected = f"{'yes' if want[i] > 0 else 'no'}, its value being {evidence.expected.removeprefix('expected ')}"
        evidence = replace(evidence, expected=f"expected {expected}", got="yes" if yes[i] else "no")
    words = f"{SIGN_QUERIES} fresh queries of 1 to 64 tokens agree, half of them next to a change of sign"
    return HeldOut(compared.residual(float(np.abs(want).max())), evidence, words, compared=len(X))


def around_the_plane(
    oracle: Oracle, learned: LearnedHead, length: int, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Random sequences around the point of the plane `f = 0` that is nearest to zero."""
    head = learned.model
    center = -float(head.bias) * head.v
    reach = oracle.reach - float(np.linalg.norm(center))
    size = min(flat_size(learned) if learned.rank == 0 else head_length(head), reach)
    return center + size * unit_scale(rng.standard_normal((count, length, oracle.dim)))


def flat_size(learned: LearnedHead) -> float:
    """Where every score is 0: tokens so long that one which is not would show, as far as the bounds rule it out."""
    of_bias = float(np.linalg.norm(learned.model.key_bias)) + learned.bound_key_bias
    return FLAT_SCORE * min(1 / max(learned.bound, LEAST_BOUND) ** 0.5, 1 / max(of_bias, LEAST_BOUND))


def boundary_sequences(
    oracle: Oracle, learned: LearnedHead, X: list[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Sequences moved along v next to a change of the answer, on one side and the other in turn, no further from it
    than errors within the bounds typically are. There noise that nobody promised turns answers around, in values or in
    scores, however little of it there is. What would be too long to be sent is left out."""
    head, around = learned.model, learned.neighbours(0.0, NEIGHBOURS, rng)
    moved, side = [], 1.0
    for x in X:
        there = x + change_along(head, x) * head.v
        least = SAFE_MARGIN * float(learned.allowed(there[None, :1], oracle)[0])
        margin = least + NEIGHBOUR_TIMES * max(abs(float(np.asarray(near(there[None]))[0])) for near in around)
        aside = there + side * margin * head.v
        if float(np.linalg.norm(aside, axis=1).max()) <= oracle.reach:
            moved.append(aside)
            side = -side
    return moved


def change_along(head: Attention, x: np.ndarray) -> float:
    """How far along v all tokens must move for the value to be 0: it then lies between those of the single tokens."""
    values = x @ head.v + float(head.bias)
    ends = [-float(values.max()), -float(values.min())]
    for _ in range(EDGE_HALVINGS):
        middle = sum(ends) / 2
        ends[int(float(np.asarray(head((x + middle * head.v)[None]))[0]) > 0)] = middle
    return sum(ends) / 2


def edge(oracle: Oracle, learned: LearnedHead, length: int, rng: np.random.Generator) -> np.ndarray:
    """Two sequences on either side of a change of sign, `SAFE_MARGIN` times further from it than the bounds ask."""
    draws = around_the_plane(oracle, learned, length, SIGN_DRAWS, rng)
    values = np.asarray(learned.model(draws))
    ends = draws[[np.argmax(values), np.argmin(values)]]
    for _ in range(EDGE_HALVINGS):
        middle = ends.mean(axis=0, keepdims=True)
        value = float(np.asarray(learned.model(middle))[0])
        if abs(value) < SAFE_MARGIN * float(learned.allowed(middle, oracle)[0]):
            break
        ends[int(value <= 0)] = middle[0]
    return ends


def check_sides_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, kinds: list[Sequences], rng: np.random.Generator
) -> HeldOut:
    """The judge where answers are yes and no: ordinary sequences of these kinds. Those for one head lie next to a
    change of the answer, but those of users, of which some do, too; and keys that balance each other are asked."""
    names = (SUITED, SINGLES) if learned.one_head else ()
    near = [x for kind in kinds if kind.name in names for x in kind.X]
    near += [x for kind in kinds if kind.name == USERS for x in kind.X[::MOVED_TOO]] if learned.one_head else []
    if near and (broken := check_changes(oracle, learned, near, rng)) is not None:
        return replace(held, evidence=broken)
    if isinstance(learned, LearnedHead) and (broken := check_balance(oracle, learned, rng)) is not None:
        return replace(held, evidence=broken)
    others = [x for kind in kinds if kind.name not in names for x in kind.X]
    more = 0 if learned.one_head else MORE_SIDES
    others += [x for _ in range(more) for kind in ordinary_sequences(oracle, learned, rng) for x in kind.X]
    return check_signs_everywhere(oracle, learned, held, others, rng)


def check_changes(oracle: Oracle, learned: Any, near: list[np.ndarray], rng: np.random.Generator) -> Evidence | None:
    """What sequences next to a change of the answer say against it, if any does."""
    X = boundary_sequences(oracle, learned, near, rng)
    if not X:
        return None
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    got, want = (ask_by_length(function, X)[:, 0] > 0 for function in (sure, learned.model))
    return Compared(X, got, want).evidence(EVERYWHERE)


def check_signs_everywhere(
    oracle: Oracle, learned: Learned, held: HeldOut, X: list[np.ndarray], rng: np.random.Generator
) -> HeldOut:
    """Yes or no, where the model and its neighbours say the same and are not close to changing it; everywhere, for a
    head that predicts no values but what the box says of shorter sequences."""
    if not X:
        return held
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    got = ask_by_length(sure, X)[:, 0].astype(bool)
    want = ask_by_length(learned.model, X)[:, 0]
    close = float(np.sum(learned.doubt(X, want[:, None].astype(float))))  # how many scores may be off by as much as one
    missed, allowed = got != (want > 0), SIDES_MISSED * (close > UNLIKELY_MISS)
    if want.dtype != bool:
        around = np.array([ask_by_length(model, X)[:, 0] for model in learned.neighbours(0.0, NEIGHBOURS, rng)])
        decided = (np.abs(want) > OF_RANGE * np.ptp(want)) & ((around > 0) == (want > 0)).all(axis=0)
        missed, allowed = missed & decided, 0
    check = with_sequences(held, np.zeros(len(X)), 0.0)
    if missed.sum() <= allowed:
        return check
    compared = Compared(X, got, np.where(missed, ~got, got))
    return replace(check, evidence=compared.evidence(EVERYWHERE), checked=None)
