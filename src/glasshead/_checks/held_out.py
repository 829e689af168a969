"""The held-out check: fresh random sequences, answered by the box and by the recovered model."""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np

from .._errors import Evidence
from .._learned import HeldOut, LearnedVector, Predicting
from .._oracles import Oracle

LENGTHS = range(1, 9)
EACH = 2  # sequences of each length; one token alone was asked about before
QUERIES = len(LENGTHS) * EACH
VAGUE = 0.1  # of an answer: bounds that allow more say next to nothing
SHARP = 32.0  # times the least that bounds allow at any length: still sharp
FINER, DEPTH = 4.0, 24  # shorter and shorter tokens to look for better ones
SAMPLE = 4  # sequences, and tokens in each


def held_out(oracle: Oracle, learned: Predicting, rng: np.random.Generator) -> HeldOut:
    """`QUERIES` fresh queries: one token, two sequences of each length from 2 to 8, the last of them once more."""
    oracle.stage = "checking on fresh queries"
    sizes = token_sizes(oracle, learned, deepcopy(rng))
    worst, largest, evidence, excess = 0.0, 0.0, None, 1.0
    X = answers = np.empty(0)
    for length in LENGTHS:
        # One token alone is a short one: noise of constant size shows best where rounding errors are small.
        scale = sizes[0] * math.sqrt(oracle.roundoff) if length == 1 else sizes[length % len(sizes)]
        X = scale * unit_scale(rng.standard_normal((min(EACH, length), length, oracle.dim)))
        answers, expected = oracle(X), np.asarray(learned.model(X))
        allowed = learned.allowed(X, oracle)
        for x, got, want, slack in zip(X, answers, expected, allowed, strict=True):
            off = float(np.abs(got - want).max())
            worst, largest = max(worst, off), max(largest, float(np.abs(got).max()))
            if off > excess * slack:
                excess = off / slack if slack > 0 else np.inf
                evidence = Evidence(
                    "the recovered head predicts fresh answers", x, f"expected {want} within {slack:.2g}", f"{got}"
                )
    again = oracle(X[-1:])[0]
    repeat = 2 * float(learned.allowed(X[-1:], oracle)[0])
    if float(np.abs(again - answers[-1]).max()) > repeat:
        evidence = Evidence("the same query gets the same answer", X[-1], f"expected {answers[-1]} again", f"{again}")
    residual = worst / largest if largest > 0 else worst
    words = f"{QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
    return HeldOut(residual, evidence, words, compared=QUERIES - 1)  # one of them was asked twice


def unit_scale(X: np.ndarray) -> np.ndarray:
    """Gaussian tokens, none longer than `2 sqrt(d)`, divided by that length."""
    longest_allowed = 2 * np.sqrt(X.shape[-1])
    norms = np.linalg.norm(X, axis=-1, keepdims=True)
    return X / np.maximum(norms, longest_allowed)


def token_size(learned: Predicting, reach: float) -> float:
    """The token length at which scores differ by a few units, so that the softmax is neither flat nor saturated."""
    model = learned.model
    return min(suited_length(model.dim, model.W_norm, float(np.linalg.norm(model.key_bias))), reach)


def token_sizes(oracle: Oracle, learned: Predicting, rng: np.random.Generator) -> tuple[float, ...]:
    """The same; a head that takes the mean has no scale, and does so for the longest tokens too. Where the bounds say
    nothing at that length, also the longest at which they say most: a check that every answer passes is none."""
    reach = oracle.reach
    flat = learned.model.W_norm == 0 and not np.any(learned.model.key_bias)
    usual = token_size(learned, reach)
    lengths = usual * FINER ** -np.arange(DEPTH)
    X = unit_scale(rng.standard_normal((SAMPLE, SAMPLE, oracle.dim)))
    said = np.array([vague(oracle, learned, length * X) for length in lengths])
    best = float(lengths[said <= SHARP * said.min()][0])
    return (usual, *[reach] * flat, *[best] * bool(said[0] > VAGUE and best < usual))


def vague(oracle: Oracle, learned: Predicting, X: np.ndarray) -> float:
    """How far answers to such sequences may be off, over what their tokens are answered one by one."""
    alone = np.abs(np.asarray(learned.model(X.reshape(-1, 1, X.shape[2]))))
    return float(learned.allowed(X, oracle).max() / max(float(alone.max()), np.finfo(float).tiny))


def suited_length(dim: int, W: float, key_bias: float) -> float:
    """Solves `W size^2 + key_bias size = 2` in what Gaussian tokens over `2 sqrt(d)` see of either."""
    half = 2 * np.sqrt(dim)
    quadratic, linear = W / half**2, key_bias / half
    return float(4 / (linear + np.sqrt(linear**2 + 8 * quadratic)) if linear + quadratic > 0 else half)


EACH_LAYER = 2
LOOSE = 4.0  # times the square root of a rounding: a head found wrong differs by far more, a right one by far less


def check_vector(oracle: Oracle, learned: LearnedVector, rng: np.random.Generator) -> HeldOut:
    """`QUERIES` fresh queries, two of each length; `evidence` is the worst answer, if it is too far off."""
    oracle.stage = "checking on fresh queries"
    size = layer_token_size(learned, oracle.reach)
    batches = [size * unit_scale(rng.standard_normal((EACH_LAYER, length, oracle.dim))) for length in LENGTHS]
    pairs = [
        (x, got, want) for X in batches for x, got, want in zip(X, oracle(X), np.asarray(learned.model(X)), strict=True)
    ]
    largest = max(float(np.abs(got).max()) for _, got, _ in pairs) or 1.0
    query, got, want = max(pairs, key=lambda pair: float(np.abs(pair[1] - pair[2]).max()))
    residual = float(np.abs(got - want).max()) / largest
    allowed = LOOSE * float(np.sqrt(oracle.roundoff))
    words = f"{QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
    worst = None if residual <= allowed else evidence(query, want, got, allowed * largest)
    return HeldOut(residual, worst, words, compared=QUERIES)


def evidence(query: np.ndarray, want: np.ndarray, got: np.ndarray, allowed: float) -> Evidence:
    output = int(np.argmax(np.abs(got - want)))
    expected = f"expected {want[output]:.9g} within {allowed:.2g} as output {output}"
    return Evidence("the recovered heads predict fresh answers", query, expected, f"{got[output]:.9g}")


def layer_token_size(learned: LearnedVector, reach: float) -> float:
    """The token length at which the scores of the head with the largest ones differ by a few units."""
    W = max(head.W_norm for head in learned.heads)
    key_bias = max(float(np.linalg.norm(head.key_bias)) for head in learned.heads)
    return min(suited_length(learned.model.dim, W, key_bias), reach)
