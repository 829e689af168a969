"""What `gh.recover` accepts, checked before the first query."""

from __future__ import annotations

from ._check import QUERIES
from ._check_signs import QUERIES as SIGNS
from ._errors import BudgetExceeded
from ._models.norm import Norm
from ._numbers import positive, whole
from ._oracle import Oracle, ValueOracle
from ._plan import fewest, information_limit

FAMILIES = ("auto", "attention", "multi-head", "transformer", "any-network")
NEEDS_VALUES = {
    "multi-head": "from them one head can be recovered, family='attention'",
    "transformer": "family='any-network' reads W through the network",
}
CHECKS = {"value": QUERIES, "sign": SIGNS}


def as_oracle(oracle) -> Oracle:
    if isinstance(oracle, Oracle):
        return oracle
    if hasattr(oracle, "dim") and callable(oracle):
        return ValueOracle(oracle)
    hint = "wrap a callable as gh.ValueOracle(f, dim=...)"
    raise TypeError(f"expected a gh.Oracle or a gh model, got {type(oracle).__name__}; {hint}")


def check_arguments(oracle: Oracle, family, rank, accuracy, budget, journal, seed, progress) -> None:
    dim = oracle.dim
    if family not in FAMILIES:
        raise ValueError(f"expected family to be one of {FAMILIES}, got {family!r}")
    if oracle.answers == "sign" and family in NEEDS_VALUES:
        raise ValueError(
            f"expected value answers for family {family!r}: yes and no say too little; {NEEDS_VALUES[family]}"
        )
    if rank is not None and whole(rank, "rank", least=1) > dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank!r}")
    if accuracy is not None:
        positive(accuracy, "accuracy")
    if journal is not None:
        raise ValueError(f"expected journal=None, got {journal!r}: journals are not part of this version")
    whole(seed, "seed", least=0)
    if progress not in (None, True, False) and not callable(progress):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
    if budget is not None:
        check_budget(whole(budget, "budget", least=1), oracle, rank, accuracy)


def check_norm(norm, family: str) -> None:
    if isinstance(norm, str) and norm == "auto":
        return
    if norm is not None and not isinstance(norm, Norm):
        hint = "for example gh.Norm('layer', 1e-5)"
        raise TypeError(f"expected norm to be 'auto', None or a gh.Norm, got {norm!r}; {hint}")
    if family not in ("auto", "any-network"):
        raise ValueError(f"expected norm only with family 'any-network', got it with {family!r}")


def check_budget(budget: int, oracle: Oracle, rank: int | None, accuracy) -> None:
    """Refuse at once what cannot suffice. With the rank unknown that is less than a head of rank one takes."""
    parameters = information_limit(oracle.dim, rank or 1)
    least = fewest(oracle.answers, parameters, accuracy) + CHECKS[oracle.answers]
    if budget < least:
        raise BudgetExceeded(
            f"a budget of {budget} cannot suffice: a head of dimension {oracle.dim} and rank {rank or 1} has "
            f"{parameters} free parameters, which with the held-out check take {least} {oracle.answers} queries; "
            "gh.plan says what to allow",
            budget=budget,
            needed=least - budget,
        )
