"""How many queries a recovery takes, known beforehand."""

from __future__ import annotations

import math

from ._limits import BITS, bits_for, information_limit
from ._validate import positive, whole

OVERHEAD = 64  # pilots, law checks, repeats, re-asked scores and the held-out check together
DISCOVERY = 32  # the last test for a new column and the looks outside the span, where W is of low rank
ANSWERS = ("value", "sign")
PLANNED = ("auto", "attention", "multi-head", "transformer", "any-network")
TELLING = 96  # for each head, beside 2.5 for each dimension: finding and isolating it
NETWORK = 192  # what a small network takes beyond its parameters: looking for biases, noise, checks
EACH = {"value": 10, "sign": 160}  # queries for a score that is read through an unknown network
PLACES = 400  # looking for tokens where that network shows the scores, for a normalisation, and the check


def plan(
    dim,
    *,
    family="attention",
    rank=None,
    heads=1,
    answers="value",
    accuracy=None,
    biases=False,
    width=None,
) -> int:
    """The number of queries that `gh.recover` asks at most, for a box that gives one number, or one sign, per answer.

    >>> gh.plan(64), gh.plan(64, rank=4), gh.plan(64, answers="sign")
    (4224, 656, 172288)

    That is one per free parameter, `dim**2 + dim` or `2*rank*dim - rank**2 + dim`, and 64 more (96 where the rank is
    small and has to be discovered); `biases=True` adds `dim + 1`. Beyond that only scores that turn out saturated are
    asked again, which happens to a few of them unless W is very lopsided. Signs take as many queries for each parameter
    as it is to have bits, and some more: 40, or what `accuracy` asks for if W has the norm `sqrt(dim)`; if up to 10% of
    them are wrong, 13 times as many.

    A "transformer" takes 1.6 queries for each parameter of its network, which has `width` neurons, and one for each
    score of W; behind "any-network" a score takes ten. For "multi-head" each of the `heads` takes what one does, key
    bias included, and about a hundred more and `2.5 dim` for telling it from the others.
    """
    dim = whole(dim, "dim", least=1)
    if family not in PLANNED:
        raise ValueError(f"expected family to be one of {PLANNED}, got {family!r}")
    if whole(heads, "heads", least=1) != 1 and family != "multi-head":
        raise ValueError(f"expected heads=1 for family {family!r}, got {heads}")
    if answers not in ANSWERS:
        raise ValueError(f"expected answers to be one of {ANSWERS}, got {answers!r}")
    if accuracy is not None:
        positive(accuracy, "accuracy")
    if rank is not None and whole(rank, "rank", least=1) > dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank}")
    if family == "multi-head":
        return plan_heads(dim, rank, answers, heads)
    if family == "transformer":
        return plan_transformer(dim, rank, answers, biases, width)
    if family == "any-network":
        return plan_any_network(dim, rank, answers, biases)
    if answers == "sign":
        return plan_signs(dim, rank, accuracy, biases)
    discovery = 0 if rank is None or rank == dim else DISCOVERY
    return information_limit(dim, rank, key_bias=biases, bias=biases) + OVERHEAD + discovery


def plan_transformer(dim: int, rank: int | None, answers: str, biases: bool, width) -> int:
    if answers != "value":
        raise ValueError("expected answers='value' for a transformer; from signs it is 'any-network'")
    if width is None:
        raise ValueError("expected width=, the number of neurons of the network behind the head")
    network = (whole(width, "width", least=1) + 1) * (dim + biases)
    return math.ceil(1.6 * network) + information_limit(dim, rank, key_bias=biases) + NETWORK + OVERHEAD + DISCOVERY


def plan_heads(dim: int, rank: int | None, answers: str, heads: int) -> int:
    if answers != "value":
        raise ValueError("expected answers='value' for several heads: yes and no say too little")
    each = information_limit(dim, rank, key_bias=True) + TELLING + math.ceil(2.5 * dim)
    return heads * each + OVERHEAD


def plan_any_network(dim: int, rank: int | None, answers: str, biases: bool) -> int:
    scores = information_limit(dim, rank, key_bias=biases) - dim
    return EACH[answers] * (scores + 2 * dim) + PLACES


def planned_bits(dim: int, rank: int | None, accuracy: float | None) -> int:
    """Bits of every score, if W has the norm `sqrt(dim)` and scores of unit vectors are about `1 / sqrt(dim)`."""
    return bits_for(accuracy, dim, rank, 3 / math.sqrt(dim))


def plan_signs(dim: int, rank: int | None, accuracy: float | None, biases: bool) -> int:
    """One query more than its bits for every score, and finer ones for v and for the looks outside a span."""
    bits = planned_bits(dim, rank, accuracy)
    queries = (information_limit(dim, rank) - dim) * (bits + 1) + dim * (bits + 24) + 256
    if rank is not None and rank < dim:
        queries += 16 * (bits + 4) + (dim + 1) * bits  # the looks, and a column more where the first nearly depend
    return queries + biases * (2 * dim * (BITS + 8) + 160)
