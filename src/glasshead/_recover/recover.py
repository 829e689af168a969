"""`gh.recover`: its arguments, checked before the first query, and the way from them to a result: an attempt as one
family, from its first queries to the judge, or as one after the other of those that the box's answers suggest."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from .._checks import (
    JUDGE_QUERIES,
    ODDS_QUERIES,
    QUERIES,
    SIGN_QUERIES,
    add_cause,
    check_everywhere,
    find_rounded_tokens,
)
from .._errors import AccuracyUnreachable, BudgetExceeded, HeadsMerged, NotConverged, NotIdentifiable, TargetMismatch
from .._families import FAMILIES, Method, named, resolve, with_option
from .._learned import HeldOut, Learned
from .._models import Block, FrontHead, Norm
from .._oracles import Answering, Flat, Opening, Oracle, Report, as_oracle, bar, guarded, read_opening
from .._plan import check_budget, plan
from .._recognise import LAST_RESORT, NO_GUESS, Failure, find_families, find_next
from .._recovery import Recovery
from .._types import no_type_check
from .._validate import check_memory, check_rank, positive, whole
from .refusal import add_notes, half_the_digits, inaccurate, why_not

LARGEST_BOUND = float(np.finfo(float).max)  # on an error of W: a larger one is none
CHECKS = {"value": QUERIES + JUDGE_QUERIES, "sign": SIGN_QUERIES + JUDGE_QUERIES}  # queries of all checks of a result

Outcome = tuple[Recovery, str]  # what was found, and what to warn of, if anything


class Wanted(NamedTuple):
    """What the caller asked for, and of which box."""

    box: Oracle
    family: str
    rank: int | None
    accuracy: float | None
    norm: Any  # a Norm, None or "auto"
    residual_map: str | None
    seed: int


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

    From a `gh.SignOracle`, which says only yes or no, v and the bias are found up to a positive factor, v with norm 1,
    and "auto" means "attention". It takes as many queries per free parameter as `accuracy` asks for bits, or 40.
    """
    wanted = Wanted(as_oracle(oracle), family, rank, accuracy, norm, residual_map, seed)
    check_arguments(wanted, budget, journal, progress)
    with bar() if progress is True else nullcontext(progress or None) as report:
        planned = expected_queries(wanted) if report is not None else 0
        with guarded(wanted.box, budget, planned, report) as box:
            found, warning = recover_or_say(box, wanted)
    if warning:
        warnings.warn(warning, HeadsMerged, stacklevel=2)
    return found


def recover_or_say(box: Oracle, wanted: Wanted) -> Outcome:
    """Once more where it turns out that the box rounds its tokens; a refusal says why, if that can be found out."""
    family = family_without_look(wanted)
    attempt = partial(recover_recognised, box, wanted) if family is None else partial(recover_as, box, wanted, family)
    try:
        return attempt()
    except (TargetMismatch, NotConverged) as error:
        if not find_rounded_tokens(box):
            add_cause(error, box, wanted.seed)
            raise
        refusal = error
    try:
        return attempt()
    except (TargetMismatch, NotConverged) as error:  # it may round its answers instead: what was seen first counts
        raise refusal from error


def check_arguments(wanted: Wanted, budget: Any, journal: Any, progress: Any) -> None:
    box, family, rank, norm = wanted.box, wanted.family, wanted.rank, wanted.norm
    dim = whole(getattr(box, "dim", None), "the dim of an oracle", least=1)
    if (declared := named(family)) is not None and (refusal := declared.refusal(box.answers)) is not None:
        raise ValueError(refusal)
    check_rank(rank, dim)
    if wanted.accuracy is not None:
        positive(wanted.accuracy, "accuracy")
    if journal is not None:
        raise ValueError(f"expected journal=None, got {journal!r}: journals are not part of this version")
    whole(wanted.seed, "seed", least=0)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
    if budget is not None:
        check_budget(whole(budget, "budget", least=1), dim, rank, wanted.accuracy, box.answers, CHECKS[box.answers])
    if not (norm is None or isinstance(norm, Norm) or (isinstance(norm, str) and norm == "auto")):
        raise TypeError(f"expected norm to be 'auto', None or a gh.Norm, got {norm!r}; try gh.Norm('layer', 1e-5)")
    if isinstance(norm, Norm) and (norm.eps is None or norm.place != "before"):
        raise ValueError(f"expected a norm before the head with an eps, got {norm!r}")
    if norm != "auto" and family not in ("auto", *(having := with_option("norm"))):
        raise ValueError(f"expected norm only with family {' or '.join(map(repr, having))}, got it with {family!r}")
    if wanted.residual_map not in ("identity", None):
        raise ValueError(f"expected residual_map to be 'identity' or None, got {wanted.residual_map!r}")
    check_memory(dim)


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


def recover_recognised(oracle: Oracle, wanted: Wanted) -> Outcome:
    """Try what a few answers suggest; where a family does not fit, what its failure suggests."""
    opening = read_opening(oracle, np.random.default_rng(wanted.seed))
    guess = find_families(oracle, opening, wanted.seed, wanted.rank is None and wanted.accuracy is None)
    tried: list[str] = []
    first: TargetMismatch | None = None
    before: TargetMismatch | NotIdentifiable | NotConverged | None = None
    while True:
        family = guess.families[0]
        tried.append(family)
        try:
            found, warning = recover_as(oracle, wanted, family, opening, guess.words)
        except (TargetMismatch, NotIdentifiable, NotConverged) as error:
            if first is not None and isinstance(error, NotConverged):
                raise first from error  # that something else does not converge either is no news
            if before is not None and guess is LAST_RESORT:
                raise before from error
            if isinstance(error, TargetMismatch):
                first, opening = first or error, replace(opening, known=error.known)
            before = error
            hidden = isinstance(error, NotIdentifiable) and not isinstance(error, Flat) and family != "block"
            guess = NO_GUESS if hidden else guess.without(family)
            if not guess.families:
                guess = find_next(oracle, Failure(family, error, any_rank=wanted.rank is None), opening, wanted.seed)
            if not guess.families or guess.families[0] in tried:
                add_notes(error, tried, wanted.rank, oracle.dim, opening.outputs)
                raise
        else:
            if before is not None and guess is LAST_RESORT and not half_the_digits(oracle, found):
                raise before
            return found, warning


def recover_as(oracle: Oracle, wanted: Wanted, family: str, opening: Opening | None = None, seen: str = "") -> Outcome:
    """The box as one of a family, or why it is none; `opening` if its first queries have been asked already, `seen` is
    why it may be one."""
    declared = FAMILIES[family]
    if opening is None and declared.opens and oracle.answers == "value":
        opening = read_opening(oracle, np.random.default_rng(wanted.seed))
    method = declared.methods[declared.kind(oracle.answers, None if opening is None else opening.outputs)]
    rng, options = np.random.default_rng(wanted.seed), {name: getattr(wanted, name) for name in declared.options}
    if declared.opens and opening is not None:
        rng, options = deepcopy(opening.after), options | {"opening": opening}

    def hand_back(learned: Learned, check: HeldOut | None) -> Recovery:
        found = learned.recovery(oracle.sent, check, seen)
        if isinstance(found.model, FrontHead | Block):  # which asks the box of the user from now on
            found.model.behind = wanted.box
        if isinstance(found.model, Block):
            found.model.asked = 0
        return found

    try:
        learned: Learned = resolve(method.learn)(oracle, rng, wanted.rank, wanted.accuracy, **options)
        learned, check = checked_by(method, oracle, learned, rng)
    except BudgetExceeded as error:
        if isinstance(unchecked := error.known.get("unchecked"), Learned):
            error.known["unchecked"] = hand_back(unchecked, None)
        elif method.estimate:
            likely = resolve(method.estimate)(oracle.dim, wanted.rank, error.known, oracle.answers, wanted.accuracy)
            error.needed = max(error.needed, likely - oracle.queries)
        raise
    except (AccuracyUnreachable, NotConverged, TargetMismatch) as error:
        error.best = hand_back(error.best, error.best.check) if isinstance(error.best, Learned) else None
        raise
    found = hand_back(learned, check)
    if check.evidence is not None:
        mismatch = TargetMismatch(why_not(declared, oracle, wanted.rank), check.evidence, found)
        raise resolve(method.explain)(oracle, mismatch, rng) if method.explain else mismatch
    if wanted.accuracy is not None if found.bound is None else not found.bound <= (wanted.accuracy or LARGEST_BOUND):
        raise inaccurate(oracle, wanted.accuracy, found, learned.needed)
    return found, check.warning


def checked_by(method: Method, oracle: Oracle, learned: Learned, rng: np.random.Generator) -> tuple[Learned, HeldOut]:
    """What was learned after the family's own check, unless it was part of learning, and the judge; where a budget ends
    before them, it is known as `unchecked`."""
    before = oracle.queries
    try:
        seen_by = learned.through(oracle)
        check = learned.check or resolve(method.check or learned.checked_by)(seen_by, learned, rng)
        return (learned, check) if check.evidence is not None else check_everywhere(seen_by, learned, check, rng)
    except BudgetExceeded as error:
        error.known["unchecked"] = learned
        checks = (JUDGE_QUERIES if learned.check else CHECKS[oracle.answers]) + ODDS_QUERIES * learned.one_head
        error.needed = max(error.needed, before + checks - error.budget)
        raise
