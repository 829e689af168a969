"""How few queries could do, and in how much memory: the free parameters of a head, the bits of a score, and what is
missing half-way.

A query that is answered by one number fixes one free parameter at most, whatever the learner; one that is answered by
a yes or no fixes one bit.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ._errors import BudgetExceeded, NotConverged

USUAL = 76  # queries beyond one per parameter that a recovery usually takes, without a key bias
BITS = 40  # of every score, where answers are signs and no accuracy is asked for
FEWEST, MOST = 8, 60  # that an accuracy may ask for: past the last one rounding is all there is
SLACK = {"full": 2.0, "low rank": 32.0}  # a scheme's bound over d times the error of one score


def information_limit(dim: int, rank: int | None = None, *, key_bias: bool = False, bias: bool = False) -> int:
    """The free parameters of one head: no learner that gets one number per query can do with fewer queries."""
    W = dim * dim if rank is None else rank * (2 * dim - rank)
    return W + dim + key_bias * dim + bias


def bits_for(accuracy: float | None, dim: int, rank: int | None, reach: float) -> int:
    """To how many bits each score must be known, of a range `[-reach, reach]`, for `||W_hat - W||_F <= accuracy`."""
    if accuracy is None:
        return BITS
    slack = SLACK["full" if rank == dim else "low rank"]
    return min(max(math.ceil(math.log2(slack * reach * dim / accuracy)), FEWEST), MOST)


@dataclass(frozen=True)
class Goal:
    """What was asked for: a rank if known, an accuracy, a number of bits for each score."""

    rank: int | None = None
    accuracy: float | None = None
    bits: int | None = None

    def within(self, dim: int) -> Goal:
        """The goal for a head that sees only so many dimensions."""
        return replace(self, rank=None if self.rank is None else min(self.rank, dim))

    def bits_of(self, dim: int, reach: float) -> int:
        """The bits asked for, or those that the accuracy takes where scores lie within `[-reach, reach]`."""
        return bits_for(self.accuracy, dim, self.rank, reach) if self.bits is None else self.bits


def fewest(answers: str, parameters: int, accuracy: float | None = None) -> int:
    """The queries that so many parameters take at least; signs show v up to a factor only, one bit at a time."""
    return parameters if answers == "value" else (parameters - 1) * (BITS if accuracy is None else FEWEST)


def estimate(
    dim: int, rank: int | None, known: dict[str, Any], answers: str = "value", accuracy: float | None = None
) -> int:
    """About how many queries a recovery takes in all, from what is known half-way: at least this rank, these biases."""
    seen = rank or max(1, len(known.get("b", ())))
    bias = "bias" in known and bool(np.any(known["bias"]))
    parameters = information_limit(dim, seen, key_bias="key_bias" in known, bias=bias)
    return fewest(answers, parameters, accuracy) + USUAL


USUAL_SEVERAL = 60  # queries per head beyond one per parameter: jumps, pilots, the search for the rank; rarely fewer


def still_needed(known: dict[str, Any], dim: int, columns: int = 0) -> int:
    """A lower estimate of all queries together: heads that were not counted yet may be only one, and those not looked
    at yet have the lowest rank of those that were, or 1. So many `columns` are known of the head being read."""
    ranks = [int(np.linalg.matrix_rank(W, tol=1e-9 * np.linalg.norm(W))) for W in known.get("W", {}).values()]
    begun = [columns - 1] * (columns > 1)  # one of them may be the key bias
    unseen = min(ranks or begun, default=1)
    ranks += begun
    ranks += [unseen] * (known.get("heads", 1) - len(ranks))
    mean = 2 * dim if "mean" in known else 0
    return dim + mean + sum(information_limit(dim, rank) + USUAL_SEVERAL for rank in ranks)


def check_budget(budget: int, dim: int, rank: int | None, accuracy: float | None, answers: str, checks: int) -> None:
    """Refuse at once what cannot suffice, with so many queries for checks. With the rank unknown that is less than a
    head of rank one takes."""
    parameters = information_limit(dim, rank or 1)
    least = fewest(answers, parameters, accuracy) + checks
    if budget < least:
        raise BudgetExceeded(
            f"a budget of {budget} cannot suffice: a head of dimension {dim} and rank {rank or 1} has "
            f"{parameters} free parameters, which with the held-out check take {least} {answers} queries; "
            "gh.plan says what to allow",
            budget=budget,
            needed=least - budget,
        )


MATRICES = 8  # of d by d numbers, at once: measured with heads of rank 1, d = 1500 and 3000, where it was 8.5 to 13
CONTAINER = Path("/sys/fs/cgroup/memory.max")


def memory_needed(dim: int) -> int:
    """Bytes that recovering a head takes at least: W, the queries that read v, and what is made of them."""
    return 8 * MATRICES * dim * dim


def memory() -> float:
    """Bytes that this process may have: the machine's memory, or less where a container or a limit allows less."""
    most = [math.inf]
    if hasattr(os, "sysconf"):
        most.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    try:
        import resource

        most += [limit for limit in resource.getrlimit(resource.RLIMIT_AS)[:1] if limit != resource.RLIM_INFINITY]
        most.append(int(CONTAINER.read_text()))
    except (ImportError, OSError, ValueError):  # no such limits here, or the container's is the word "max"
        pass
    return min(most)


def check_memory(dim: int) -> None:
    """Refuse at once what cannot be held: an allocation that fails late, or never, would take the machine down."""
    if (needed := memory_needed(dim)) > (there := memory()):
        raise NotConverged(
            f"tokens of dimension {dim:,} need more memory than there is: W and the queries that read it take about "
            f"{needed / 2**30:,.0f} GiB, {there / 2**30:,.1f} GiB may be used; recover a box of fewer dimensions, such "
            "as one that takes tokens in a basis of the subspace in which they lie"
        )
