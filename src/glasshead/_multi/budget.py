"""How many queries several heads take, from what is known half-way."""

from __future__ import annotations

from statistics import median

import numpy as np

from .._plan import information_limit

USUAL = 60  # queries per head beyond one per parameter: jumps, pilots, the search for the rank


def still_needed(known: dict, dim: int) -> int:
    """About how many queries the whole recovery takes: at least so many heads, of ranks like those seen so far."""
    heads = len(known.get("v", "1"))
    ranks = [np.linalg.matrix_rank(W, tol=1e-9 * np.linalg.norm(W)) for W in known.get("W", {}).values()]
    rank = max(1, int(median(ranks))) if ranks else 1
    return heads * (information_limit(dim, rank) + USUAL) + dim
