"""The held-out check: fresh random sequences, and for each a shorter one that must be answered alike if W is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._errors import Evidence
from .._meter.lever import longest
from .._meter.matching.noise import floor
from .._oracle import Oracle
from .normalised_oracle import Normalised

if TYPE_CHECKING:
    from .learned_front import LearnedFront

LENGTHS = range(2, 9)
EACH = 2  # with the same last token, so that they differ by what the head attends to
QUERIES = 2 * len(LENGTHS) * EACH
LOOSE = 1e-8  # of what attention changes in the answers: anything larger is no rounding
CLEAR = 1e-6  # of the scores: where these are small, what a wrong W changes is smaller still
CEILING = 0.05  # of the same: a check that allows more would pass whatever W is
WIDER = 3.0  # times the tokens that W was read with: where scores of the order of one can be had
SLACK, NOISES = 2.0, 8.0  # times what the errors of scores suggest, and the noise of answers
ORDINARY, SMALL = 1.0, 1 / 16  # a head read with tokens that much shorter is also tried on tokens of this length
ROUNDED = 1e-2  # errors of scores by rounding: more, and tokens of that length tell nothing


@dataclass(frozen=True)
class FrontCheck:
    """`residual` as in `gh.Recovery`; `evidence` where two answers differ that must not; in words; how many numbers an
    answer has."""

    residual: float | None
    evidence: Evidence | None
    words: str
    outputs: int
    warning: str = ""


UNCHECKED = FrontCheck(None, None, "not yet checked", 1)


def held_out_front(oracle: Oracle, learned: LearnedFront, rng: np.random.Generator) -> FrontCheck:
    """Two sequences of each length from 2 to 8, and as many shorter ones; some more where W was read near zero."""
    oracle.stage = "checking on fresh queries"
    reach = longest(oracle)
    size, ordinary = token_size(learned, reach), min(ORDINARY, reach / 2)
    parts = [compare(oracle, learned, size, LENGTHS, rng)]
    # Tokens behind a normalisation have lengths of their own.
    if size < SMALL * ordinary and not isinstance(oracle, Normalised) and rounding(oracle, learned, ordinary) < ROUNDED:
        parts.append(compare(oracle, learned, ordinary, LENGTHS[::3], rng))
    worst = max(parts, key=lambda part: part.excess)
    residual = max(part.residual for part in parts)
    compared = sum(part.compared for part in parts)
    words = f"{compared} fresh sequences of 2 to 8 tokens are answered like shorter ones, to {residual:.1e}"
    return FrontCheck(residual, worst.evidence if worst.excess > 1 else None, words, worst.outputs)


@dataclass(frozen=True)
class Compared:
    """The largest error over the largest answer and over what is allowed; where that is; numbers per answer."""

    residual: float
    excess: float
    evidence: Evidence
    compared: int
    outputs: int


def compare(oracle: Oracle, learned: LearnedFront, size: float, lengths: range, rng: np.random.Generator) -> Compared:
    """Fresh sequences of tokens of that size against the shorter ones that the head says are answered alike."""
    near = closeness(learned, size)
    fresh = [sequences(size, near, length, oracle.dim, rng) for length in lengths]
    answers = np.stack([np.asarray(oracle(X)).reshape(EACH, -1) for X in fresh])
    expected = np.stack([np.asarray(learned.model(X)).reshape(EACH, -1) for X in fresh])
    off = np.abs(answers - expected).max(axis=2)
    allowed = most_allowed(oracle, learned, size, near, answers)
    i, j = np.unravel_index(int(np.argmax(off)), off.shape)
    evidence = Evidence(
        "a sequence and a shorter one with the same attention output are answered alike",
        fresh[i][j],
        f"expected {expected[i, j]} within {allowed:.2g}",
        f"{answers[i, j]}",
    )
    excess = off[i, j] / allowed if allowed > 0 else np.inf * (off[i, j] > 0)
    residual = float(off.max()) / (float(np.abs(answers).max()) or 1.0)
    return Compared(residual, float(excess), evidence, off.size, answers.shape[2])


def most_allowed(oracle: Oracle, learned: LearnedFront, size: float, near: float, answers: np.ndarray) -> float:
    """As much as errors of scores move the answers, and noise; never as much as a head with any other W."""
    changed = float(np.ptp(answers, axis=1).max())
    apart = 2 * near * size
    noise = max(learned.noise, floor(oracle, float(np.abs(answers).max())))
    score = apart * (learned.bound * size + learned.bound_key_bias) + rounding(oracle, learned, size)
    loose = min(LOOSE, CLEAR * apart * pull(learned, size))
    return min((loose + SLACK * score) * changed + NOISES * noise, CEILING * changed + 4 * noise)


def pull(learned: LearnedFront, size: float) -> float:
    """What a token's score differs by, for each unit of its length, typically."""
    head = learned.model
    return float(np.hypot(head.W_norm * size / np.sqrt(head.dim), np.linalg.norm(head.key_bias)) / np.sqrt(head.dim))


def rounding(oracle: Oracle, learned: LearnedFront, size: float) -> float:
    """Of the scores of tokens of that size."""
    return 8 * (oracle.dim + 4) * oracle.roundoff * size * pull(learned, size)


def closeness(learned: LearnedFront, size: float) -> float:
    """How far other tokens lie from the last one, of their length, for scores that differ by one or less."""
    return float(min(1.0, 1 / max(size * pull(learned, size), 1e-300)))


def token_size(learned: LearnedFront, reach: float) -> float:
    """Tokens as long as those W was read with, or longer if scores of size one want it."""
    d, L = learned.model.dim, learned.scale
    score = L * (L * learned.model.W_norm / d + float(np.linalg.norm(learned.model.key_bias)) / np.sqrt(d))
    wanted = L * float(np.clip(np.sqrt(1 / max(score, 1e-300)), 1.0, WIDER))
    return min(wanted, reach / 2)


def sequences(size: float, near: float, length: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian tokens of rms length `size`, none twice as long, all moved towards a last one that they share."""
    Z = rng.standard_normal((EACH, length, dim))
    norms = np.linalg.norm(Z, axis=-1, keepdims=True)
    X = Z * size * np.minimum(1 / np.sqrt(dim), 2 / norms)
    last = X[:1, -1:]
    X[:, :-1] = last + near * (X[:, :-1] - last)
    X[:, -1:] = last
    return X
