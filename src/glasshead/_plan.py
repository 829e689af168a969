"""How many queries a recovery takes, known beforehand: how few could do, and how many are asked at most.

A query that is answered by one number fixes one free parameter at most, whatever the learner; one that is answered by a
yes or no fixes one bit. The most is planned by one function per family, named in `_families`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ._errors import BudgetExceeded
from ._families import ANSWERS, named, resolve
from ._validate import check_rank, positive, whole

USUAL = 76  # queries beyond one per parameter that a recovery usually takes, without a key bias
BITS = 40  # of every score, where answers are signs and no accuracy is asked for
FEWEST, MOST = 8, 60  # that an accuracy may ask for: past the last one rounding is all there is
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
    """About how many queries are to come where W of so many heads is yet to be read, for progress bars."""
    return heads * (information_limit(dim, rank, key_bias=True) + USUAL_SEVERAL) + OVERHEAD


def check_budget(budget: int, dim: int, accuracy: float | None, answers: str, checks: int) -> None:
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


OVERHEAD = 104  # pilots, law checks, repeats, re-asked scores, the held-out check and the judge together
DISCOVERY = 32  # the last test for a new column and the looks outside the span, where W is of low rank
TELLING = 96  # for each head, beside 2.5 for each dimension: finding and isolating it
NETWORK_OVERHEAD = 192  # what a small network takes beyond its parameters: looking for biases, noise, checks
EACH = {"value": 10, "sign": 160}  # queries for a score that is read through an unknown network
REFUSED = 1.2  # times the plan of the dearest family: what all attempts together may cost where none succeeds
SOLVED_AT_ONCE = 1800  # in any dimension: heads that nothing isolates, or scores behind a box that is hardly a head
PLACE_QUERIES = 400  # looking for tokens where that network shows the scores, for a normalisation, and the check


def plan(
    dim: int,
    *,
    family: str = "attention",
    rank: int | None = None,
    heads: int = 1,
    answers: str = "value",
    accuracy: float | None = None,
    biases: bool = False,
    width: int | None = None,
    outputs: int = 1,
) -> int:
    """The number of queries that `gh.recover` asks at most, for a box that gives one number, or one sign, per answer.

    >>> gh.plan(64), gh.plan(64, rank=4), gh.plan(64, answers="sign")
    (4264, 696, 172288)

    That is one per free parameter, `dim**2 + dim` or `2*rank*dim - rank**2 + dim`, and 104 more (136 where the rank is
    small and has to be discovered); `biases=True` adds `dim + 1`. Beyond that only scores that turn out saturated are
    asked again, which happens to a few of them unless W is very lopsided. Signs take as many queries for each parameter
    as it is to have bits, and some more: 40, or what `accuracy` asks for if W has the norm `sqrt(dim)`; if up to 10% of
    them are wrong, 13 times as many.

    A "transformer" takes 1.6 queries for each parameter of its network, which has `width` neurons, and one for each
    score of W, all twelve times where it answers in float32; behind "any-network" a score takes ten. For "multi-head"
    each of the `heads` takes what one does, key bias included, and about a hundred more and `2.5 dim` to tell it. For
    "auto" it is the most that is asked before a box of none of these families is refused, unless what is behind it
    looks like ReLU: then add a "transformer"; one that is of some family takes what that does, 3% and 32 queries more
    at most. Where answers hold as many numbers as a token, `outputs=dim`, it may be a "block".
    """
    return planned(Sizes(dim, rank, heads, width, answers, accuracy, biases, outputs), family).queries


@dataclass(frozen=True)
class Sizes:
    """What is known of a box, and asked of it, before the first query."""

    dim: int
    rank: int | None = None
    heads: int = 1
    width: int | None = None
    answers: str = "value"
    accuracy: float | None = None
    biases: bool = False
    outputs: int = 1

    @property
    def score_bits(self) -> int:
        """Bits of every score read from signs, if W has the norm `sqrt(dim)`: scores of unit vectors are then about
        `1 / sqrt(dim)`."""
        return bits_for(self.accuracy, self.dim, self.rank, 3 / math.sqrt(self.dim))


class Planned(NamedTuple):
    """The most queries, and the free parameters of such a model (of W and the key bias, if the rest stays a box)."""

    queries: int
    parameters: int


def planned(box: Sizes, family: str) -> Planned:
    """The plan for a box of that family, its arguments checked."""
    dim = whole(box.dim, "dim", least=1)
    declared = named(family)
    if whole(box.heads, "heads", least=1) != 1 and declared is not None and "heads" not in declared.sizes:
        raise ValueError(f"expected heads=1 for family {family!r}, got {box.heads}")
    if box.answers not in ANSWERS:
        raise ValueError(f"expected answers to be one of {ANSWERS}, got {box.answers!r}")
    if box.accuracy is not None:
        positive(box.accuracy, "accuracy")
    check_rank(box.rank, dim)
    whole(box.outputs, "outputs", least=1)
    if declared is None:
        return plan_auto(box)
    if (refusal := declared.refusal(box.answers)) is not None:
        raise ValueError(refusal)
    return resolve(declared.plan)(box)


def plan_auto(box: Sizes) -> Planned:
    """What "auto" asks at most before it refuses: a fifth more than the dearest family that it may try, which takes
    `SOLVED_AT_ONCE` at least. From yes and no it tries one head only."""
    if box.answers == "sign":
        return plan_attention(box)
    tried = [plan_attention(box), plan_heads(box), plan_any_network(box)]
    tried += [] if box.width is None else [plan_transformer(box)]
    tried += [] if box.outputs == 1 else [plan_block(box)]
    return Planned(math.ceil(REFUSED * max(SOLVED_AT_ONCE, *(each.queries for each in tried))), tried[0].parameters)


def plan_attention(box: Sizes) -> Planned:
    """One query per free parameter and a few more; from signs, one for each bit of each parameter."""
    parameters = information_limit(box.dim, box.rank, key_bias=box.biases, bias=box.biases)
    if box.answers == "sign":
        return Planned(sign_queries(box), parameters)
    discovery = 0 if box.rank is None or box.rank == box.dim else DISCOVERY
    return Planned(parameters + OVERHEAD + discovery, parameters)


def sign_queries(box: Sizes) -> int:
    """One query more than its bits for every score, and finer ones for v and for the looks outside a span."""
    dim, rank, bits = box.dim, box.rank, box.score_bits
    queries = (information_limit(dim, rank) - dim) * (bits + 1) + dim * (bits + 24) + 256
    if rank is not None and rank < dim:
        queries += 16 * (bits + 4) + (dim + 1) * bits  # the looks, and a column more where the first nearly depend
    return queries + box.biases * (2 * dim * (BITS + 8) + 160)


def plan_heads(box: Sizes) -> Planned:
    """What one head takes for each of them, key bias included, and what it takes to tell it from the others."""
    each = information_limit(box.dim, box.rank, key_bias=True) + TELLING + math.ceil(2.5 * box.dim)
    parameters = box.heads * information_limit(box.dim, box.rank, key_bias=box.biases) + box.biases
    return Planned(box.heads * each + OVERHEAD, parameters)


def plan_transformer(box: Sizes) -> Planned:
    """1.6 queries for each parameter of the network, one for each of the head."""
    if box.width is None:
        raise ValueError("expected width=, the number of neurons of the network behind the head")
    network = (whole(box.width, "width", least=1) + 1) * (box.dim + box.biases)
    head = information_limit(box.dim, box.rank, key_bias=box.biases)
    return Planned(math.ceil(1.6 * network) + head + NETWORK_OVERHEAD + OVERHEAD + DISCOVERY, head - box.dim + network)


# Queries of a block, at most: for each dimension of differences, row, sequence of scores, and dimension of pairs.
JACOBIANS, ROW, SCORED, PAIRED = 40, 60, 18, 24
READ_LENGTHS, TOLD = 4, 90  # of last tokens behind a norm, and sequences for each dimension that tell heads apart


def plan_block(box: Sizes) -> Planned:
    """Differences for each dimension, and some twenty answers for each sequence of which many scores are read. Behind a
    norm it is another way, with an answer for each length of the last token; what a box is, is not known before."""
    d, H = box.dim, box.heads
    r = max(1, d // H)
    each = max(1, (r - 2) // 2)
    rows = ROW * 2 * d
    columns = SCORED * ((r + 4) * -(-d // each) + d * -(-3 * (r + 1) // (2 * each)))
    parameters = H * (2 * (2 * r * d - r * r) + (d if box.biases else 0))
    encoder = JACOBIANS * d + PAIRED * d + rows + columns
    decoder = READ_LENGTHS * (TOLD * d + math.ceil(1.4 * (d + 1) * (r + 6)) + d * (r + 4))
    return Planned(max(encoder, decoder) + OVERHEAD + 64, parameters)


def plan_any_network(box: Sizes) -> Planned:
    """So many queries for each score of W that is read through the network."""
    scores = information_limit(box.dim, box.rank, key_bias=box.biases) - box.dim
    return Planned(EACH[box.answers] * (scores + 2 * box.dim) + PLACE_QUERIES, scores)
