"""How many queries several heads take at least, from what is known half-way."""

from __future__ import annotations

import numpy as np

from .._plan import information_limit

USUAL = 60  # queries per head beyond one per parameter: jumps, pilots, the search for the rank; rarely fewer


def still_needed(known: dict, dim: int, columns: int = 0) -> int:
    """A lower estimate of all queries together: heads that were not counted yet may be only one, and those not looked
    at yet have the lowest rank of those that were, or 1. So many `columns` are known of the head being read."""
    ranks = [int(np.linalg.matrix_rank(W, tol=1e-9 * np.linalg.norm(W))) for W in known.get("W", {}).values()]
    begun = [columns - 1] * (columns > 1)  # one of them may be the key bias
    unseen = min(ranks or begun, default=1)
    ranks += begun
    ranks += [unseen] * (known.get("heads", 1) - len(ranks))
    mean = 2 * dim if "mean" in known else 0
    return dim + mean + sum(information_limit(dim, rank) + USUAL for rank in ranks)
