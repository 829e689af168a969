"""Theorem 5.1: a head of low rank from i.i.d. Gaussian rank-one measurements and the nuclear norm."""

from __future__ import annotations

import numpy as np

from .. import sensing
from .._errors import NotConverged
from .._limits import information_limit
from .._models import Attention
from .._oracles import Oracle, as_oracle, read_unit_rows
from .._recovery import Recovery, recovered
from .._types import Answering, no_type_check
from .._validate import require_rank, whole
from .theorem_4_1 import read_unit_scores

ITERATION_LEFTOVER = 1e-5  # singular values below this part of the largest are what an iteration leaves, not rank


@no_type_check
def theorem_5_1(oracle: Oracle | Answering, rank: int, measurements: int | None = None, seed: int = 0) -> Recovery:
    """The proof of Theorem 5.1 as it stands: `d + measurements` queries and the convex program (2).

    >>> target = gh.Attention.random(12, rank=1, seed=1)
    >>> found = gh.paper.theorem_5_1(target, rank=1)
    >>> found.rank, gh.distance(found.model, target) < 1e-6
    (1, True)

    `measurements` is by default what `gh.sensing.measurements_needed` says, from a measured phase transition. The
    theorem hides a constant and leaves no queries for a check: a minimiser that does not fit, or whose rank is above
    `rank` because there were too few measurements, raises `NotConverged`.
    """
    oracle = as_oracle(oracle)
    d, start = oracle.dim, oracle.queries
    require_rank(whole(rank, "rank"), d)
    least = rank * (2 * d - rank)
    m = sensing.measurements_needed(d, rank) if measurements is None else measurements
    if m < least:
        raise ValueError(f"expected at least {least} measurements for rank {rank} in dimension {d}, got {m}")
    v = read_unit_rows(oracle)
    A, B = np.random.default_rng(seed).standard_normal((2, m, d))
    found = sensing.nuclear_norm(A, B, read_unit_scores(oracle, A, B, v))
    s = np.linalg.svd(found.W, compute_uv=False)
    seen = int(np.sum(s > ITERATION_LEFTOVER * s[0]))
    result = recovered(
        Attention(found.W, v),
        rank=seen,
        queries=oracle.queries - start,
        limit=information_limit(d, rank),
        reason=f"Theorem 5.1 with {m} measurements, unchecked; {found.reason}",
    )
    if not found.converged:
        raise NotConverged(f"Theorem 5.1 with {m} measurements: {found.reason}", result)
    if seen > rank:
        raise NotConverged(
            f"Theorem 5.1 with {m} measurements found a matrix of rank {seen} that fits, not one of rank {rank}: "
            f"too few measurements (gh.sensing.measurements_needed suggests {sensing.measurements_needed(d, rank)}), "
            "or W has a larger rank",
            result,
        )
    return result
