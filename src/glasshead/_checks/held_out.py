"""The held-out check: fresh random sequences, answered by the box and by the recovered model.

What all families share stands first: sequences of 1 to 64 tokens, the last of them asked twice, and one function that
turns answers, predictions and what is allowed into a `HeldOut`. A family adds how long its tokens are and how far off
its answers may be; those without bounds, heads in vector answers and blocks, follow here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._errors import ASKED_AGAIN, FRESH_HEADS
from .._learned import HeldOut, LearnedBlock, LearnedVector, suited_length
from .._oracles import Oracle
from .._recovery import Checked
from .compared import Compared, compared_pairs

CHECKING = "checking on fresh queries"
CHECKED_LENGTHS = 1, 2, 4, 16, 64  # a box may be a head for a few tokens and something else for many
PER_LENGTH = 2  # sequences of each length; one token alone was asked about before, so it is asked once
QUERIES = len(CHECKED_LENGTHS) * PER_LENGTH  # the last sequence is asked again in place of a second single token
USER_SIZES = -1.0, 1.0  # those of users' tokens: from half to twice that of standard ones, as powers of two


def even(low: float, high: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers from a range, one from each of as many parts of it and all at the same place in theirs, in any order: no
    gap between two is longer than a part, whatever of it a box may go by."""
    return low + (high - low) * (rng.permutation(count) + rng.random()) / count


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

    def only(self, which: np.ndarray) -> Fresh:
        """Some of the sequences, beside the second answer."""
        ends = np.cumsum([len(X) for X in self.batches])[:-1]
        batches = [X[some] for X, some in zip(self.batches, np.split(which, ends), strict=True)]
        return Fresh([X for X in batches if len(X)], self.got[which], self.again)


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
    words = f"{len(compared.X) + 1} fresh queries of 1 to 64 tokens agree to {residual:.1e}"
    evidence = repeated.evidence(ASKED_AGAIN) or compared.evidence(law)
    return HeldOut(residual, evidence, words, compared=len(compared.X))


def unit_scale(X: np.ndarray) -> np.ndarray:
    """Gaussian tokens, none longer than `2 sqrt(d)`, divided by that length."""
    longest_allowed = 2 * np.sqrt(X.shape[-1])
    norms = np.linalg.norm(X, axis=-1, keepdims=True)
    return X / np.maximum(norms, longest_allowed)


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
