"""The one entry: ask a box, get its parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._check import QUERIES, held_out
from ._errors import AccuracyUnreachable, BudgetExceeded, TargetMismatch
from ._learner import learn_attention
from ._learner.learned import Learned
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
    `NotIdentifiable`. `rank` is discovered unless given; `accuracy` is the largest acceptable `||W_hat - W||_F`, which
    can save queries where W is nearly of low rank; `budget` is the most queries to ask; `progress` is True for a bar or
    a callable `(done, planned, what)`. The same seed asks the same queries.
    """
    oracle = as_oracle(oracle)
    check_arguments(oracle, family, rank, accuracy, budget, journal)
    if progress is True:
        with bar() as report:
            return _recover(oracle, rank, accuracy, budget, seed, report)
    return _recover(oracle, rank, accuracy, budget, seed, progress or None)


def _recover(oracle: Oracle, rank, accuracy, budget, seed: int, report: Progress | None) -> Recovery:
    start, asked = oracle.queries, oracle
    if budget is not None:
        oracle = Budgeted(oracle, budget)
    if report is not None:
        oracle = Watched(oracle, plan(oracle.dim), report)
    rng = np.random.default_rng(seed)
    learned = learn_attention(oracle, rng, rank, accuracy)
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
    hint = "wrap a callable as gh.ValueOracle(f, dim=...)"
    raise TypeError(f"expected a gh.Oracle or a gh model, got {type(oracle).__name__}; {hint}")


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
    if budget is not None:
        check_budget(budget, oracle.dim, rank)


def check_budget(budget, dim: int, rank: int | None) -> None:
    """Refuse at once what cannot suffice. With the rank unknown that is less than a head of rank one takes."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise ValueError(f"expected budget to be a positive integer or None, got {budget!r}")
    parameters = information_limit(dim, rank or 1)
    if budget < parameters + QUERIES:
        raise BudgetExceeded(
            f"a budget of {budget} cannot suffice: a head of dimension {dim} and rank {rank or 1} has {parameters} "
            f"free parameters and the held-out check takes {QUERIES} queries; gh.plan says what to allow",
            budget=budget,
            needed=parameters + QUERIES - budget,
        )


def summary(learned: Learned, oracle: Oracle, start: int, residual: float | None) -> Recovery:
    head = learned.model
    rank = learned.rank
    outputs = 1 if head.v.ndim == 1 else head.v.shape[1]
    biased = head.has_key_bias, bool(np.any(head.bias))
    parameters = information_limit(head.dim, rank, key_bias=biased[0]) + (outputs - 1) * head.dim + outputs * biased[1]
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
        confidence=learned.confidence,
        residual=residual,
        reason=f"one head of rank {rank} with {biases}; {checked}",
    )
