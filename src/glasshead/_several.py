"""Heads from boxes that answer one number or several: the more numbers an answer holds, the fewer queries."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ._check import HeldOut, held_out
from ._errors import AccuracyUnreachable, Evidence, NotIdentifiable, TargetMismatch
from ._learner import learn_values
from ._learner.laws import SAME
from ._learner.learned import Learned
from ._look import Replayed
from ._models import MultiHead
from ._models.values import with_values
from ._multi import held_out_heads, learn_multi_head
from ._multi.learned import LearnedMultiHead
from ._oracle import Oracle, Wrapper
from ._vector import LearnedVector, NeedsScalarRoute, check_vector, learn_vector, learn_vector_attention

ROUNDINGS = 1 / 3  # the power of a rounding, of an answer's size: no head that was read right is that far off


@dataclass(frozen=True)
class Exact(Learned):
    """A head from answers that promise all their digits: another box makes its bounds wide, which is no excuse then."""

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        values = np.abs(X @ self.model.v).reshape(len(X), -1).max(axis=1) + float(np.abs(self.model.bias).max())
        return np.minimum(super().allowed(X, oracle), oracle.roundoff**ROUNDINGS * values)


class OneNumber(Wrapper):
    """A box whose answers hold one number each, whether in a row of their own or not."""

    shape: tuple[int, ...] = ()  # of an answer

    def __call__(self, X):
        answers = self.inner(X)
        self.shape = np.shape(answers)[1:]
        return np.reshape(answers, len(X))


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
    learned = learn_values(oracle, rng, rank, accuracy)
    strict = oracle.exact and accuracy is None and type(learned) is Learned
    return Exact(**vars(learned)) if strict else learned


def learn_heads(oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None):
    """Any number of heads."""
    if outputs(oracle) == 1:
        box = OneNumber(oracle)
        learned = learn_multi_head(box, rng, rank, accuracy)
        return in_rows(learned) if box.shape else learned
    try:
        return learn_vector(oracle, rng, rank, accuracy)
    except NeedsScalarRoute as reason:
        raise NotIdentifiable(
            f"vector answers do not show these heads: {reason}; one output at a time may, "
            "gh.ValueOracle(lambda X: f(X)[:, 0], dim=...)"
        ) from reason


def check_head(oracle: Oracle, learned, rng: np.random.Generator) -> HeldOut:
    if isinstance(learned, LearnedVector):
        return check_vector(oracle, learned, rng)
    return held_out(oracle, learned, rng)


def check_heads(oracle: Oracle, learned, rng: np.random.Generator) -> HeldOut:
    if isinstance(learned, LearnedVector):
        return check_vector(oracle, learned, rng)
    return held_out_heads(OneNumber(oracle), learned, rng)
