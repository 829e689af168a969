"""How many queries a recovery takes, known beforehand."""

from __future__ import annotations

import numpy as np

from ._numbers import positive, whole

OVERHEAD = 64  # pilots, law checks, repeats, re-asked scores and the held-out check together
USUAL = 36  # what these usually come to, without a key bias
DISCOVERY = 32  # the last test for a new column and the looks outside the span, where W is of low rank
ANSWERS = ("value",)


def information_limit(dim: int, rank: int | None = None, *, key_bias: bool = False, bias: bool = False) -> int:
    """The free parameters of one head: no learner that gets one number per query can do with fewer queries."""
    W = dim * dim if rank is None else rank * (2 * dim - rank)
    return W + dim + key_bias * dim + bias


def estimate(dim: int, rank: int | None, known: dict) -> int:
    """About how many queries a recovery takes in all, from what is known half-way: at least this rank, these biases."""
    seen = rank or max(1, len(known.get("b", ())))
    bias = "bias" in known and bool(np.any(known["bias"]))
    return information_limit(dim, seen, key_bias="key_bias" in known, bias=bias) + USUAL


def plan(
    dim,
    *,
    family="attention",
    rank=None,
    heads=1,
    answers="value",
    accuracy=None,
    biases=False,
) -> int:
    """The number of queries that `gh.recover` asks at most, for a box that gives one number per answer.

    >>> gh.plan(64), gh.plan(64, rank=4)
    (4224, 656)

    That is one per free parameter, `dim**2 + dim` or `2*rank*dim - rank**2 + dim`, and 64 more (96 where the rank is
    small and has to be discovered); `biases=True` adds `dim + 1`. Beyond that only scores that turn out saturated are
    asked again, which happens to a few of them unless W is very lopsided.
    """
    dim = whole(dim, "dim", least=1)
    if family not in ("auto", "attention"):
        raise ValueError(f"expected family 'attention', got {family!r}: other families have no plan in this version")
    if heads != 1:
        raise ValueError(f"expected heads=1 for family 'attention', got {heads}")
    if answers not in ANSWERS:
        raise ValueError(f"expected answers='value', got {answers!r}: other answers have no plan in this version")
    if accuracy is not None:
        positive(accuracy, "accuracy")
    if rank is not None and whole(rank, "rank", least=1) > dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank}")
    discovery = 0 if rank is None or rank == dim else DISCOVERY
    return information_limit(dim, rank, key_bias=biases, bias=biases) + OVERHEAD + discovery
