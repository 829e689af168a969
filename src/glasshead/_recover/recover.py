"""`gh.recover`: its arguments, checked before the first query, and the way from them to a result."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from os import PathLike
from typing import Any

from .._checks import add_cause
from .._errors import HeadsMerged, NotConverged, TargetMismatch
from .._families import named, with_option
from .._models import Norm
from .._oracles import Answering, Oracle, Report, as_oracle, bar, guarded
from .._plan import check_budget, plan
from .._recognise import find_rounded_tokens
from .._recovery import Recovery
from .._types import no_type_check
from .._validate import check_memory, check_rank, positive, whole
from .attempt import CHECKS, Outcome, Wanted, recover_as, recover_recognised


@no_type_check
def recover(
    oracle: Oracle | Answering,
    *,
    family: str = "auto",
    rank: int | None = None,
    accuracy: float | None = None,
    budget: int | None = None,
    journal: str | PathLike[str] | None = None,
    norm: Norm | str | None = "auto",
    residual_map: str | None = "identity",
    seed: int = 0,
    progress: Report | bool | None = None,
) -> Recovery:
    """Recover the model behind `oracle` from queries alone.

    >>> import glasshead as gh
    >>> target = gh.Attention.random(16, seed=1)
    >>> found = gh.recover(gh.ValueOracle(target))
    >>> gh.distance(found.model, target) < 1e-13, found.queries <= gh.plan(16)
    (True, True)

    `oracle` is a `gh.Oracle`, or a `gh` model to be wrapped in one. Every result was checked on fresh queries, of 1 to
    64 tokens, or 2 to 8 where a network behind the head stays unknown; a box that is not of the family raises
    `TargetMismatch` with the evidence, one that hides its parameters `NotIdentifiable`. `family="auto"` finds out what
    the box is: "attention", "multi-head" (a sum of heads), "transformer" (a two-layer ReLU network behind the head) or
    "any-network" (anything behind it), or "block" (several heads and a residual connection with anything behind them,
    from answers of as many numbers as a token has). `rank` is discovered unless given; `accuracy` is the largest
    acceptable `||W_hat - W||_F`, which can save queries where W is nearly of low rank; `budget` is the most queries to
    ask; `progress` is True for a bar or a callable `(done, planned, what)`. The same seed asks the same queries. Where
    the box normalises its tokens before the head, "any-network" finds that out, eps included, unless `norm` says it: a
    `gh.Norm`, or None for no normalisation. Of the residual connection of a "block" it is assumed that it adds the last
    token as it is, unless `residual_map=None`: value maps are then known up to one invertible map.

    From a `gh.SignOracle`, which says only yes or no, v and the bias are found up to one positive factor: v then has
    norm 1. It takes as many queries per free parameter as `accuracy` asks for bits, 40 by default. There "auto" means
    "attention".
    """
    oracle = as_oracle(oracle)
    check_arguments(oracle, family, rank, accuracy, budget, journal, seed, progress)
    check_norm(norm, family)
    check_residual_map(residual_map)
    check_memory(oracle.dim)
    wanted = Wanted(oracle, family, rank, accuracy, norm, residual_map, seed)
    with bar() if progress is True else nullcontext(progress or None) as report:
        planned = expected_queries(wanted) if report is not None else 0
        with guarded(oracle, budget, planned, report) as box:
            found, warning = recover_or_say(box, wanted)
    if warning:
        warnings.warn(warning, HeadsMerged, stacklevel=2)
    return found


def recover_or_say(box: Oracle, wanted: Wanted) -> Outcome:
    """Once more where it turns out that the box rounds its tokens; a refusal says why, if that can be found out."""
    try:
        return recover_wanted(box, wanted)
    except (TargetMismatch, NotConverged) as error:
        if not find_rounded_tokens(box):
            add_cause(error, box, wanted.seed)
            raise
        refusal = error
    try:
        return recover_wanted(box, wanted)
    except (TargetMismatch, NotConverged) as error:  # it may round its answers instead: what was seen first counts
        raise refusal from error


def recover_wanted(box: Oracle, wanted: Wanted) -> Outcome:
    """As the family that was named, or as one that answers suggest."""
    family = family_without_look(wanted)
    return recover_recognised(box, wanted) if family is None else recover_as(box, wanted, family)


def check_arguments(
    oracle: Oracle, family: Any, rank: Any, accuracy: Any, budget: Any, journal: Any, seed: Any, progress: Any
) -> None:
    dim = whole(getattr(oracle, "dim", None), "the dim of an oracle", least=1)
    declared = named(family)
    if declared is not None and (refusal := declared.refusal(oracle.answers)) is not None:
        raise ValueError(refusal)
    if rank is not None:
        check_rank(rank, dim)
    if accuracy is not None:
        positive(accuracy, "accuracy")
    if journal is not None:
        raise ValueError(f"expected journal=None, got {journal!r}: journals are not part of this version")
    whole(seed, "seed", least=0)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
    if budget is not None:
        check_budget(whole(budget, "budget", least=1), dim, rank, accuracy, oracle.answers, CHECKS[oracle.answers])


def check_norm(norm: Any, family: str) -> None:
    if isinstance(norm, str) and norm == "auto":
        return
    if norm is not None and not isinstance(norm, Norm):
        hint = "for example gh.Norm('layer', 1e-5)"
        raise TypeError(f"expected norm to be 'auto', None or a gh.Norm, got {norm!r}; {hint}")
    if norm is not None and (norm.eps is None or norm.place != "before"):
        raise ValueError(f"expected a norm before the head with an eps, got {norm!r}")
    if family not in ("auto", *with_option("norm")):
        raise ValueError(
            f"expected norm only with family {' or '.join(map(repr, with_option('norm')))}, got it with {family!r}"
        )


def check_residual_map(residual_map: Any) -> None:
    if residual_map not in ("identity", None):
        raise ValueError(f"expected residual_map to be 'identity' or None, got {residual_map!r}")


def family_without_look(wanted: Wanted) -> str | None:
    """The family to try where there is nothing to recognise: one that was named, the only one that has a norm, or one
    head where answers are yes and no, which say nothing about what is behind it."""
    if wanted.family != "auto":
        return wanted.family
    if isinstance(wanted.norm, Norm):
        return "any-network"
    return None if wanted.box.answers == "value" else "attention"


def expected_queries(wanted: Wanted) -> int:
    """For the progress report. Where sizes that nobody knows yet decide, it is what one head would take."""
    box, declared = wanted.box, named(wanted.family)
    family = wanted.family if declared is not None and not declared.sizes else "attention"
    return plan(box.dim, family=family, rank=wanted.rank, answers=box.answers, accuracy=wanted.accuracy)
