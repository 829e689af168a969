"""The held-out check of several heads: fresh sequences of 1 to 8 tokens, answered by the box and by the model."""

from __future__ import annotations

import numpy as np

from .._check import EACH, LENGTHS, QUERIES, HeldOut, suited_length, unit_scale
from .._errors import Evidence
from .._meter.lever import longest
from .._oracle import Oracle
from .learned import LearnedMultiHead

REFUSED = 1e-6  # of the largest answer: past this the box is something else
PROMISED = 100.0  # times the promised error of an answer
DIGITS = 1700.0  # times the precision, where that is more: 1e-4 for float32
SCORES = 4.0  # about the largest at the length of tokens chosen: errors of W show that much larger
USUAL = 1e6, 3e-5  # times the precision, and at most: heads neither crowded nor alike agree at least so well


def held_out_heads(oracle: Oracle, learned: LearnedMultiHead, rng: np.random.Generator) -> HeldOut:
    """`QUERIES` fresh queries: one token, two sequences of each length from 2 to 8, the last of them once more."""
    oracle.stage = "checking on fresh queries"
    size = typical_token(learned, longest(oracle))
    asked, answers, expected = [], [], []
    for length in LENGTHS:
        X = size * unit_scale(rng.standard_normal((min(EACH, length), length, oracle.dim)))
        asked += list(X)
        answers += oracle(X).tolist()
        expected += np.ravel(learned.model(X)).tolist()
    again = float(oracle(asked[-1][None])[0])
    off, largest = np.abs(np.subtract(answers, expected)), float(np.abs(answers).max())
    residual = float(off.max() / largest) if largest > 0 else float(off.max())
    evidence = None
    allowed = refused(oracle, learned) * largest + PROMISED * (oracle.tolerance + oracle.rtol * largest)
    if off.max() > allowed:
        worst = int(off.argmax())
        law, close = "the recovered heads predict fresh answers", f"expected {expected[worst]:.9g} within {allowed:.2g}"
        evidence = Evidence(law, asked[worst], close, f"{answers[worst]:.9g}")
    if abs(again - answers[-1]) > allowed:
        close = f"expected {answers[-1]:.9g} again, within {allowed:.2g}"
        evidence = Evidence("the same query gets the same answer", asked[-1], close, f"{again:.9g}")
    return HeldOut(residual, evidence, words(residual, oracle))


def refused(oracle: Oracle, learned: LearnedMultiHead) -> float:
    """The largest error of an answer, over the largest answer, that a sum of heads may have."""
    size = float(np.median([head.W_norm for head in learned.model.heads]))
    asked = (learned.accuracy or 0.0) / size if size > 0 else 0.0
    return max(REFUSED, DIGITS * oracle.roundoff, SCORES * asked)


def words(residual: float, oracle: Oracle) -> str:
    said = f"{QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
    if not oracle.exact or residual <= min(USUAL[0] * oracle.roundoff, USUAL[1]):
        return said
    return (
        f"{said}, which is less than usual: heads are crowded, or so alike that some were merged within a tolerance of "
        f"{residual:.1e}"
    )


def typical_token(learned: LearnedMultiHead, reach: float) -> float:
    """The token length at which the scores of a typical head differ by a few units."""
    heads = learned.model.heads
    sizes = [suited_length(head.dim, head.W_norm, float(np.linalg.norm(head.key_bias))) for head in heads]
    return float(min(np.median(sizes), reach))
