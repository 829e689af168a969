"""Journals: what they cost, and whether a run over HTTP that is killed again and again gives what one run gives."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from tests.journal.kills import killed_runs

import glasshead as gh

Progress = Callable[[int, int, str], None]

DIM, SECONDS = 256, 20e-6  # of a box, and how long it takes for a query
ROUNDS = 7  # each with and without a journal; the cost is the median
MOST = 0.10  # of the run
KILLS, KILLED_DIM, KILLED_SECONDS = 50, 24, 0.01


def measured(target: gh.Attention, journal: Path | None) -> tuple[float, int, int]:
    """Seconds of a recovery, its queries and its batches."""
    batches = 0

    def box(X: np.ndarray) -> np.ndarray:
        nonlocal batches
        batches += 1
        start = perf_counter()
        answers = target(X)
        sleep(max(0.0, SECONDS * len(X) - (perf_counter() - start)))
        return answers

    start = perf_counter()
    found = gh.recover(gh.ValueOracle(box, DIM), journal=journal)
    return perf_counter() - start, found.queries, batches


def cost() -> dict[str, Any]:
    target, shares, queries, batches = gh.Attention.random(DIM, seed=1), [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for k in range(ROUNDS):
            without = measured(target, None)[0]
            seconds, queries, batches = measured(target, Path(folder) / f"{k}.sqlite")
            shares.append((seconds - without) / seconds)
    return {"dim": DIM, "queries": queries, "batches": batches, "share": statistics.median(shares), "most": MOST}


def run(progress: Progress) -> dict[str, Any]:
    progress(0, 2, "cost")
    spent = cost()
    progress(1, 2, f"{KILLS} kills")
    with tempfile.TemporaryDirectory() as folder:
        killed = killed_runs(Path(folder), KILLS, KILLED_DIM, KILLED_SECONDS, seed=1)
    return {"cost": spent, "killed": asdict(killed) | {"most": killed.most, "dim": KILLED_DIM}}


def broken(result: dict[str, Any]) -> Iterable[str]:
    spent, killed = result["cost"], result["killed"]
    if spent["share"] > spent["most"]:
        yield f"a journal takes {spent['share']:.0%} of a run, more than {spent['most']:.0%}"
    if not killed["same"]:
        yield f"a run that was killed {killed['kills']} times found something else"
    if killed["lost"]:
        yield f"{killed['lost']} stored batches were lost"
    if not killed["uninterrupted"] < killed["counted"] <= killed["most"]:
        yield f"{killed['counted']} queries, not between {killed['uninterrupted']} and {killed['most']}"
