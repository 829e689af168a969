"""Two-layer ReLU networks: how exactly they are learned, in which precision, and at how many queries per parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import glasshead as gh

Progress = Callable[[int, int, str], None]

LIMITS = {"plain": 1e-9, "biased": 1e-8, "float32": 1e-4}
PER_PARAMETER = 1.6
LARGE = 1000  # weights in A: from here on the median number of queries per parameter has a limit without biases
SIZES = {
    "plain": {(4, 4): 5, (16, 8): 5, (8, 16): 5, (16, 64): 5, (32, 128): 5, (64, 256): 5, (128, 512): 5},
    "biased": {(16, 8): 4, (16, 32): 4, (64, 32): 4},
    "float32": {(16, 64): 50},
}
SCALINGS = {"standard": lambda d: 1.0, "by dimension": lambda d: d**-0.5}
FRESH = 10_000


@dataclass
class Box:
    """Gaussian weights, A times `scale`; evaluated in the precision of the kind, its own time measured."""

    A: np.ndarray
    w: np.ndarray
    b: np.ndarray
    c: float
    seconds: float = 0.0

    def __call__(self, x: np.ndarray) -> np.ndarray:
        start = perf_counter()
        answers = np.maximum(x.astype(self.A.dtype) @ self.A + self.b, 0) @ self.w + self.c
        self.seconds += perf_counter() - start
        return answers


def box(kind: str, d: int, m: int, seed: int, scaling: str = "standard") -> Box:
    rng = np.random.default_rng([d, m, seed])
    A, w, b = SCALINGS[scaling](d) * rng.standard_normal((d, m)), rng.standard_normal(m), rng.standard_normal(m)
    dtype = np.float32 if kind == "float32" else np.float64
    biased = kind == "biased"
    return Box(A.astype(dtype), w.astype(dtype), (biased * b).astype(dtype), dtype(biased * rng.standard_normal()))


def error(target: Box, found: Callable) -> float:
    x = np.random.default_rng(777).standard_normal((FRESH, len(target.A)))
    true = np.maximum(x @ target.A.astype(float) + target.b, 0) @ target.w.astype(float) + float(target.c)
    return float(np.abs(found(x) - true).max() / np.abs(true).max())


def one(kind: str, d: int, m: int, seed: int, scaling: str) -> dict[str, Any]:
    target = box(kind, d, m, seed, scaling)
    start = perf_counter()
    try:
        found = gh.recover_relu(target, d, seed=seed)
    except gh.GlassheadError as refusal:
        return {"seed": seed, "refused": f"{type(refusal).__name__}: {refusal}"[:200]}
    seconds, inside = perf_counter() - start, target.seconds
    parameters = m * (d + 1) + d + 1 if kind == "biased" else m * d + d
    return {
        "seed": seed,
        "error": error(target, found),
        "residual": found.residual,
        "queries": found.queries,
        "per_parameter": found.queries / parameters,
        "extra_neurons": found.width - m,
        "seconds": seconds,
        "seconds_in_box": inside,
    }


def row(kind: str, d: int, m: int, scaling: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    done = [run for run in runs if "refused" not in run]
    per = [run["per_parameter"] for run in done]
    return {
        "kind": kind,
        "d": d,
        "m": m,
        "weights": scaling,
        "seeds": len(runs),
        "refused": len(runs) - len(done),
        "error_max": max((run["error"] for run in done), default=None),
        "error_median": median(run["error"] for run in done) if done else None,
        "per_parameter_median": median(per) if done else None,
        "per_parameter_max": max(per, default=None),
        "extra_neurons": sorted({run["extra_neurons"] for run in done}),
        "seconds_median": median(run["seconds"] for run in done) if done else None,
        "seconds_in_box_median": median(run["seconds_in_box"] for run in done) if done else None,
        "runs": runs,
    }


def tasks() -> Iterator[tuple[str, int, int, str, int]]:
    for kind, sizes in SIZES.items():
        for (d, m), seeds in sizes.items():
            for scaling in SCALINGS if kind == "plain" and m * d <= 5000 else ("standard",):
                yield kind, d, m, scaling, seeds


def run(progress: Progress) -> dict[str, Any]:
    rows, total, done = [], sum(seeds for *_, seeds in tasks()), 0
    for kind, d, m, scaling, seeds in tasks():
        runs = []
        for seed in range(seeds):
            progress(done, total, f"ReLU {kind} ({d}, {m}), weights {scaling}")
            runs.append(one(kind, d, m, seed, scaling))
            done += 1
        rows.append(row(kind, d, m, scaling, runs))
    return {"limits": LIMITS | {"per_parameter": PER_PARAMETER}, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit. In float32 a refusal is allowed, a wrong network is not."""
    for row in result["rows"]:
        what, limit = f"ReLU {row['kind']} ({row['d']}, {row['m']}), weights {row['weights']}", LIMITS[row["kind"]]
        if row["refused"] and row["kind"] != "float32":
            yield f"{what}: {row['refused']} of {row['seeds']} refused"
        if row["error_max"] is not None and not row["error_max"] <= limit:
            yield f"{what}: error {row['error_max']:.1e} > {limit:.0e}"
        spent = {"plain": row["per_parameter_median"], "biased": row["per_parameter_max"]}.get(row["kind"])
        large = row["kind"] == "biased" or row["m"] * row["d"] >= LARGE
        if large and spent is not None and not spent <= PER_PARAMETER:
            yield f"{what}: {spent:.2f} queries per parameter > {PER_PARAMETER}"
