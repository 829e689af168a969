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
QUIET = 1.2  # the load up to which several threads are worth timing: beyond it BLAS threads mostly wait for a core

Progress = Callable[[int, int, str], None]


class Stopwatch:
    """A box that times its answers, and right after each the same number of tokens that were built beforehand.

    Side by side, so that a machine that is busy for a while slows both. The second is no part of the recovery's time.
    """

    def __init__(self, box: gh.Attention):
        self.box, self.dim = box, box.dim
        self.inside = self.replay = self.aside = 0.0
        self.built: dict[int, np.ndarray] = {}

    def __call__(self, X: np.ndarray) -> np.ndarray:
        start = perf_counter()
        answers = self.box(X)
        answered = perf_counter()
        tokens = self.tokens(X.shape)
        ready = perf_counter()
        self.box(tokens)
        done = perf_counter()
        self.inside += answered - start
        self.replay += done - ready
        self.aside += done - answered
        return answers

    def tokens(self, shape: tuple[int, ...]) -> np.ndarray:
        count, length, dim = shape
        if length not in self.built or len(self.built[length]) < count:
            self.built[length] = np.random.default_rng(0).standard_normal((count, length, dim))
        return self.built[length][:count]


def one_round(box: gh.Attention, seed: int) -> dict[str, float]:
    """`recover_s`: the recovery; `inside_s`: of that, in the box; `replay_s`: the box on tokens built beforehand."""
    watch = Stopwatch(box)
    start = perf_counter()
    found = gh.recover(gh.ValueOracle(watch), seed=seed)
    whole = perf_counter() - start - watch.aside
    return {"recover_s": whole, "inside_s": watch.inside, "replay_s": watch.replay, "queries": found.queries}


def child(dim: int, rounds: int) -> dict[str, Any]:
    box = gh.Attention.random(dim, seed=1)
    gh.recover(gh.Attention.random(16, seed=1))  # imports and BLAS threads are up before the clock runs
    load = os.getloadavg()[0]
    each = [one_round(box, seed) for seed in range(rounds)]
    return {
        "load_before": load,
        "over_inside": median(r["recover_s"] / r["inside_s"] for r in each),
        "over_replay": median(r["recover_s"] / r["replay_s"] for r in each),
        "rounds": each,
    }


def run(progress: Progress) -> dict[str, Any]:
    """One thread always; all of them where the machine has nothing else to do."""
    rows, skipped = [], []
    counts = sorted({1, os.cpu_count() or 1})
    for done, threads in enumerate(counts):
        progress(done, len(counts), f"overhead, d = {DIM}, threads: {threads}")
        if threads > 1 and (load := os.getloadavg()[1]) > QUIET:
            skipped.append(f"threads: {threads}, the machine was busy, its load was {load:.1f}")
            continue
        rows.append({"d": DIM, "threads": threads} | measured(f"bench.overhead.child({DIM}, {ROUNDS})", threads))
    return {"limits": {"ratio": LIMIT}, "rows": rows, "skipped": skipped}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        for name in ("over_inside", "over_replay"):
            if not row[name] <= LIMIT:
                yield f"overhead, d = {row['d']}, threads: {row['threads']}: {name} = {row[name]:.3f} > {LIMIT}"
