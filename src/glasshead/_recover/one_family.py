"""The box as one of a family: its first queries, what the family's learner makes of them, its check and the judge."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np

from .._checks import check_everywhere
from .._errors import AccuracyUnreachable, BudgetExceeded, NotConverged, TargetMismatch
from .._families import FAMILIES, Method, resolve
from .._learned import HeldOut, Learned
from .._models import Block, FrontHead
from .._oracles import Opening, Oracle, read_opening
from .._recovery import Recovery
from .arguments import Wanted, expected_queries, queries_of_checks
from .refusal import accurate, inaccurate, too_coarse, why_not

Outcome = tuple[Recovery, str]  # what was found, and what to warn of, if anything


def recover_as(
    oracle: Oracle,
    wanted: Wanted,
    family: str,
    opening: Opening | None = None,
    seen: str = "",
    doubted: Sequence[np.ndarray] = (),
) -> Outcome:
    """The box as one of a family, or why it is none; `opening` if its first queries have been asked already, `seen` is
    why it may be one, and `doubted` are sequences that showed it to be none of another."""
    declared = FAMILIES[family]
    oracle.planned = max(oracle.planned, expected_queries(wanted, declared))
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
        first: Learned = resolve(method.learn)(oracle, rng, wanted.rank, wanted.accuracy, **options)
        learned, check = check_learned(method, oracle, first, rng, doubted)
    except BudgetExceeded as error:
        error.family = family
        if isinstance(unchecked := error.known.get("unchecked"), Learned):
            error.known["unchecked"] = hand_back(unchecked, None)
        elif method.estimate:
            likely = resolve(method.estimate)(oracle.dim, wanted.rank, error.known, oracle.answers, wanted.accuracy)
            error.needed = max(error.needed, likely - oracle.queries)
        raise
    except (AccuracyUnreachable, NotConverged, TargetMismatch) as error:
        error.best = hand_back(error.best, error.best.check) if isinstance(error.best, Learned) else None
        if (
            isinstance(error, AccuracyUnreachable)
            and error.best
            and wanted.accuracy
            and accurate(error.best, wanted.accuracy)
        ):
            raise too_coarse(error, wanted.accuracy) from error
        raise
    found = hand_back(learned, check)
    if check.evidence is not None:
        mismatch = TargetMismatch(why_not(declared, oracle, wanted.rank), check.evidence, found)
        raise resolve(method.explain)(oracle, mismatch, rng) if method.explain else mismatch
    if not accurate(found, wanted.accuracy):
        stopped = wanted.rank is None and accurate(hand_back(first, None), wanted.accuracy)
        raise inaccurate(oracle, wanted.accuracy, found, learned.needed, stopped=stopped)
    return found, check.warning


def check_learned(
    method: Method, oracle: Oracle, learned: Learned, rng: np.random.Generator, doubted: Sequence[np.ndarray]
) -> tuple[Learned, HeldOut]:
    """What was learned after the family's own check, unless it was part of learning, and the judge; where a budget ends
    before them, it is known as `unchecked`."""
    before = oracle.queries
    try:
        seen_by = learned.through(oracle)
        check = learned.check or resolve(method.check or learned.checked_by)(seen_by, learned, rng)
        if check.evidence is not None:
            return learned, check
        return check_everywhere(seen_by, learned, check, rng, doubted)
    except BudgetExceeded as error:
        error.known["unchecked"] = learned
        checks = queries_of_checks(oracle.answers, learned.check is not None, learned.one_head)
        error.needed = max(error.needed, before + checks - error.budget)
        raise
