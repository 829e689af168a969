"""Heads from boxes that answer one number or several: the more numbers an answer holds, the fewer queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._checks import check_combined, check_vector, held_out, held_out_heads
from ..._errors import SAME, AccuracyUnreachable, BudgetExceeded, Evidence, GlassheadError, TargetMismatch
from ..._learned import HeldOut, LearnedCombined, LearnedHead, LearnedMultiHead, LearnedVector
from ..._models import MultiHead, with_values
from ..._oracles import OneNumber, Oracle, Replayed
from ..attention import learn_attention
from .combination import learn_combined
from .scalar import learn_sum
from .vector import NeedsScalarRoute, learn_vector, learn_vector_attention


def in_rows(learned: LearnedMultiHead) -> LearnedMultiHead:
    """The heads with answers of shape `(1,)`, for a box that has such ones."""
    heads = [with_values(head.score_tensors(), head.v[:, None]) for head in learned.model.heads]
    return replace(learned, model=MultiHead(heads, bias=np.reshape(learned.model.bias, 1)))


def outputs(oracle: Oracle) -> int:
    """How many numbers an answer holds: known from earlier answers, or from one query that will be needed anyway."""
    if isinstance(oracle, Replayed) and oracle.shape is not None:
        shape = oracle.shape
    else:
        ask = oracle.remember if isinstance(oracle, Replayed) else oracle
        shape = np.shape(ask(np.zeros((1, 1, oracle.dim))))[1:]
    return shape[0] if shape else 1


def learn_head(oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None):
    """One head. Guarantees come from one score per query, so they are given where a promise or an accuracy asks."""
    if oracle.exact and accuracy is None and outputs(oracle) > 1:
        try:
            return learn_vector_attention(oracle, rng, rank, accuracy)
        except NeedsScalarRoute:
            pass
        except AccuracyUnreachable as unclear:
            law, query = "one set of scores explains all outputs", np.zeros((1, oracle.dim))
            evidence = Evidence(law, query, "expected fresh scores to agree", str(unclear))
            raise TargetMismatch("the box is not a single attention head", evidence, unclear.best) from unclear
        except TargetMismatch as mismatch:
            if mismatch.evidence is None or mismatch.evidence.law != SAME:  # noise is for the other route to average
                raise
    learned = learn_attention(oracle, rng, rank, accuracy)
    strict = oracle.exact and accuracy is None and type(learned) is LearnedHead
    return replace(learned, strict=True) if strict else learned


def learn_heads(oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None):
    """Any number of heads."""
    if outputs(oracle) == 1:
        box = OneNumber(oracle)
        learned = learn_sum(box, rng, rank, accuracy)
        return in_rows(learned) if box.shape else learned
    try:
        return learn_vector(oracle, rng, rank, accuracy)
    except NeedsScalarRoute as reason:
        return learn_otherwise(oracle, rng, rank, accuracy, reason)
    except AccuracyUnreachable as reason:
        if accuracy is not None:
            raise
        return learn_otherwise(oracle, rng, rank, accuracy, reason)


def learn_otherwise(oracle: Oracle, rng: np.random.Generator, rank, accuracy, reason: Exception) -> LearnedCombined:
    """What all outputs together do not show, for that `reason`, one combination of them may."""
    try:
        return learn_combined(oracle, rng, rank, accuracy)
    except BudgetExceeded:
        raise
    except GlassheadError as error:
        error.add_note(f"Before that, all outputs at once did not show the heads either: {reason}")
        raise


def check_head(oracle: Oracle, learned, rng: np.random.Generator) -> HeldOut:
    if isinstance(learned, LearnedVector):
        return check_vector(oracle, learned, rng)
    return held_out(oracle, learned, rng)


def check_heads(oracle: Oracle, learned, rng: np.random.Generator) -> HeldOut:
    if isinstance(learned, LearnedVector):
        return check_vector(oracle, learned, rng)
    if isinstance(learned, LearnedCombined):
        return check_combined(oracle, learned, rng)
    return learned.check or held_out_heads(OneNumber(oracle), learned, rng)
