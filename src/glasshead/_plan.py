"""How many queries a recovery takes, known beforehand."""

from __future__ import annotations

OVERHEAD = 64  # pilots, law checks, repeats, re-asked scores and the held-out check together
ANSWERS = ("value",)


def information_limit(dim: int, rank: int | None = None, *, key_bias: bool = False, bias: bool = False) -> int:
    """The free parameters of one head: no learner that gets one number per query can do with fewer queries."""
    columns = dim + key_bias
    W = dim * columns if rank is None else rank * (dim + columns - rank)
    return W + dim + bias


def plan(
    dim: int,
    *,
    family: str = "attention",
    rank: int | None = None,
    heads: int = 1,
    answers: str = "value",
    accuracy=None,
    biases=False,
) -> int:
    """The number of queries that `gh.recover` will ask at most, for a box that gives one number per answer.

    >>> gh.plan(64)
    4224

    That is `dim**2 + dim` free parameters and 64 more, and `dim + 1` more with `biases=True`. A score that turns out
    saturated is asked again, which only a very lopsided W makes happen more than a few times.
    """
    if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
        raise ValueError(f"expected dim to be an integer >= 1, got {dim!r}")
    if family not in ("auto", "attention"):
        raise ValueError(f"expected family 'attention', got {family!r}: other families have no plan in this version")
    if heads != 1:
        raise ValueError(f"expected heads=1 for family 'attention', got {heads}")
    if answers not in ANSWERS:
        raise ValueError(f"expected answers='value', got {answers!r}: other answers have no plan in this version")
    if accuracy is not None and not accuracy > 0:
        raise ValueError(f"expected accuracy to be positive, got {accuracy!r}")
    if rank is not None and not 1 <= rank <= dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank}")
    return information_limit(dim, key_bias=biases, bias=biases) + OVERHEAD
