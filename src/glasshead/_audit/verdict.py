"""What a finding means, in words, and which defence to take: nothing here but the numbers of the findings decides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .copies import FITTING, Finding
from .fit import FITTED
from .settings import BUDGET, NONE

READ_WHOLE, DIRECTION, PARTLY, NOT_COPIED, SPENT = "recovered", "direction", "partly", "refused", "budget"
DOUBLE_DIGITS = 15  # that a number of float64 has


def outcome(found: Finding, threshold: float) -> str:
    """`recovered`; `direction`, from signs: all but the length of v; `partly`: a copy that nothing vouches for, but
    which answers within the threshold, or one of the attention alone; `budget`: queries were too few; `refused`: no
    copy, or one of no use."""
    if not held(found, threshold):
        if not found.returned or found.error is None:
            return PARTLY
        return DIRECTION if found.answers == "sign" else READ_WHOLE
    return SPENT if found.plan is not None else NOT_COPIED


def held(found: Finding, threshold: float) -> bool:
    """Whether the attacker's error stayed at the threshold or above it. A model whose error is not known counts as
    taken where `gh.recover` stands by it, and as none where it does not."""
    if found.error is None:
        return not (found.copy and found.returned)
    return found.error >= threshold


def verdict(found: Finding, threshold: float) -> str:
    """One sentence."""
    asked, kind = f"{found.queries:,} queries", outcome(found, threshold)
    if kind == READ_WHOLE:
        return f"recovered to {digits(worst(found))} with {asked}"
    if kind == DIRECTION and found.error_W is None:
        return f"direction only, with {asked}: {1 - (found.error or 0.0) / 2:.1%} of honest signs agree"
    if kind == DIRECTION:
        return f"direction only: all but the length of v, to {digits(worst(found))}, with {asked}"
    if kind == PARTLY and found.error is None:
        return f"its attention was read with {asked}; what lies behind it was not copied"
    if kind == PARTLY:
        how = "fitted to" if found.attack == FITTING else "read from"
        return f"copied: {how} {found.queries:,} answers, {off(found)} off, though nothing vouches for it"
    if not found.asked:
        return f"not tried: glasshead's plan is {found.plan:,} queries"
    more = f"; its plan for reading is {found.plan:,}" if found.plan is not None and found.plan > found.asked else ""
    best = "" if found.error is None else f", its best copy {off(found)} off"
    tried = "" if found.fitted or found.group == BUDGET else "; fitting was not tried"
    return f"not recovered by glasshead with {found.asked:,} queries{best}{more}{tried}"


def worst(found: Finding) -> float | None:
    """The largest of the errors that are known: of W and v where the truth is, else of the copy's answers."""
    known = [error for error in (found.error_W, found.error_v) if error is not None] or [found.function_error]
    return max((error for error in known if error is not None), default=None)


def digits(error: float | None) -> str:
    """`7 digits`, of a relative error of 1e-7 or a little less."""
    if error is None:
        return "an accuracy that is not known"
    count = DOUBLE_DIGITS if error == 0 else min(DOUBLE_DIGITS, math.floor(-math.log10(error)))
    return f"{count} digit{'s' * (count != 1)}" if count >= 1 else f"within {error:.0%}"


def off(found: Finding) -> str:
    return "by an unknown amount" if found.error is None else f"{as_share(found.error)}"


LEAST_PERCENT = 1e-3  # a smaller share is no percent with one decimal, but a number


def as_share(x: float) -> str:
    return f"{x:.2g}" if x < LEAST_PERCENT else f"{x:.1%}"


def ranked(findings: Sequence[Finding], threshold: float, fewest: int) -> list[Finding]:
    """The settings that held, the cheapest for honest users first, then limits on queries, the largest first. What no
    fit was tried on is not among them, nor a limit that leaves room to know everything; no defence of answers is, where
    the fit did not suit the box, since reading as it is found something else than one head."""
    bare = next((found for found in findings if found.group == NONE), None)
    suits = bare is None or bare.family == FITTED
    kept = [found for found in findings if held(found, threshold) and found.group != NONE]
    answers = [found for found in kept if found.limit is None and found.fitted and suits]
    limits = [found for found in kept if found.limit is not None and found.limit < fewest]
    answers.sort(key=lambda found: (found.distortion, -(found.error or math.inf)))
    return answers + sorted(limits, key=lambda found: -(found.limit or 0))


def recommendation(
    findings: Sequence[Finding], threshold: float, budget: int, fewest: int, width: int | None = None
) -> str:
    """What to do, in a few sentences."""
    order = ranked(findings, threshold, fewest)
    bare = next((found for found in findings if found.group == NONE), None)
    answers = next((found for found in order if found.limit is None), None)
    limit = next((found for found in order if found.limit is not None), None)
    said = []
    if width is not None:
        said.append(f"Its answers lie in {width} dimensions, which shows without a single chosen vector.")
    if bare is not None and held(bare, threshold):
        said.append(f"As it is, the box was not copied ({verdict(bare, threshold)}): so no defence could be tested.")
    elif answers is not None:
        said.append(
            f"The cheapest defence that held: {answers.name} ({answers.defence}), which costs honest users "
            f"{as_share(answers.distortion)} of the spread of their answers; {verdict(answers, threshold)}."
        )
    elif bare is not None and bare.family != FITTED:
        said.append("The box is not one head, and a fit to others was not tried: no defence of answers is recommended.")
    else:
        said.append(f"Nothing that was done to tokens or answers kept the error of a copy above {threshold:g}.")
    if limit is not None:
        said.append(
            f"A limit held{' too' * (answers is not None)}: {limit.name} for each client, as long as one client cannot "
            "pose as many (AML.M0019), and the clients are watched (AML.M0024)."
        )
    said.append(
        f"Held means that neither reading nor fitting, by somebody who knows the defence, got below {threshold:g} with "
        f"{budget:,} queries: it is no proof that nobody can."
    )
    return " ".join(said)
