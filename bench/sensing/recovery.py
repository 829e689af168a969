"""Our own recovery on the heads that `distill.py` gives to Adam, rank unknown: queries, time, error.

python -m bench.sensing.recovery
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import glasshead as gh

from .instances import machine, save

SIZES = ((32, 2), (64, 4))
RUNS = 7


def row(dim: int, rank: int, seed: int) -> dict[str, Any]:
    head = gh.Attention.random(dim, rank=rank, seed=seed)
    start = time.perf_counter()
    found = gh.recover(gh.ValueOracle(head), seed=seed)
    seconds = time.perf_counter() - start
    error = float(np.linalg.norm(found.model.W - head.W) / np.linalg.norm(head.W))
    return {"seconds": seconds, "queries": found.queries, "W_error": error, "limit": found.limit}


def worst(dim: int, rank: int) -> dict[str, Any]:
    rows = [row(dim, rank, seed) for seed in range(RUNS)]
    return {
        "dim": dim,
        "rank": rank,
        "limit": rows[0]["limit"],
        "queries": max(each["queries"] for each in rows),
        "seconds": statistics.median(each["seconds"] for each in rows),
        "W_error": max(each["W_error"] for each in rows),
    }


if __name__ == "__main__":
    row(8, 1, 0)  # imports and first calls are not what is measured
    save("recovery", {"machine": machine(), "runs": RUNS, "rows": [worst(*size) for size in SIZES]})
