"""How much memory a recovery takes beside the model: the process's high-water mark in a fresh process."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh

from .fresh import measured

DIM = 1024
RANKS = (None, 16)  # a full W, d^2 scores; and a factored one of low rank
LIMIT = 500.0  # MB of 10^6 bytes

Progress = Callable[[int, int, str], None]


def child(dim: int, rank: int | None) -> dict[str, Any]:
    box = gh.Attention.random(dim, rank=rank, seed=1)
    box(np.ones((4, 2, dim)))
    before = resident()
    found = gh.recover(box)
    peak = high_water()
    error = float(np.linalg.norm(found.model.W - box.W) / np.linalg.norm(box.W))
    return {"before_MB": before, "peak_MB": peak, "above_MB": peak - before, "queries": found.queries, "error": error}


def resident() -> float:
    """MB in use now, or where the system does not say, the most there ever were."""
    return from_status("VmRSS") or high_water()


def high_water() -> float:
    """The most MB this process ever had. On Linux not from getrusage, which counts what it was forked from."""
    unit = 1 if sys.platform == "darwin" else 1024
    return from_status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def from_status(field: str) -> float | None:
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in status.open() if line.startswith(field)), None)


def run(progress: Progress) -> dict[str, Any]:
    rows = []
    for done, rank in enumerate(RANKS):
        progress(done, len(RANKS), f"memory, d = {DIM}, {'full rank' if rank is None else f'rank {rank}'}")
        rows.append({"d": DIM, "rank": rank} | measured(f"bench.memory.child({DIM}, {rank})", threads=1))
    return {"limits": {"MB": LIMIT}, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        if not row["above_MB"] <= LIMIT:
            what = f"memory, d = {row['d']}, rank {row['rank']}"
            yield f"{what}: {row['above_MB']:.0f} MB above the model's own > {LIMIT:.0f} MB"
