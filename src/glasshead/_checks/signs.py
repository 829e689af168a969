"""The held-out check for yes-or-no answers: fresh sequences, half of them as close to a change of sign as is safe.

A sign says little where the value is large. Between two fresh sequences that the recovered head answers differently
there is one where its answer changes; on either side of it, as near as the error bounds allow, the box must agree.
"""

from __future__ import annotations

import numpy as np

from .._errors import Evidence
from .._learned import HeldOut, LearnedHead
from .._oracles import Oracle, Voting
from .held_out import EACH, LENGTHS, token_size, unit_scale

SAFE = 2.0  # times the error bounds: what a predicted value must be to be held against the box
TRIES = 64  # sequences drawn until two of them are answered differently
HALVINGS = 60
FLAT = 0.25  # scores of tokens of that length are certainly below a quarter
TINY = 2.0**-512

SIGN_QUERIES = len(LENGTHS) * 2 * EACH


def held_out_signs(oracle: Oracle, learned: LearnedHead, rng: np.random.Generator) -> HeldOut:
    """`QUERIES` fresh queries: of each length from 1 to 8 two random ones, and two next to a change of sign."""
    oracle.stage = "checking on fresh queries"
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    wrong, largest, evidence, excess = 0.0, 0.0, None, 1.0
    for length in LENGTHS:
        X = np.concatenate([fresh(oracle, learned, length, EACH, rng), edge(oracle, learned, length, rng)])
        answers, values = np.asarray(sure(X)), np.asarray(learned.model(X))
        largest = max(largest, float(np.abs(values).max()))
        allowed = learned.allowed(X, oracle)
        for x, yes, value, slack in zip(X, answers, values, allowed, strict=True):
            if bool(yes) == bool(value > 0):
                continue
            wrong = max(wrong, abs(float(value)))
            if abs(value) > excess * slack:
                excess = abs(float(value)) / slack if slack > 0 else np.inf
                expected = f"expected {'yes' if value > 0 else 'no'}, its value being {value:.9g} within {slack:.2g}"
                evidence = Evidence("the recovered head predicts fresh answers", x, expected, "yes" if yes else "no")
    words = f"{SIGN_QUERIES} fresh queries of 1 to 8 tokens agree, half of them next to a change of sign"
    return HeldOut(wrong / largest if largest > 0 else wrong, evidence, words, compared=SIGN_QUERIES)


def fresh(oracle: Oracle, learned: LearnedHead, length: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random sequences around the point of the plane `f = 0` that is nearest to zero."""
    head = learned.model
    center = -float(head.bias) * head.v
    reach = oracle.reach - float(np.linalg.norm(center))
    size = min(flat_size(learned) if learned.rank == 0 else token_size(learned, reach), reach)
    return center + size * unit_scale(rng.standard_normal((count, length, oracle.dim)))


def flat_size(learned: LearnedHead) -> float:
    """Where every score is 0: tokens so long that one which is not would show, as far as the bounds rule it out."""
    of_bias = float(np.linalg.norm(learned.model.key_bias)) + learned.bound_key_bias
    return FLAT * min(1 / max(learned.bound, TINY) ** 0.5, 1 / max(of_bias, TINY))


def edge(oracle: Oracle, learned: LearnedHead, length: int, rng: np.random.Generator) -> np.ndarray:
    """Two sequences on either side of a change of sign, each `SAFE` times further from it than the error bounds ask."""
    draws = fresh(oracle, learned, length, TRIES, rng)
    values = np.asarray(learned.model(draws))
    ends = draws[[np.argmax(values), np.argmin(values)]]
    for _ in range(HALVINGS):
        middle = ends.mean(axis=0, keepdims=True)
        value = float(np.asarray(learned.model(middle))[0])
        if abs(value) < SAFE * float(learned.allowed(middle, oracle)[0]):
            break
        ends[int(value <= 0)] = middle[0]
    return ends
