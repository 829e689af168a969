"""The held-out check: fresh random sequences, and for each a shorter one that must be answered alike if W is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._errors import Evidence
from .._meter.lever import longest
from .._oracle import Oracle

if TYPE_CHECKING:
    from .learned_front import LearnedFront

LENGTHS = range(2, 9)
EACH = 2
QUERIES = 2 * len(LENGTHS) * EACH
LOOSE = 1e-8  # of the range of answers: anything larger is no rounding
WIDER = 3.0  # times the tokens that W was read with: where scores of the order of one can be had
SLACK = 64.0


@dataclass(frozen=True)
class FrontCheck:
    """`residual` as in `gh.Recovery`; `evidence` where two answers differ that must not; in words; how many numbers an
    answer has."""

    residual: float | None
    evidence: Evidence | None
    words: str
    outputs: int


UNCHECKED = FrontCheck(None, None, "not yet checked", 1)


def held_out_front(oracle: Oracle, learned: LearnedFront, rng: np.random.Generator) -> FrontCheck:
    """Two sequences of each length from 2 to 8, and as many shorter ones."""
    oracle.stage = "checking on fresh queries"
    size = token_size(learned, longest(oracle))
    fresh = [sequences(learned, size, length, oracle.dim, rng) for length in LENGTHS]
    answers = np.concatenate([np.asarray(oracle(X)).reshape(EACH, -1) for X in fresh])
    expected = np.concatenate([np.asarray(learned.model(X)).reshape(EACH, -1) for X in fresh])
    off = np.abs(answers - expected).max(axis=1)
    spread = float(np.ptp(answers, axis=0).max())
    score = size * (learned.bound * size + learned.bound_key_bias)
    allowed = (LOOSE + SLACK * score) * spread + SLACK * learned.noise
    worst = int(np.argmax(off))
    evidence = None
    if off[worst] > allowed:
        evidence = Evidence(
            "a sequence and a shorter one with the same attention output are answered alike",
            fresh[worst // EACH][worst % EACH],
            f"expected {expected[worst]} within {allowed:.2g}",
            f"{answers[worst]}",
        )
    residual = float(off.max()) / (float(np.abs(answers).max()) or 1.0)
    words = f"{len(off)} fresh sequences of 2 to 8 tokens are answered like shorter ones, to {residual:.1e}"
    return FrontCheck(residual, evidence, words, answers.shape[1])


def token_size(learned: LearnedFront, reach: float) -> float:
    """Tokens as long as those W was read with, or longer if scores of size one want it."""
    d, L = learned.model.dim, learned.scale
    score = L * (L * learned.model.W_norm / d + float(np.linalg.norm(learned.model.key_bias)) / np.sqrt(d))
    wanted = L * float(np.clip(np.sqrt(1 / max(score, 1e-300)), 1.0, WIDER))
    return min(wanted, reach / 2)


def sequences(learned: LearnedFront, size: float, length: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian tokens of rms length `size`, none twice as long."""
    Z = rng.standard_normal((EACH, length, dim))
    norms = np.linalg.norm(Z, axis=-1, keepdims=True)
    return Z * size * np.minimum(1 / np.sqrt(dim), 2 / norms)
