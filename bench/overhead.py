"""What the learner costs beside the box: the time of `gh.recover` over the time the box needs for the same queries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import glasshead as gh

from .fresh import measured

DIM = 512
ROUNDS = 5
LIMIT = 1.5

Progress = Callable[[int, int, str], None]


class Stopwatch:
    """A box that remembers the shapes it was asked and how long the answers took."""

    def __init__(self, box: gh.Attention):
        self.box, self.dim = box, box.dim
        self.seconds = 0.0
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, X: np.ndarray) -> np.ndarray:
        start = perf_counter()
        answers = self.box(X)
        self.seconds += perf_counter() - start
        self.shapes.append(X.shape)
        return answers


def one_round(box: gh.Attention, seed: int) -> dict[str, float]:
    """One recovery, then the same batches again on tokens built beforehand: what the box alone takes."""
    watch = Stopwatch(box)
    start = perf_counter()
    found = gh.recover(gh.ValueOracle(watch), seed=seed)
    whole = perf_counter() - start
    rng = np.random.default_rng(seed)
    batches = {shape: rng.standard_normal(shape) for shape in set(watch.shapes)}
    start = perf_counter()
    for shape in watch.shapes:
        box(batches[shape])
    replay = perf_counter() - start
    return {"recover_s": whole, "inside_s": watch.seconds, "replay_s": replay, "queries": found.queries}


def child(dim: int, rounds: int) -> dict[str, Any]:
    box = gh.Attention.random(dim, seed=1)
    gh.recover(gh.Attention.random(16, seed=1))  # imports and BLAS threads are up before the clock runs
    each = [one_round(box, seed) for seed in range(rounds)]
    return {
        "rounds": each,
        "over_inside": median(r["recover_s"] / r["inside_s"] for r in each),
        "over_replay": median(r["recover_s"] / r["replay_s"] for r in each),
    }


def run(progress: Progress) -> dict[str, Any]:
    rows = []
    threads = sorted({1, os.cpu_count() or 1})
    for done, count in enumerate(threads):
        progress(done, len(threads), f"overhead, d = {DIM}, {count} threads")
        rows.append({"d": DIM, "threads": count} | measured(f"bench.overhead.child({DIM}, {ROUNDS})", count))
    return {"limits": {"ratio": LIMIT}, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        for name in ("over_inside", "over_replay"):
            if not row[name] <= LIMIT:
                yield f"overhead, d = {row['d']}, {row['threads']} threads: {name} = {row[name]:.3f} > {LIMIT}"
