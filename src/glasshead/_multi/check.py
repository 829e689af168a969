"""The held-out check of several heads: fresh sequences of 1 to 8 tokens, answered by the box and by the model."""

from __future__ import annotations

import numpy as np

from .._check import EACH, LENGTHS, QUERIES, HeldOut, suited_length, unit_scale
from .._errors import Evidence
from .._meter.lever import longest
from .._oracle import Oracle
from .learned import LearnedMultiHead

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
    sizes = typical_tokens(learned, longest(oracle))
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
    return HeldOut(residual, evidence, words(residual, oracle), warning(residual, oracle))


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
