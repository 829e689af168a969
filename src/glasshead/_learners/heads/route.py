"""Heads from boxes that answer one number or several: the more numbers an answer holds, the fewer queries."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np

from ..._checks import Opening, check_held_out, check_held_out_heads, check_held_out_outputs, check_held_out_vector
from ..._errors import ASKED_AGAIN, AccuracyUnreachable, BudgetExceeded, Evidence, GlassheadError, TargetMismatch
from ..._learned import HeldOut, LearnedCombined, LearnedHead, LearnedMultiHead, LearnedVector
from ..._models import MultiHead, with_values
from ..._oracles import OneNumber, Oracle
from ..attention import learn_attention
from .combination import learn_combined
from .scalar import learn_sum
from .vector import learn_vector, learn_vector_attention


def in_rows(learned: LearnedMultiHead) -> LearnedMultiHead:
    """The heads with answers of shape `(1,)`, for a box that has such ones."""
    heads = [with_values(head.score_tensors(), head.v[:, None]) for head in learned.model.heads]
    return replace(learned, model=MultiHead(heads, bias=np.reshape(learned.model.bias, 1)))


def learn_one(
    oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None
) -> LearnedHead:
    """One head from one number per answer, or from one combination of them."""
    learned = learn_attention(oracle, rng, rank, accuracy, opening)
    strict = oracle.exact and accuracy is None and type(learned) is LearnedHead
    return replace(learned, strict=True) if strict else learned


def learn_one_vector(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """One head from all outputs at once; guarantees come from one score per query, and so does averaging of noise."""
    if not oracle.exact or accuracy is not None:
        return learn_one(oracle, rng, rank, accuracy, opening)
    try:
        learned = learn_vector_attention(oracle, rng, rank, accuracy, opening)
    except AccuracyUnreachable as unclear:
        law, query = "one set of scores explains all outputs", np.zeros((1, oracle.dim))
        evidence = Evidence(law, query, "expected fresh scores to agree", str(unclear))
        raise TargetMismatch("the box is not a single attention head", evidence, unclear.best) from unclear
    except TargetMismatch as mismatch:
        if mismatch.evidence is None or mismatch.evidence.law != ASKED_AGAIN:
            raise
        return learn_one(oracle, rng, rank, accuracy, opening)
    return learned if isinstance(learned, LearnedVector) else learn_one(oracle, rng, rank, accuracy, opening)


def learn_several(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """Any number of heads from one number per answer."""
    box = OneNumber(oracle)
    learned = learn_sum(box, rng if opening is None else deepcopy(opening.before), rank, accuracy, opening)
    return in_rows(learned) if box.shape else learned


def learn_several_vector(oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None = None):
    """Any number of heads from all outputs at once, or from one combination of them."""
    try:
        learned = learn_vector(oracle, rng, rank, accuracy, opening)
    except AccuracyUnreachable as error:
        if accuracy is not None:
            raise
        return learn_otherwise(oracle, rng, rank, accuracy, str(error))
    return learned if isinstance(learned, LearnedVector) else learn_otherwise(oracle, rng, rank, accuracy, str(learned))


def learn_otherwise(oracle: Oracle, rng: np.random.Generator, rank, accuracy, reason: str) -> LearnedCombined:
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
        return check_held_out_vector(oracle, learned, rng)
    return check_held_out(oracle, learned, rng)


def check_heads(oracle: Oracle, learned, rng: np.random.Generator) -> HeldOut:
    if isinstance(learned, LearnedVector):
        return check_held_out_vector(oracle, learned, rng)
    if isinstance(learned, LearnedCombined):
        return check_held_out_outputs(oracle, learned, rng)
    return learned.check or check_held_out_heads(OneNumber(oracle), learned, rng)
