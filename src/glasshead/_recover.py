"""The one entry: ask a box, get its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._arguments import as_oracle, check_arguments
from ._check import HeldOut, held_out
from ._check_signs import held_out_signs
from ._errors import AccuracyUnreachable, BudgetExceeded, TargetMismatch
from ._learner import learn_attention, learn_sign_attention
from ._learner.learned import Learned
from ._oracle import Budgeted, Counted, Oracle, Watched
from ._plan import estimate, plan
from ._progress import bar
from ._recovery import Recovery

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Way:
    """How one kind of answers is learned from and checked, and what to say where they do not suffice."""

    learn: Callable[..., Learned]
    check: Callable[..., HeldOut]
    promise: str
    needed: str


WAYS = {
    "value": Way(learn_attention, held_out, "tolerance= or rtol=", "a smaller tolerance or a larger max_norm"),
    "sign": Way(learn_sign_attention, held_out_signs, "dtype= or flips=", "a larger max_norm"),
}


def recover(
    oracle, *, family="auto", rank=None, accuracy=None, budget=None, journal=None, seed=0, progress=None
) -> Recovery:
    """Recover the model behind `oracle` from queries alone.

    >>> import glasshead as gh
    >>> target = gh.Attention.random(16, seed=1)
    >>> found = gh.recover(gh.ValueOracle(target))
    >>> gh.distance(found.model, target) < 1e-13, found.queries <= gh.plan(16)
    (True, True)

    `oracle` is a `gh.Oracle`, or a `gh` model to be wrapped in one. Every result was checked on fresh queries of 1 to 8
    tokens; a box that is not of the family raises `TargetMismatch` with the evidence, one that hides its parameters
    `NotIdentifiable`. `rank` is discovered unless given; `accuracy` is the largest acceptable `||W_hat - W||_F`, which
    can save queries where W is nearly of low rank; `budget` is the most queries to ask; `progress` is True for a bar or
    a callable `(done, planned, what)`. The same seed asks the same queries.

    From a `gh.SignOracle`, which says only yes or no, v and the bias are found up to one positive factor: v then has
    norm 1. It takes as many queries per free parameter as `accuracy` asks for bits, 40 by default.
    """
    oracle = as_oracle(oracle)
    check_arguments(oracle, family, rank, accuracy, budget, journal, seed, progress)
    if progress is True:
        with bar() as report:
            return _recover(oracle, rank, accuracy, budget, seed, report)
    return _recover(oracle, rank, accuracy, budget, seed, progress or None)


def _recover(box: Oracle, rank, accuracy, budget, seed, report: Progress | None) -> Recovery:
    oracle = counted = Counted(box)
    if budget is not None:
        oracle = Budgeted(oracle, budget)
    if report is not None:
        oracle = Watched(oracle, plan(box.dim, rank=rank, answers=box.answers, accuracy=accuracy), report)
    rng, way = np.random.default_rng(seed), WAYS[box.answers]
    learned = None
    try:
        learned = way.learn(oracle, rng, rank, accuracy)
        check = way.check(oracle, learned, rng)
    except BudgetExceeded as error:
        if learned is not None:
            error.known["unchecked"] = summary(learned, counted.queries, None)
        else:
            likely = estimate(box.dim, rank, error.known, box.answers, accuracy)
            error.needed = max(error.needed, likely - counted.queries)
        raise
    found = summary(learned, counted.queries, check)
    if check.evidence is not None:
        also = "" if rank is None else f", or its rank is above rank={rank}"
        raise TargetMismatch(
            "the box is not a single attention head, or its answers are less accurate than promised "
            f"(then say so with {way.promise}){also}",
            check.evidence,
            found,
        )
    check_accuracy(box, accuracy, found)
    return found


def check_accuracy(oracle: Oracle, accuracy, found: Recovery) -> None:
    promised = oracle.tolerance or oracle.rtol or oracle.max_norm
    advice = f"{WAYS[oracle.answers].needed} is needed" if promised else "its numbers have too few digits"
    assert found.bound is not None
    if not np.isfinite(found.bound):
        raise AccuracyUnreachable(f"this box's answers do not bound W at all; {advice}", found)
    if accuracy is not None and found.bound > accuracy:
        raise AccuracyUnreachable(
            f"asked for ||W_hat - W||_F <= {accuracy:.3g}, this box's answers only prove {found.bound:.3g}; {advice}",
            found,
        )


def summary(learned: Learned, queries: int, check: HeldOut | None) -> Recovery:
    return Recovery(
        model=learned.model,
        family="attention",
        heads=1,
        rank=learned.rank,
        queries=queries,
        limit=learned.limit,
        bound=learned.bound,
        bound_v=learned.bound_v,
        confidence=learned.confidence,
        residual=None if check is None else check.residual,
        reason=reason(learned, check),
    )


def reason(learned: Learned, check: HeldOut | None) -> str:
    head = learned.model
    biases = " and ".join(["a key bias"] * head.has_key_bias + ["a bias"] * bool(np.any(head.bias))) or "no bias"
    rank = f"of rank {learned.rank}" if learned.rank else f"whose W cannot be told from 0 (at most {learned.bound:.1e})"
    checked = "not yet checked" if check is None else check.words
    return f"one head {rank} with {biases}{learned.caveat}; {checked}"
