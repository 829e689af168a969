"""What adapters to real systems share: an oracle around what they call, with a first look at whether an answer depends
on when it was asked and on what else was in the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import SAME_BATCH, Evidence, TargetMismatch
from .._families import ANSWERS
from .._oracles import Answering, Oracle, SignOracle, ValueOracle, batch_rounding
from .._validate import needs as needs

LOOK_TOKENS = 3  # of each sequence of the first look
BATCH_NEIGHBOURS = 2  # sequences beside the one that is looked at
CONNECT = 10.0  # seconds for a connection
QUOTED = 200  # characters of what another system says
GOES_ON = "with journal= a run goes on where it stopped"


def check_box(
    f: Answering,
    dim: int,
    *,
    answers: str = "value",
    notes: Sequence[str] = (),
    rounds: float = 0.0,
    asked: int = 0,
    **promise: Any,
) -> Oracle:
    """An oracle around the `f` of an adapter, looked at with eight queries: `oracle.notes` says what was seen.

    `promise` are the keywords of `gh.ValueOracle` or, with `answers="sign"`, of `gh.SignOracle`. `rounds` is the
    unit roundoff of the narrowest numbers that the adapter knows of inside the box, `asked` what it has asked already.
    """
    if answers not in ANSWERS:
        raise ValueError(f"expected answers to be one of {ANSWERS}, got {answers!r}")
    oracle = (SignOracle if answers == "sign" else ValueOracle)(f, dim, **promise)
    oracle.queries = asked
    oracle.rounds_tokens(rounds)
    seen = check_batches(oracle)
    oracle.notes, oracle.looked = (*notes, *seen), oracle.queries
    return oracle


def quoted(said: str) -> str:
    """What another system says, on one line and no longer than a sentence."""
    line = " ".join(said.split())
    return line if len(line) <= QUOTED else f"{line[:QUOTED]}.."


def check_batches(oracle: Oracle) -> list[str]:
    """One sequence twice alone and once each in two orders of a batch: eight queries, and what they show.

    A `TargetMismatch` says that the box is batch-dependent: its neighbours change an answer that is otherwise repeated.
    """
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((1 + BATCH_NEIGHBOURS, LOOK_TOKENS, oracle.dim))
    X = drawn * min(1.0, oracle.reach / float(np.linalg.norm(drawn, axis=2).max()))
    X[0] /= 4  # so that a scale taken over the batch is its neighbours'
    first, again, beside, behind = (
        np.asarray(a) for a in (oracle(X[:1])[0], oracle(X[:1])[0], oracle(X)[0], oracle(X[::-1])[-1])
    )
    if oracle.answers == "sign":
        return signs_seen(X[0], first, again, [beside, behind])
    largest = float(np.abs(first).max())
    repeated = float(np.abs(again - first).max())
    if repeated > 0:
        return [f"the same sequence is answered otherwise the next time, by {share(repeated, largest)}"]
    moved = max(float(np.abs(other - first).max()) for other in (beside, behind))
    if moved > batch_rounding(oracle, largest):
        worst = max((beside, behind), key=lambda other: float(np.abs(other - first).max()))
        raise batch_dependent(X[0], first, worst)
    if moved > 0:
        return [f"repeats are equal bit for bit; the rest of the batch changes an answer by {share(moved, largest)}"]
    return ["answers are repeated bit for bit, alone and in a batch"]


def signs_seen(query: np.ndarray, first: np.ndarray, again: np.ndarray, others: list[np.ndarray]) -> list[str]:
    if first != again:
        return ["the same sequence is answered yes and no"]
    if any(other != first for other in others):
        raise batch_dependent(query, first, next(other for other in others if other != first))
    return ["answers are repeated, alone and in a batch"]


def batch_dependent(query: np.ndarray, alone: np.ndarray, beside: np.ndarray) -> TargetMismatch:
    where = int(np.argmax(np.abs(np.asarray(beside, float) - np.asarray(alone, float))))
    numbers = [np.ravel(answer)[where] for answer in (alone, beside)]
    evidence = Evidence(SAME_BATCH, query, f"expected {numbers[0]:.6g} as alone", f"{numbers[1]:.6g} beside others")
    words = "the box is batch-dependent: what else is in a batch changes an answer (a dynamic quantisation does that)"
    return TargetMismatch(f"{words}; have it answer one sequence at a time, or quantise it statically", evidence)


def share(off: float, largest: float) -> str:
    return f"{off / largest:.1g} of its size" if largest > 0 else f"{off:.1g}"
