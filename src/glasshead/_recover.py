"""The one entry: ask a box, get its parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._check import QUERIES, held_out
from ._errors import AccuracyUnreachable, BudgetExceeded, TargetMismatch
from ._learner import learn_attention
from ._learner.attention import Learned
from ._models.factors import numerical_rank
from ._oracle import Budgeted, Oracle, ValueOracle, Watched
from ._plan import information_limit, plan
from ._progress import bar
from ._recovery import Recovery

FAMILIES = ("auto", "attention")
PLANNED_FAMILIES = ("multi-head", "transformer", "any-network")

Progress = Callable[[int, int, str], None]


def recover(
    oracle,
    *,
    family: str = "auto",
    rank: int | None = None,
    accuracy: float | None = None,
    budget: int | None = None,
    journal=None,
    seed: int = 0,
    progress: bool | Progress | None = None,
) -> Recovery:
    """Recover the model behind `oracle` from queries alone.

    >>> import glasshead as gh
    >>> target = gh.Attention.random(16, seed=1)
    >>> found = gh.recover(gh.ValueOracle(target))
    >>> gh.distance(found.model, target) < 1e-13, found.queries <= gh.plan(16)
    (True, True)

    `oracle` is a `gh.Oracle`, or a `gh` model to be wrapped in one. Every result was checked on fresh queries of 1 to 8
    tokens; a box that is not of the family raises `TargetMismatch` with the evidence, one that hides its parameters
    `NotIdentifiable`. `accuracy` is the largest acceptable bound on `||W_hat - W||_F`, `budget` the most queries to ask;
    `progress` is True for a bar or a callable `(done, planned, what)`. The same seed asks the same queries.
    """
    oracle = as_oracle(oracle)
    check_arguments(oracle, family, rank, accuracy, budget, journal)
    if progress is True:
        with bar() as report:
            return _recover(oracle, accuracy, budget, seed, report)
    return _recover(oracle, accuracy, budget, seed, progress or None)


def _recover(oracle: Oracle, accuracy, budget, seed: int, report: Progress | None) -> Recovery:
    start, asked = oracle.queries, oracle
    if budget is not None:
        oracle = Budgeted(oracle, budget)
    if report is not None:
        oracle = Watched(oracle, plan(oracle.dim), report)
    rng = np.random.default_rng(seed)
    learned = learn_attention(oracle, rng)
    try:
        check = held_out(oracle, learned, rng)
    except BudgetExceeded as error:
        error.known |= {"unchecked": summary(learned, asked, start, None)}
        raise
    found = summary(learned, asked, start, check.residual)
    if check.evidence is not None:
        raise TargetMismatch(
            "the box is not a single attention head, or its answers are less accurate than promised "
            "(then say so with tolerance= or rtol=)",
            check.evidence,
            found,
        )
    if accuracy is not None and learned.bound > accuracy:
        raise AccuracyUnreachable(
            f"asked for ||W_hat - W||_F <= {accuracy:.3g}, but this box's answers only prove {learned.bound:.3g}; "
            "a smaller tolerance or a larger max_norm is needed",
            found,
        )
    return found


def as_oracle(oracle) -> Oracle:
    if isinstance(oracle, Oracle):
        return oracle
    if hasattr(oracle, "dim") and callable(oracle):
        return ValueOracle(oracle)
    raise TypeError(
        f"expected a gh.Oracle or a gh model, got {type(oracle).__name__}; wrap a callable as gh.ValueOracle(f, dim=...)"
    )


def check_arguments(oracle: Oracle, family, rank, accuracy, budget, journal) -> None:
    if family in PLANNED_FAMILIES:
        raise ValueError(f"family {family!r} is not part of this version; it knows {FAMILIES}")
    if family not in FAMILIES:
        raise ValueError(f"expected family to be one of {FAMILIES}, got {family!r}")
    if rank is not None and not 1 <= rank <= oracle.dim:
        raise ValueError(f"expected a rank from 1 to dim = {oracle.dim}, got {rank!r}")
    if accuracy is not None and not accuracy > 0:
        raise ValueError(f"expected accuracy to be a positive number, got {accuracy!r}")
    if journal is not None:
        raise ValueError(f"expected journal=None, got {journal!r}: journals are not part of this version")
    if budget is None:
        return
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1:
        raise ValueError(f"expected budget to be a positive integer or None, got {budget!r}")
    least = information_limit(oracle.dim) + QUERIES
    if budget < least:
        raise BudgetExceeded(
            f"a budget of {budget} cannot suffice: a head of dimension {oracle.dim} has {information_limit(oracle.dim)} free "
            f"parameters and the held-out check takes {QUERIES} queries; allow gh.plan({oracle.dim}) = {plan(oracle.dim)}",
            budget=budget,
            needed=plan(oracle.dim) - budget,
        )


def summary(learned: Learned, oracle: Oracle, start: int, residual: float | None) -> Recovery:
    head = learned.model
    rank = numerical_rank(np.linalg.svd(head.W, compute_uv=False), head.dim, learned.bound)
    outputs = 1 if head.v.ndim == 1 else head.v.shape[1]
    biased = head.has_key_bias, bool(np.any(head.bias))
    parameters = information_limit(head.dim, key_bias=biased[0]) + (outputs - 1) * head.dim + outputs * biased[1]
    biases = (
        " and ".join(name for name, there in zip(("a key bias", "a bias"), biased, strict=True) if there) or "no bias"
    )
    checked = (
        "not yet checked" if residual is None else f"{QUERIES} fresh queries of 1 to 8 tokens agree to {residual:.1e}"
    )
    return Recovery(
        model=head,
        family="attention",
        heads=1,
        rank=rank,
        queries=oracle.queries - start,
        limit=-(-parameters // outputs),
        bound=learned.bound,
        bound_v=learned.bound_v,
        confidence=1.0,
        residual=residual,
        reason=f"one head with {biases}: all of W was read; {checked}",
    )
