"""What the caller of `gh.recover` wants: the arguments, checked before the first query, and what follows from them
alone."""

from __future__ import annotations

from os import PathLike
from typing import Any, NamedTuple

from .._checks import BALANCE_QUERIES, JUDGE_QUERIES, ODDS_QUERIES, QUERIES, SIGN_QUERIES
from .._families import AUTO, FAMILIES, SINGLE_HEAD, Family, named, with_option
from .._limits import require_budget
from .._models import Norm
from .._oracles import PLACES, Oracle
from .._plan import plan
from .._validate import positive, require_memory, require_rank, whole
from .._version import __version__

HELD_OUT = {"value": QUERIES, "sign": SIGN_QUERIES}  # of the family's own check
LAW_QUERIES = {"value": ODDS_QUERIES, "sign": BALANCE_QUERIES}  # and of the law that is checked last, for one head


def queries_of_checks(answers: str, checked: bool, one_head: bool) -> int:
    """What it takes to check a result of one head or several, whose family's own check was made already or not."""
    return JUDGE_QUERIES[answers] + HELD_OUT[answers] * (not checked) + LAW_QUERIES[answers] * one_head


class Wanted(NamedTuple):
    """What the caller asked for, and of which box."""

    box: Oracle
    family: str
    rank: int | None
    accuracy: float | None
    norm: Any  # a Norm, None or "auto"
    residual_map: str | None
    seed: int
    places: int | None = None


def require_arguments(wanted: Wanted, budget: Any, journal: Any, progress: Any) -> None:
    box, family, rank, norm = wanted.box, wanted.family, wanted.rank, wanted.norm
    dim = whole(getattr(box, "dim", None), "the dim of an oracle", least=1)
    if (declared := named(family)) is not None and (refusal := declared.refusal(box.answers)) is not None:
        raise ValueError(refusal)
    require_rank(rank, dim)
    if wanted.accuracy is not None:
        positive(wanted.accuracy, "accuracy")
    if not (journal is None or isinstance(journal, str | PathLike)):
        raise TypeError(f"expected journal to be None or the path of a file, got {journal!r}")
    whole(wanted.seed, "seed", least=0)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
    if budget is not None:
        least = JUDGE_QUERIES[box.answers]
        require_budget(whole(budget, "budget", least=1), dim, wanted.accuracy, box.answers, least)
    if not (norm is None or isinstance(norm, Norm) or (isinstance(norm, str) and norm == "auto")):
        raise TypeError(f"expected norm to be 'auto', None or a gh.Norm, got {norm!r}; try gh.Norm('layer', 1e-5)")
    if isinstance(norm, Norm) and (norm.eps is None or norm.place != "before"):
        raise ValueError(f"expected a norm before the head with an eps, got {norm!r}")
    if norm != "auto" and family not in (AUTO, *(having := with_option("norm"))):
        raise ValueError(f"expected norm only with family {' or '.join(map(repr, having))}, got it with {family!r}")
    if wanted.places is not None:
        whole(wanted.places, "places", least=PLACES)  # as many as the judge asks about
    if wanted.residual_map not in ("identity", None):
        raise ValueError(f"expected residual_map to be 'identity' or None, got {wanted.residual_map!r}")
    require_memory(dim)


def require_network_choice(network: Any, family: str) -> None:
    if not isinstance(network, bool):
        raise TypeError(f"expected network to be True or False, got {network!r}")
    having = [name for name, declared in FAMILIES.items() if declared.inside] + [AUTO]
    if network and family not in having:
        raise ValueError(
            f"expected network=True only with family {' or '.join(map(repr, having))}, got it with {family!r}"
        )


def settings(wanted: Wanted) -> dict[str, Any]:
    """All that decides which questions are asked, for the journal of a run."""
    box = wanted.box
    promise = {name: getattr(box, name) for name in ("dim", "answers", "tolerance", "rtol", "flips", "max_norm")}
    asked = {name: getattr(wanted, name) for name in ("family", "rank", "accuracy", "residual_map", "seed")}
    asked |= {} if wanted.places is None else {"places": wanted.places}
    sent = {"dtype": str(getattr(box, "dtype", "")), "batch": getattr(box, "batch", None), "norm": str(wanted.norm)}
    return {"version": __version__, **promise, **asked, **sent}


def family_without_look(wanted: Wanted) -> str | None:
    """The family to try where there is nothing to recognise: one that was named, the only one that has a norm, or one
    head where answers are yes and no, which say nothing about what is behind it."""
    if wanted.family != AUTO:
        return wanted.family
    if isinstance(wanted.norm, Norm):
        return with_option("norm")[0]
    return None if wanted.box.answers == "value" else SINGLE_HEAD.name


def expected_queries(wanted: Wanted, declared: Family) -> int:
    """For the progress report. Where sizes that nobody knows yet decide, it is what one head would take."""
    box, family = wanted.box, SINGLE_HEAD.name if declared.sizes else declared.name
    return plan(box.dim, family=family, rank=wanted.rank, answers=box.answers, accuracy=wanted.accuracy)
