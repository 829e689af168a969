"""Heads that tokens of the usual length leave asleep: the held-out check, then a look at all other lengths.

A head whose W is far smaller than that of the others takes the mean of their usual tokens, and two that cancel wherever
they saturate show at their own length only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._check import HeldOut, unit_scale
from .._errors import BudgetExceeded, Evidence
from .._meter.lever import longest
from .._models import Attention
from .._oracle import Oracle
from .check import DIGITS, ROUNDINGS, choosy, errors, held_out_heads, plain, typical_tokens
from .learned import LearnedMultiHead

ALL_LENGTHS = "the recovered heads predict answers to tokens of all lengths"
STEPS, TOKENS = 8, 3  # lengths to look at, and the tokens of each sequence
SHORTEST, LONGEST = 1e-6, 0.25  # of the usual length, and of the longest
VALUES, SCORES = 1e-9, 1e-6  # of v, and of W and a key bias: what may be unknown although the usual tokens agree
WORSE = 10.0  # times the residual there, where that is more


def checked_heads(oracle: Oracle, learned: LearnedMultiHead, rng: np.random.Generator) -> HeldOut:
    """`STEPS` queries more than the held-out check, where that finds nothing wrong. Heads that the budget does not
    suffice to check are known as `unchecked`."""
    try:
        check = held_out_heads(oracle, learned, rng)
        return check if check.evidence is not None else at_all_lengths(oracle, learned, check, rng)
    except BudgetExceeded as error:
        error.known["unchecked"] = learned
        raise


def at_all_lengths(oracle: Oracle, learned: LearnedMultiHead, check: HeldOut, rng: np.random.Generator) -> HeldOut:
    reach = longest(oracle)
    usual = typical_tokens(learned, reach)
    lengths = np.geomspace(SHORTEST * usual.min(), max(LONGEST * reach, usual.max()), STEPS)
    X = lengths[:, None, None] * unit_scale(rng.standard_normal((STEPS, TOKENS, oracle.dim)))
    answers, expected = oracle(X), np.ravel(learned.model(X))
    off, allowed = np.abs(answers - expected), slack(oracle, learned, X, answers, check.residual)
    if not np.any(off > allowed):
        return check
    worst = int(np.argmax(off / allowed))
    law, close = ALL_LENGTHS, f"{expected[worst]:.9g} within {allowed[worst]:.2g}"
    return replace(check, evidence=Evidence(law, X[worst], f"expected {close}", f"{answers[worst]:.9g}"))


def slack(oracle: Oracle, learned: LearnedMultiHead, X: np.ndarray, answers: np.ndarray, residual: float) -> np.ndarray:
    """How far each answer may be off. What is not known of scores grows with the tokens, unlike at the usual length."""
    heads = learned.model.heads
    chosen = np.abs(answers - plain(learned, X)) + sum(np.abs(preferred(head, X)) for head in heads)
    values = np.max([np.abs(X @ head.v).max(axis=1) for head in heads], axis=0)
    share = max(DIGITS * oracle.roundoff, unknown(oracle, learned, residual))
    moved = sum(unsure(head, X, max(SCORES, share)) for head in heads)
    return max(VALUES, share) * chosen + moved + errors(oracle, learned, values + np.abs(answers))


def unknown(oracle: Oracle, learned: LearnedMultiHead, residual: float) -> float:
    """The share of all scores that answers to the usual tokens leave open: beside a large bias or mean, more."""
    length = float(typical_tokens(learned, longest(oracle)).min())
    chosen = sum(float(np.linalg.norm(head.v)) for head in choosy(learned)) * length
    values = sum(float(np.linalg.norm(head.v)) for head in learned.model.heads) * length
    size = values + abs(float(np.ravel(learned.model.bias)[0]))
    return (WORSE * residual + ROUNDINGS * oracle.roundoff) * size / chosen if chosen > 0 else 0.0


def preferred(head: Attention, X: np.ndarray) -> np.ndarray:
    """What a head adds to the mean of the tokens."""
    return np.asarray(head(X) - X.mean(axis=1) @ head.v)


def unsure(head: Attention, X: np.ndarray, share: float) -> np.ndarray:
    """By how much an answer may move if that share of W and of the key bias is unknown.

    Scores off by at most e move a softmax by `exp(2e) - 1` at most; and by what e leaves of all but the largest weight.
    """
    W, bias = head.W_norm, float(np.linalg.norm(head.key_bias))
    norms = np.linalg.norm(X, axis=2)
    queries = W + bias**2 if W > 0 else 0.0  # a key that never changes is no reading of W, so it has no error
    off = share * norms.max(axis=1) * (queries * norms[:, -1] + bias + np.sqrt(W))
    scores = np.sort(np.einsum("bnd,bd->bn", X, X[:, -1] @ head.W.T + head.key_bias), axis=1)
    others = X.shape[1] * np.exp(np.clip(2 * off - (scores[:, -1] - scores[:, -2]), -700.0, 0.0))
    values = X @ head.v
    half_range = (values.max(axis=1) - values.min(axis=1)) / 2
    return half_range * np.minimum(np.expm1(np.minimum(2 * off, 1.0)), 2 * others)
