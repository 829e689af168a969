"""What a finding means, in words, and which defence to take: nothing here but the numbers of the findings decides."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .copies import FITTING, Finding
from .settings import BUDGET, NONE

READ_WHOLE, DIRECTION, PARTLY, NOT_COPIED, SPENT = "recovered", "direction", "partly", "refused", "budget"
DOUBLE_DIGITS = 15  # that a number of float64 has


def outcome(found: Finding, threshold: float) -> str:
    """`recovered`; `direction`, from signs: all but the length of v; `partly`: a copy that nothing vouches for, but
    which answers within the threshold; `budget`: queries were too few; `refused`: no copy, or one of no use."""
    if found.copy and not held(found, threshold):
        if not found.returned:
            return PARTLY
        return DIRECTION if found.answers == "sign" else READ_WHOLE
    return SPENT if found.plan is not None else NOT_COPIED


def held(found: Finding, threshold: float) -> bool:
    """Whether the defence has kept the attacker's error at the threshold or above it."""
    if not found.copy:
        return True
    return found.error is not None and found.error >= threshold


def verdict(found: Finding, threshold: float) -> str:
    """One sentence."""
    asked, kind = f"{found.queries:,} queries", outcome(found, threshold)
    if kind == READ_WHOLE:
        return f"recovered to {digits(worst(found))} with {asked}"
    if kind == DIRECTION:
        return f"direction only: all but the length of v, to {digits(worst(found))}, with {asked}"
    if kind == PARTLY:
        how = "fitted to" if found.attack == FITTING else "read from"
        return f"copied: {how} {found.queries:,} answers, {off(found)} off, though nothing vouches for it"
    if kind == SPENT and not found.queries:
        return f"not recovered by glasshead, which would take {found.plan:,} queries at least"
    if kind == SPENT:
        return f"not recovered by glasshead with {asked}; it would take {found.plan:,} at least"
    if found.copy:
        return f"not recovered by glasshead: its best copy, from {asked}, is {off(found)} off"
    return f"not recovered by glasshead: refused after {asked}"


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


def as_share(x: float) -> str:
    return f"{x:.2g}" if x < 0.001 else f"{x:.1%}"


def ranked(findings: Sequence[Finding], threshold: float) -> list[Finding]:
    """The settings that held, the cheapest for honest users first; a limit on queries, which costs them otherwise,
    after all others, the largest limit first."""
    kept = [found for found in findings if held(found, threshold) and found.group != NONE]
    return sorted(kept, key=lambda found: (found.group == BUDGET, found.distortion, -(found.error or math.inf)))


def recommendation(findings: Sequence[Finding], threshold: float, budget: int) -> str:
    """What to do, in a few sentences."""
    order = ranked(findings, threshold)
    bare = next((found for found in findings if found.group == NONE), None)
    said = []
    if bare is not None and held(bare, threshold):
        said.append(f"As it is, the box was not copied: {verdict(bare, threshold)}.")
    answers = next((found for found in order if found.group != BUDGET), None)
    limit = next((found for found in order if found.group == BUDGET), None)
    if answers is not None:
        said.append(
            f"The cheapest defence that held: {answers.name} ({answers.defence}), which costs honest users "
            f"{as_share(answers.distortion)} of the spread of their answers; {verdict(answers, threshold)}."
        )
    elif bare is None or not held(bare, threshold):
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
