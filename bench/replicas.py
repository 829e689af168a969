"""Replicas of a box on Ray: how much faster two are than one where the box is slow, and whether a recovery is the same,
bit for bit, where a replica is killed in the middle."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np
import ray
from tests.boxes.replicated import Mortal, one_by_one, same, seen_in

import glasshead as gh

Progress = Callable[[int, int, str], None]

SECONDS = 1e-3  # that a box sleeps for each query
# Dimensions, and how many times as fast is promised: half the batches that a small head is asked have one to three
# sequences, which are hard to share.
DIMS: tuple[tuple[int, float | None], ...] = ((32, None), (64, 1.7))
REPLICAS, ROUNDS = 2, 3  # recoveries with one replica and with these; the times are those of the median
KILLS, SMALL = 10, 8  # recoveries in each of which a replica is killed, and their dimension


class Slow:
    """A head that sleeps."""

    def __init__(self, dim: int) -> None:
        self.head = gh.Attention.random(dim, seed=1)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        sleep(SECONDS * len(X))
        return self.head(X)


def speed(dim: int, least: float | None) -> dict[str, Any]:
    oracles = {count: gh.from_ray(partial(Slow, dim), dim, count) for count in (1, REPLICAS)}
    seconds: dict[int, list[float]] = {count: [] for count in oracles}
    queries = 0
    for _ in range(ROUNDS):
        for count, oracle in oracles.items():
            start = perf_counter()
            queries = gh.recover(oracle).queries - oracle.looked
            seconds[count].append(perf_counter() - start)
    one, several = (statistics.median(seconds[count]) for count in oracles)
    times = statistics.median(a / b for a, b in zip(*seconds.values(), strict=True))
    return {"dim": dim, "queries": queries, "one": one, "several": several, "times": times, "least": least}


def killed(seed: int, local: gh.Recovery) -> dict[str, int]:
    """A recovery in which one of two replicas is killed at a random batch, while it is asked."""
    rng, batches = random.Random(seed), 0
    with TemporaryDirectory() as folder:
        oracle = gh.from_ray(lambda: Mortal(folder, life=10**9), SMALL, REPLICAS)
        when, whom = rng.randrange(5, 30), rng.randrange(REPLICAS)

        def box(X: np.ndarray) -> np.ndarray:
            nonlocal batches
            batches += 1
            if batches == when:
                ray.kill(oracle._f._actors[whom], no_restart=False)  # type: ignore[attr-defined]
            return oracle(X)

        found = gh.recover(gh.ValueOracle(box, SMALL))
        answered, sent, seen = oracle.queries - oracle.resent, oracle.queries, seen_in(Path(folder))
        oracle.close()
    return {
        "same": int(same(found, local)),
        "lost": int(answered != found.queries + oracle.looked),
        "resent": oracle.resent,
        "uncounted": max(0, seen - sent),
    }


def run(progress: Progress) -> dict[str, Any]:
    keeper = gh.from_ray(lambda: one_by_one, SMALL, 1)  # so that the cluster stays
    fast, total = [], len(DIMS) + KILLS
    for done, (dim, least) in enumerate(DIMS):
        progress(done, total, f"{REPLICAS} replicas, d = {dim}")
        fast.append(speed(dim, least))
    local, rows = gh.recover(gh.ValueOracle(one_by_one, SMALL)), []
    for seed in range(KILLS):
        progress(len(DIMS) + seed, total, "a replica is killed")
        rows.append(killed(seed, local))
    keeper.close()
    sums = {name: sum(row[name] for row in rows) for name in rows[0]}
    said = {"ray": ray.__version__, "seconds_each": SECONDS, "replicas": REPLICAS}
    return said | {"speed": fast, "killed": {"runs": KILLS} | sums}


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["speed"]:
        if row["least"] is not None and row["times"] < row["least"]:
            words = f"{result['replicas']} replicas are {row['times']:.2f} times as fast as one"
            yield f"d = {row['dim']}: {words}, less than {row['least']}"
    kills = result["killed"]
    if kills["same"] != kills["runs"]:
        yield f"{kills['same']} of {kills['runs']} recoveries with a replica killed are the same"
    for name in ("lost", "uncounted"):
        if kills[name]:
            yield f"{kills[name]} batches or attempts of recoveries with a replica killed are {name}"
