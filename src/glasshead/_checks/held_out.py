"""The held-out check: fresh random sequences, answered by the box and by the recovered model.

What all families share stands first: answers beside what was expected of them (laws end there too), sequences of 1 to
64 tokens, the last of them asked twice, and one function that turns answers, predictions and what is allowed into a
`HeldOut`. A family adds how long its tokens are and how far off its answers may be. One head, with or without a known
network behind it, and heads in vector answers follow here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._errors import ASKED_AGAIN, FRESH_HEAD, FRESH_HEADS, Evidence
from .._learned import HeldOut, LearnedBlock, LearnedVector, Predicting, head_length, suited_length
from .._oracles import Oracle
from .._recovery import MOST_PAIRS, Checked
from .._types import Float


@dataclass(frozen=True)
class Compared:
    """Sequences `(N, d)` of any lengths, what a box answered, what was expected, and how far apart they may be.

    Answers hold one number or several, or are yes and no; `allowed` is one number for each sequence, or for all.
    """

    X: Sequence[np.ndarray]
    got: np.ndarray
    want: np.ndarray
    allowed: np.ndarray | float = 0.0

    @property
    def apart(self) -> Float[np.ndarray, "B k"]:
        """The errors of all numbers in all answers."""
        got, want = (np.asarray(side, float).reshape(len(self.X), -1) for side in (self.got, self.want))
        return np.abs(got - want)

    @property
    def off(self) -> Float[np.ndarray, " B"]:
        """How far off each answer is: the largest error of its numbers."""
        return self.apart.max(axis=1)

    @property
    def excess(self) -> Float[np.ndarray, " B"]:
        """How far off each answer is over what is allowed; infinite where nothing is."""
        off = self.off
        allowed = np.broadcast_to(self.allowed, off.shape)
        return np.divide(off, allowed, out=np.where(off > 0, np.inf, 0.0), where=allowed > 0)

    @property
    def holds(self) -> bool:
        """Whether every answer is as near as it has to be."""
        return bool((self.excess <= 1).all())

    @property
    def largest(self) -> float:
        """The largest number in any answer."""
        return float(np.abs(np.asarray(self.got, float)).max())

    def residual(self, largest: np.ndarray | float | None = None) -> float:
        """The largest error, over the largest answer (of its kind, if `largest` says one for each)."""
        size = np.asarray(self.largest if largest is None else largest)
        return float(np.max(self.off / np.where(size > 0, size, 1.0)))

    def evidence(self, law: str) -> Evidence | None:
        """The answer that is furthest beyond what is allowed, or None where all hold."""
        if self.holds:
            return None
        i = int(np.argmax(self.excess))
        j = int(np.argmax(self.apart[i]))
        got, want = (np.asarray(side).reshape(len(self.X), -1)[i, j] for side in (self.got, self.want))
        if np.asarray(self.got).dtype == bool:
            return Evidence(law, self.X[i], f"expected {'yes' if want > 0.5 else 'no'}", "yes" if got else "no")
        output = f" as output {j}" if self.apart.shape[1] > 1 else ""
        within = float(np.broadcast_to(self.allowed, len(self.X))[i])
        return Evidence(law, self.X[i], f"expected {want:.9g} within {within:.2g}{output}", f"{got:.9g}")


CHECKING = "checking on fresh queries"
CHECKED_LENGTHS = 1, 2, 3, 4, 6, 8, 16, 64  # a box may be a head for a few tokens and something else for many
PER_LENGTH = 2  # sequences of each length; one token alone was asked about before, so it is asked once
QUERIES = len(CHECKED_LENGTHS) * PER_LENGTH  # the last sequence is asked again in place of a second single token


@dataclass(frozen=True)
class Fresh:
    """Fresh sequences, `(B, N, d)` for each length N, what the box answered, and its second answer to the last one."""

    batches: list[np.ndarray]
    got: np.ndarray
    again: np.ndarray

    @property
    def X(self) -> list[np.ndarray]:
        return [x for batch in self.batches for x in batch]

    def each(self, function: Callable[[np.ndarray], Any]) -> np.ndarray:
        """What a function of batches says of every sequence."""
        return np.concatenate([np.asarray(function(X)) for X in self.batches])


def read_fresh(oracle: Oracle, sizes: np.ndarray | tuple[float, ...], rng: np.random.Generator) -> Fresh:
    """`QUERIES` fresh queries: one token, two sequences of each of the other lengths, the last of them once more.

    Tokens are Gaussian, at most as long as `sizes` say, which take turns.
    """
    oracle.stage = CHECKING
    batches, answers, asked = [], [], 0
    for length in CHECKED_LENGTHS:
        turn = np.arange(asked, asked + min(PER_LENGTH, length)) % len(sizes)
        asked += len(turn)
        # One token alone is a short one: noise of constant size shows best where rounding errors are small.
        size = np.asarray(sizes)[turn, None, None] * (math.sqrt(oracle.roundoff) if length == 1 else 1.0)
        batches.append(size * unit_scale(rng.standard_normal((len(turn), length, oracle.dim))))
        answers.append(np.asarray(oracle(batches[-1])))
    return Fresh(batches, np.concatenate(answers), np.asarray(oracle(batches[-1][-1:])))


def judged_fresh(
    fresh: Fresh, want: np.ndarray, allowed: np.ndarray, law: str, largest: np.ndarray | None = None
) -> HeldOut:
    """What fresh answers say of predictions: two answers to the last sequence may differ by twice what one may be off.

    The residual is relative to the largest answer, or to the largest of its kind if `largest` says one for each.
    """
    compared = Compared(fresh.X, fresh.got, want, allowed)
    repeated = Compared(fresh.X[-1:], fresh.again, fresh.got[-1:], 2 * np.asarray(allowed)[-1:])
    residual = compared.residual(largest)
    words = f"{QUERIES} fresh queries of 1 to 64 tokens agree to {residual:.1e}"
    evidence = repeated.evidence(ASKED_AGAIN) or compared.evidence(law)
    return HeldOut(residual, evidence, words, compared=len(compared.X))


def unit_scale(X: np.ndarray) -> np.ndarray:
    """Gaussian tokens, none longer than `2 sqrt(d)`, divided by that length."""
    longest_allowed = 2 * np.sqrt(X.shape[-1])
    norms = np.linalg.norm(X, axis=-1, keepdims=True)
    return X / np.maximum(norms, longest_allowed)


# One head, alone or in front of a network that was read too.

VAGUE = 0.1  # of an answer: bounds that allow more say next to nothing
SHARP_TIMES = 32.0  # times the least that bounds allow at any length: still sharp
SHORTER_EACH, SHORTENINGS = 4.0, 24  # shorter and shorter tokens to look for better ones
SAMPLE = 4  # sequences, and tokens in each, on which bounds are compared


def check_held_out(oracle: Oracle, learned: Predicting, rng: np.random.Generator) -> HeldOut:
    """Fresh answers against the predictions of a model that says itself how far off they may be."""
    fresh = read_fresh(oracle, token_sizes(oracle, learned, deepcopy(rng)), rng)
    allowed = fresh.each(lambda X: learned.allowed(X, oracle))
    return judged_fresh(fresh, fresh.each(learned.model), allowed, FRESH_HEAD)


def token_sizes(oracle: Oracle, learned: Predicting, rng: np.random.Generator) -> tuple[float, ...]:
    """The lengths of tokens to check with.

    A head that takes the mean suits any length, and does so for the longest tokens too. Where the bounds say nothing at
    the usual length, also the longest at which they say most: a check that every answer passes is none.
    """
    model, reach = learned.model, oracle.reach
    flat = model.W_norm == 0 and not np.any(model.key_bias)
    usual = min(head_length(model), reach)
    lengths = usual * SHORTER_EACH ** -np.arange(SHORTENINGS)
    X = unit_scale(rng.standard_normal((SAMPLE, SAMPLE, oracle.dim)))
    said = np.array([vagueness(oracle, learned, length * X) for length in lengths])
    best = float(lengths[said <= SHARP_TIMES * said.min()][0])
    return (usual, *[reach] * flat, *[best] * bool(said[0] > VAGUE and best < usual))


def vagueness(oracle: Oracle, learned: Predicting, X: np.ndarray) -> float:
    """How far answers to such sequences may be off, over what their tokens are answered one by one."""
    alone = np.abs(np.asarray(learned.model(X.reshape(-1, 1, X.shape[2]))))
    return float(learned.allowed(X, oracle).max() / max(float(alone.max()), np.finfo(float).tiny))


# Heads in vector answers, which come without bounds.

LAYER_LOOSE = 4.0  # times the root of a rounding: a head found wrong is off by far more, a right one by far less


def check_held_out_vector(oracle: Oracle, learned: LearnedVector, rng: np.random.Generator) -> HeldOut:
    """Fresh answers against the predictions, all outputs at once, for tokens that suit the largest W and key bias."""
    W = max(head.W_norm for head in learned.model.heads)
    key_bias = max(float(np.linalg.norm(head.key_bias)) for head in learned.model.heads)
    fresh = read_fresh(oracle, (min(suited_length(learned.model.dim, W, key_bias), oracle.reach),), rng)
    largest = float(np.abs(fresh.got).max()) or 1.0
    allowed = np.full(len(fresh.got), LAYER_LOOSE * float(np.sqrt(oracle.roundoff)) * largest)
    return judged_fresh(fresh, fresh.each(learned.model), allowed, FRESH_HEADS)


def check_held_out_block(oracle: Oracle, learned: LearnedBlock, rng: np.random.Generator) -> HeldOut:
    """Fresh answers against those to the single tokens that should be answered alike."""
    suited = 2 * float(np.sqrt(oracle.dim)) * min(learned.suits(oracle.reach))
    fresh = read_fresh(oracle, (suited, min(float(np.sqrt(oracle.dim)), oracle.reach)), rng)
    said = [learned.says(x) for x in fresh.X]  # a token alone, or one too long to be asked about, says nothing
    each = zip(fresh.X, fresh.got, said, strict=True)
    want = np.stack([learned.model(x) if predicted else answer for x, answer, predicted in each])
    largest = float(np.ptp(fresh.got, axis=0).max()) or 1.0
    loose = max(BLOCK_LOOSE * float(np.sqrt(oracle.roundoff)), learned.error)
    held = judged_fresh(fresh, want, np.full(len(want), loose * largest), FRESH_HEADS)
    return replace(held, compared=sum(said))


BLOCK_LOOSE = 64.0  # times the root of a rounding


def with_sequences(held: HeldOut, allowed: np.ndarray, residual: float, compared: Sequence[Compared] = ()) -> HeldOut:
    """What the held-out check said, and ordinary sequences after it: how far off each could have been, of the range."""
    residual, count = max(residual, held.residual or 0.0), len(allowed)
    words = f"{held.words}; {count} ordinary sequences agree to {residual:.1e}"
    checked = Checked(count, float(allowed.max()), *compared_pairs(compared)) if count else None
    return replace(held, residual=residual, words=words, compared=held.compared + count, checked=checked)


def compared_pairs(groups: Sequence[Compared]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Predictions and answers, number by number, evenly chosen where there are many."""
    if not groups:
        return (), ()
    want, got = (np.concatenate([getattr(group, side).ravel() for group in groups]) for side in ("want", "got"))
    chosen = np.unique(np.linspace(0, len(want) - 1, MOST_PAIRS).astype(int))
    return tuple(want[chosen].astype(float).tolist()), tuple(got[chosen].astype(float).tolist())
