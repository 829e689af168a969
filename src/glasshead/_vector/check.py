"""The held-out check: fresh sequences of 1 to 8 tokens, answered by the box and by the recovered layer."""

from __future__ import annotations

import numpy as np

from .._check import LENGTHS, QUERIES, HeldOut, suited_length, unit_scale
from .._errors import Evidence
from .._meter.lever import longest
from .._oracle import Oracle
from .learned import LearnedVector

EACH = 2
LOOSE = 4.0  # times the square root of a rounding: a head found wrong differs by far more, a right one by far less


def check_vector(oracle: Oracle, learned: LearnedVector, rng: np.random.Generator) -> HeldOut:
    """`QUERIES` fresh queries, two of each length; `evidence` is the worst answer, if it is too far off."""
    oracle.stage = "checking on fresh queries"
    size = token_size(learned, longest(oracle))
    batches = [size * unit_scale(rng.standard_normal((EACH, length, oracle.dim))) for length in LENGTHS]
    pairs = [
        (x, got, want) for X in batches for x, got, want in zip(X, oracle(X), np.asarray(learned.model(X)), strict=True)
    ]
    largest = max(float(np.abs(got).max()) for _, got, _ in pairs) or 1.0
    query, got, want = max(pairs, key=lambda pair: float(np.abs(pair[1] - pair[2]).max()))
    residual = float(np.abs(got - want).max()) / largest
    allowed = LOOSE * float(np.sqrt(oracle.roundoff))
    words = f"{QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
    return HeldOut(residual, None if residual <= allowed else evidence(query, want, got, allowed * largest), words)


def evidence(query: np.ndarray, want: np.ndarray, got: np.ndarray, allowed: float) -> Evidence:
    output = int(np.argmax(np.abs(got - want)))
    expected = f"expected {want[output]:.9g} within {allowed:.2g} as output {output}"
    return Evidence("the recovered heads predict fresh answers", query, expected, f"{got[output]:.9g}")


def token_size(learned: LearnedVector, reach: float) -> float:
    """The token length at which the scores of the head with the largest ones differ by a few units."""
    W = max(head.W_norm for head in learned.heads)
    key_bias = max(float(np.linalg.norm(head.key_bias)) for head in learned.heads)
    return min(suited_length(learned.model.dim, W, key_bias), reach)
