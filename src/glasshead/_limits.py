"""How few queries could do: free parameters, bits, and what half-way knowledge says of the rest; and how sure so many
make that are answered as predicted.

A query that is answered by one number fixes one free parameter at most, whatever the learner; one that is answered by a
yes or no fixes one bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._errors import BudgetExceeded

OVERHEAD = 104  # pilots, law checks, repeats, re-asked scores, the held-out check and the judge together
USUAL = 76  # queries beyond one per parameter that a recovery usually takes, without a key bias
BITS = 40  # of every score, where answers are signs and no accuracy is asked for
FEWEST, MOST = 8, 60  # that an accuracy may ask for: past the last one rounding is all there is
# A model that is wrong on this share of fresh queries passes n of them with probability (1 - WRONG)^n. The rest is the
# confidence where nothing but fresh queries speaks for a model: 0.990 for 16 of them, 0.999 for 24.
WRONG = 0.25
# The confidence from which a bound is proved: 1 where it follows from a promise, this where random looks bound what a
# rank that was discovered leaves out; what is measured or averaged is less sure.
PROVED = 0.999
SCHEME_SLACK = {"full": 2.0, "low rank": 32.0}  # a scheme's bound over d times the error of one score


def information_limit(dim: int, rank: int | None = None, *, key_bias: bool = False, bias: bool = False) -> int:
    """The free parameters of one head: no learner that gets one number per query can do with fewer queries."""
    W = dim * dim if rank is None else rank * (2 * dim - rank)
    return W + dim + key_bias * dim + bias


def bits_for(accuracy: float | None, dim: int, rank: int | None, reach: float) -> int:
    """How many bits of each score must be known, of a range `[-reach, reach]`, for `||W_hat - W||_F <= accuracy`."""
    if accuracy is None:
        return BITS
    slack = SCHEME_SLACK["full" if rank == dim else "low rank"]
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


def heads_left(dim: int, heads: int, rank: int | None = None) -> int:
    """About how many queries are to come where W of so many heads is yet to be read."""
    return heads * (information_limit(dim, rank, key_bias=True) + USUAL_SEVERAL) + OVERHEAD


def confidence_of(agreed: int) -> float:
    """How likely so many fresh queries, which agree, were to show a model that is wrong on a `WRONG` share of them."""
    return 1 - (1 - WRONG) ** agreed


def would_pass(confidence: float) -> str:
    """How the confidence of a check was obtained, in words; one in four is the `WRONG` share."""
    return f"a model that is wrong on one query in four would pass in {1 - confidence:.1%} of cases"


def require_budget(budget: int, dim: int, accuracy: float | None, answers: str, checks: int) -> None:
    """Refuse at once what cannot suffice, with so many queries for checks. How many numbers an answer holds shows in
    the first one, and W may be 0: only v takes a query for each dimension, whatever the box."""
    least = fewest(answers, dim, accuracy) + checks
    if budget < least:
        raise BudgetExceeded(
            f"a budget of {budget} cannot suffice: v of a head of dimension {dim} alone takes "
            f"{least - checks} {answers} queries, and the last check {checks}; gh.plan says what to allow",
            budget=budget,
            needed=least - budget,
        )
