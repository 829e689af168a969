"""How many measurements recovery takes: the probability of success against m / dof, nuclear norm and fixed rank.

    python -m bench.sensing.phase [minutes]

Every finished cell is saved at once, and a later run goes on from there.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two workers, one core each

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import product

from glasshead import sensing

from .instances import Instance, dof, instance, load, machine, save

RECOVERED = 1e-5
# Nuclear norm: (dim, seeds). One seed gives one threshold, so the seeds are the resolution of the curve.
SQUARES = ((16, 40), (32, 40), (64, 20), (96, 8))
RANKS = (1, 2, 4, 8)
# Fixed rank: trials per ratio m / dof.
RATIOS = (1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5)
TRIALS = 20


def nuclear_threshold(dim: int, rank: int, seed: int) -> float:
    """The smallest m / dof at which the nuclear norm recovers W, to 2%.

    One number says it all: more measurements leave fewer matrices that fit, so a W that is the minimiser stays it.
    """
    everything = instance(dim, rank, dim * dim, seed)
    fails, works = 1.0, dim * dim / dof(dim, rank)
    guess = min(1.5 + 1.5 * (1 - rank / dim) ** 8, 0.5 * (fails + works))
    while works - fails > 0.02:
        if nuclear_recovers(everything.first(round(guess * dof(dim, rank)))):
            works = guess
        else:
            fails = guess
        guess = max(0.5 * (fails + works), works - 0.3) if fails == 1.0 else min(0.5 * (fails + works), fails + 0.3)
    return works


def nuclear_recovers(data: Instance) -> bool:
    found = sensing.nuclear_norm(data.A, data.B, data.t, tol=1e-6, max_iterations=500)
    return data.error(found.W) < RECOVERED


def fixed_rank_successes(dim: int, rank: int, ratio: float) -> int:
    m = round(ratio * dof(dim, rank))
    trials = (instance(dim, rank, m, seed) for seed in range(TRIALS))
    return sum(data.error(sensing.fixed_rank(*data[1:], rank).W) < RECOVERED for data in trials)


def cells() -> Iterator[tuple[str, partial]]:
    for dim, rank, ratio in product((16, 32, 64), RANKS, RATIOS):
        yield f"fixed {dim} {rank} {ratio}", partial(fixed_rank_successes, dim, rank, ratio)
    for seed, (dim, seeds), rank in product(range(max(s for _, s in SQUARES)), SQUARES, RANKS):
        if seed < seeds:
            yield f"nuclear {dim} {rank} {seed}", partial(nuclear_threshold, dim, rank, seed)


def main(minutes: float) -> None:
    content = load("phase") or {"recovered_below": RECOVERED, "trials": TRIALS, "cells": {}}
    content["machine"] = machine()
    todo = [(name, work) for name, work in cells() if name not in content["cells"]]
    deadline = time.monotonic() + 60 * minutes
    with ProcessPoolExecutor(2) as pool:
        running = {pool.submit(work): name for name, work in todo}
        for done, future in enumerate(as_completed(running), 1):
            content["cells"][running[future]] = future.result()
            save("phase", content)
            print(f"{done}/{len(todo)} {running[future]}: {future.result()}", file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                pool.shutdown(cancel_futures=True)
                print("time is up: run it again to go on", file=sys.stderr)
                break


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 6.0)
