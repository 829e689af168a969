"""The one entry: ask a box, get its parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._arguments import as_oracle, check_arguments
from ._check import QUERIES, held_out
from ._errors import AccuracyUnreachable, BudgetExceeded, TargetMismatch
from ._learner import learn_attention
from ._learner.learned import Learned
from ._oracle import Budgeted, Counted, Oracle, Watched
from ._plan import estimate, information_limit, plan
from ._progress import bar
from ._recovery import Recovery

Progress = Callable[[int, int, str], None]


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
    """
    oracle = as_oracle(oracle)
    check_arguments(oracle.dim, family, rank, accuracy, budget, journal, seed, progress)
    if progress is True:
        with bar() as report:
            return _recover(oracle, rank, accuracy, budget, seed, report)
    return _recover(oracle, rank, accuracy, budget, seed, progress or None)


def _recover(box: Oracle, rank, accuracy, budget, seed, report: Progress | None) -> Recovery:
    oracle = counted = Counted(box)
    if budget is not None:
        oracle = Budgeted(oracle, budget)
    if report is not None:
        oracle = Watched(oracle, plan(box.dim, rank=rank), report)
    rng = np.random.default_rng(seed)
    learned = None
    try:
        learned = learn_attention(oracle, rng, rank, accuracy)
        check = held_out(oracle, learned, rng)
    except BudgetExceeded as error:
        if learned is not None:
            error.known["unchecked"] = summary(learned, counted.queries, None)
        else:
            error.needed = max(error.needed, estimate(box.dim, rank, error.known) - counted.queries)
        raise
    found = summary(learned, counted.queries, check.residual)
    if check.evidence is not None:
        also = "" if rank is None else f", or its rank is above rank={rank}"
        raise TargetMismatch(
            "the box is not a single attention head, or its answers are less accurate than promised "
            f"(then say so with tolerance= or rtol=){also}",
            check.evidence,
            found,
        )
    check_accuracy(box, accuracy, found)
    return found


def check_accuracy(oracle: Oracle, accuracy, found: Recovery) -> None:
    promised = oracle.tolerance or oracle.rtol or oracle.max_norm
    advice = "a smaller tolerance or a larger max_norm is needed" if promised else "its numbers have too few digits"
    assert found.bound is not None
    if not np.isfinite(found.bound):
        raise AccuracyUnreachable(f"this box's answers do not bound W at all; {advice}", found)
    if accuracy is not None and found.bound > accuracy:
        raise AccuracyUnreachable(
            f"asked for ||W_hat - W||_F <= {accuracy:.3g}, this box's answers only prove {found.bound:.3g}; {advice}",
            found,
        )


def summary(learned: Learned, queries: int, residual: float | None) -> Recovery:
    head, rank = learned.model, learned.rank
    outputs = 1 if head.v.ndim == 1 else head.v.shape[1]
    key_bias, bias = head.has_key_bias, bool(np.any(head.bias))
    parameters = information_limit(head.dim, rank, key_bias=key_bias) + (outputs - 1) * head.dim + outputs * bias
    return Recovery(
        model=head,
        family="attention",
        heads=1,
        rank=rank,
        queries=queries,
        limit=-(-parameters // outputs),
        bound=learned.bound,
        bound_v=learned.bound_v,
        confidence=learned.confidence,
        residual=residual,
        reason=reason(learned, key_bias, bias, residual),
    )


def reason(learned: Learned, key_bias: bool, bias: bool, residual: float | None) -> str:
    biases = " and ".join(["a key bias"] * key_bias + ["a bias"] * bias) or "no bias"
    rank = f"of rank {learned.rank}" if learned.rank else f"whose W cannot be told from 0 (at most {learned.bound:.1e})"
    if residual is None:
        return f"one head {rank} with {biases}; not yet checked"
    return f"one head {rank} with {biases}; {QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
