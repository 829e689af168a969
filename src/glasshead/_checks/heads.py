"""The held-out check of several heads: fresh sequences of 1 to 8 tokens, answered by the box and by the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import BudgetExceeded, Evidence
from .._learned import HeldOut, LearnedMultiHead
from .._models import Attention
from .._oracles import Oracle
from .held_out import EACH, LENGTHS, QUERIES, suited_length, unit_scale

REFUSED = 1e-6  # of what the choice of tokens makes of an answer: past this the box is something else
PROMISED = 100.0  # times the promised error of an answer
DIGITS = 1700.0  # times the precision, where that is more: 1e-4 for float32
ROUNDINGS = 100.0  # of the bias and of the plain mean of the tokens, which may be far larger than what is judged
SCORES = 4.0  # about the largest at the length of tokens chosen: errors of W show that much larger
APART = 8.0  # heads whose typical tokens differ by more are checked with tokens of their own
USUAL = 1e6, 3e-5  # times the precision, and at most: heads neither crowded nor alike agree at least so well

WARNED = 30.0  # times that: crowded heads and those solved for together still agree so well


def held_out_heads(oracle: Oracle, learned: LearnedMultiHead, rng: np.random.Generator) -> HeldOut:
    """`QUERIES` fresh queries: one token, two sequences of each length from 2 to 8, the last of them once more."""
    oracle.stage = "checking on fresh queries"
    sizes = typical_tokens(learned, oracle.reach)
    asked, answers, expected, chosen = [], [], [], []
    for length in LENGTHS:
        turn = np.arange(len(asked), len(asked) + min(EACH, length)) % len(sizes)
        X = sizes[turn, None, None] * unit_scale(rng.standard_normal((len(turn), length, oracle.dim)))
        asked += list(X)
        answers += oracle(X).tolist()
        expected += np.ravel(learned.model(X)).tolist()
        chosen += np.subtract(answers[-len(X) :], plain(learned, X)).tolist()
    again = float(oracle(asked[-1][None])[0])
    off, largest = np.abs(np.subtract(answers, expected)), largest_in_turn(answers, len(sizes))
    residual = float(np.max(off / np.where(largest > 0, largest, 1.0)))
    evidence = None
    allowed = refused(oracle, learned) * largest_in_turn(chosen, len(sizes)) + errors(oracle, learned, largest)
    if np.any(off > allowed):
        worst = int(np.argmax(off - allowed))
        law, close = "the recovered heads predict fresh answers", f"{expected[worst]:.9g} within {allowed[worst]:.2g}"
        evidence = Evidence(law, asked[worst], f"expected {close}", f"{answers[worst]:.9g}")
    if abs(again - answers[-1]) > allowed[-1]:
        close = f"expected {answers[-1]:.9g} again, within {allowed[-1]:.2g}"
        evidence = Evidence("the same query gets the same answer", asked[-1], close, f"{again:.9g}")
    return HeldOut(residual, evidence, words(residual, oracle), warning(residual, oracle), len(asked))


def plain(learned: LearnedMultiHead, X: np.ndarray) -> np.ndarray:
    """What heads without any preference would answer. Next to a large bias or mean, all that W does may be small."""
    return np.ravel(X.mean(axis=1) @ np.sum([head.v for head in learned.model.heads], axis=0) + learned.model.bias)


def errors(oracle: Oracle, learned: LearnedMultiHead, largest: np.ndarray) -> np.ndarray:
    """Of answers that large, by rounding and by what was promised."""
    size = largest + abs(float(np.ravel(learned.model.bias)[0]))
    return ROUNDINGS * oracle.roundoff * size + PROMISED * (oracle.tolerance + oracle.rtol * largest)


def largest_in_turn(answers: list[float], turns: int) -> np.ndarray:
    """For each answer the largest of those to tokens of the same length."""
    size = np.abs(answers)
    return np.array([size[i % turns :: turns].max() for i in range(len(size))])


def refused(oracle: Oracle, learned: LearnedMultiHead) -> float:
    """The largest error of an answer, over the largest part of one that heads have chosen."""
    size = float(np.median([head.W_norm for head in choosy(learned)] or 0.0))
    asked = (learned.accuracy or 0.0) / size if size > 0 else 0.0
    return max(REFUSED, DIGITS * oracle.roundoff, SCORES * asked)


def unusual(residual: float, oracle: Oracle, times: float = 1.0) -> bool:
    return oracle.exact and residual > min(times * USUAL[0] * oracle.roundoff, USUAL[1])


def warning(residual: float, oracle: Oracle) -> str:
    if not unusual(residual, oracle, WARNED):
        return ""
    return (
        f"some heads may have come out as one: they answer fresh queries within {residual:.1e} only, and what differs "
        "by less is merged"
    )


def words(residual: float, oracle: Oracle) -> str:
    said = f"{QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
    if not unusual(residual, oracle):
        return said
    return (
        f"{said}, which is less than usual: heads are crowded, or so alike that some were merged within a tolerance of "
        f"{residual:.1e}"
    )


def typical_tokens(learned: LearnedMultiHead, reach: float) -> np.ndarray:
    """The token length at which the scores of a typical head differ by a few units; several, where heads differ so much
    that one length would leave some of them asleep or saturated. The mean has none, so that any will do."""
    heads = choosy(learned)
    sizes = np.sort([suited_length(head.dim, head.W_norm, float(np.linalg.norm(head.key_bias))) for head in heads])
    if len(sizes) == 0:
        return np.array([1.0, reach]).clip(max=reach)
    groups = np.split(sizes, np.flatnonzero(np.diff(np.log(sizes)) > np.log(APART)) + 1)
    return np.minimum([np.median(group) for group in groups], reach)


def choosy(learned: LearnedMultiHead) -> list:
    """The heads that prefer some token to another."""
    return [head for head in learned.model.heads if head.W_norm > 0 or head.has_key_bias]


ALL_LENGTHS = "the recovered heads predict answers to tokens of all lengths"
STEPS, TOKENS = 8, 3  # lengths to look at, and the tokens of each sequence
SHORTEST, LONGEST = 1e-6, 0.25  # of the usual length, and of the longest
VALUES, UNSEEN_SCORES = 1e-9, 1e-6  # of v, and of W and a key bias: what may be unknown although the usual tokens agree
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
    reach = oracle.reach
    usual = typical_tokens(learned, reach)
    lengths = np.geomspace(SHORTEST * usual.min(), max(LONGEST * reach, usual.max()), STEPS)
    X = lengths[:, None, None] * unit_scale(rng.standard_normal((STEPS, TOKENS, oracle.dim)))
    answers, expected = oracle(X), np.ravel(learned.model(X))
    off, allowed = np.abs(answers - expected), slack(oracle, learned, X, answers, check.residual)
    if not np.any(off > allowed):
        return replace(check, compared=check.compared + STEPS)
    worst = int(np.argmax(off / allowed))
    law, close = ALL_LENGTHS, f"{expected[worst]:.9g} within {allowed[worst]:.2g}"
    return replace(check, evidence=Evidence(law, X[worst], f"expected {close}", f"{answers[worst]:.9g}"))


def slack(oracle: Oracle, learned: LearnedMultiHead, X: np.ndarray, answers: np.ndarray, residual: float) -> np.ndarray:
    """How far each answer may be off. What is not known of scores grows with the tokens, unlike at the usual length."""
    heads = learned.model.heads
    chosen = np.abs(answers - plain(learned, X)) + sum(np.abs(preferred(head, X)) for head in heads)
    values = np.max([np.abs(X @ head.v).max(axis=1) for head in heads], axis=0)
    share = max(DIGITS * oracle.roundoff, unknown(oracle, learned, residual))
    moved = sum(unsure(head, X, max(UNSEEN_SCORES, share)) for head in heads)
    return max(VALUES, share) * chosen + moved + errors(oracle, learned, values + np.abs(answers))


def unknown(oracle: Oracle, learned: LearnedMultiHead, residual: float) -> float:
    """The share of all scores that answers to the usual tokens leave open: beside a large bias or mean, more."""
    length = float(typical_tokens(learned, oracle.reach).min())
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
