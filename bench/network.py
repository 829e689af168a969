"""Two-layer networks weight by weight: how exactly, at how many queries; and boxes that are none, which are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Any

import numpy as np

import glasshead as gh

from .network_boxes import DIM, RIGHT_ON_SPHERES, WRONG, wrong_box

Progress = Callable[[int, int, str], None]

LIMIT = 1e-9  # the worst weight, relative to its neuron's
QUERIES = {16: 16_000, 32: 44_000, 64: 145_000}  # what the experiments took
SEEDS = 5
SIZES = {
    "gelu": {(16, 64): SEEDS, (32, 128): SEEDS, (64, 256): SEEDS},
    "swiglu": {(16, 42): SEEDS, (32, 85): SEEDS, (64, 170): SEEDS},
}
REFUSED_SEEDS = 6  # of each kind of wrong box, anywhere and on a sphere


def weight_error(target: gh.TwoLayer, found: gh.TwoLayer) -> float:
    """The worst neuron's error over its size: of the weights and bias in front of the activation, and of what comes
    behind, where of a gate only its products with output weights can be seen. Infinity for another set of neurons."""
    front, there = (np.c_[model.W1, model.b1] for model in (target, found))
    order = np.linalg.norm(front[:, None] - there[None], axis=2).argmin(axis=1)
    if len(front) != len(there) or len(set(order.tolist())) != len(front):
        return float("inf")
    behind, other = (np.einsum("km,md->mkd", model.W2, gates(model)) for model in (target, found))
    pairs = (front, there[order]), (behind.reshape(len(front), -1), other.reshape(len(front), -1)[order])
    worst = max(float((np.linalg.norm(a - b, axis=1) / np.linalg.norm(a, axis=1)).max()) for a, b in pairs)
    return max(worst, float(np.abs(target.b2 - found.b2).max() / np.abs(target.W2).max()))


def gates(model: gh.TwoLayer) -> np.ndarray:
    return np.ones((model.width, 1)) if model.gate is None else np.c_[model.gate, model.gate_bias]


def network(kind: str, d: int, m: int, seed: int) -> gh.TwoLayer:
    gated = kind == "swiglu"
    return gh.TwoLayer.random(d, m, activation="silu" if gated else kind, gated=gated, seed=seed)


def one(kind: str, d: int, m: int, seed: int, sphere: bool) -> dict[str, Any]:
    target, start = network(kind, d, m, seed), perf_counter()
    try:
        found = gh.recover_network(target, sphere=sphere, seed=seed)
    except gh.GlassheadError as refusal:
        return {"seed": seed, "refused": f"{type(refusal).__name__}: {refusal}"[:200]}
    return {
        "seed": seed,
        "error": weight_error(target, found.model),
        "residual": found.residual,
        "queries": found.queries,
        "seconds": perf_counter() - start,
    }


def row(kind: str, d: int, m: int, sphere: bool, runs: list[dict[str, Any]]) -> dict[str, Any]:
    done = [run for run in runs if "refused" not in run]
    return {
        "kind": kind,
        "d": d,
        "m": m,
        "sphere": sphere,
        "seeds": len(runs),
        "refused": len(runs) - len(done),
        "error": max((run["error"] for run in done), default=None),
        "queries": max((run["queries"] for run in done), default=None),
        "seconds": max((run["seconds"] for run in done), default=None),
        "runs": runs,
    }


def refused(name: str, seed: int, sphere: bool) -> dict[str, Any]:
    """What a wrong box was refused with, or that it was not."""
    try:
        found = gh.recover_network(wrong_box(name, seed), DIM, sphere=sphere, seed=seed)
    except gh.GlassheadError as refusal:
        return {"seed": seed, "sphere": sphere, "error": type(refusal).__name__, "words": str(refusal)[:160]}
    return {"seed": seed, "sphere": sphere, "error": None, "words": found.reason[:160]}


def wrong_boxes() -> Iterator[tuple[str, int, bool]]:
    for name in WRONG:
        for sphere in (False,) if name in RIGHT_ON_SPHERES else (False, True):
            for seed in range(REFUSED_SEEDS):
                yield name, seed, sphere


def run(progress: Progress) -> dict[str, Any]:
    sizes = [
        (kind, d, m, seeds, sphere) for kind in SIZES for (d, m), seeds in SIZES[kind].items() for sphere in (0, 1)
    ]
    boxes = list(wrong_boxes())
    total, done = sum(seeds for _, _, _, seeds, _ in sizes) + len(boxes), 0
    rows = []
    for kind, d, m, seeds, sphere in sizes:
        runs = []
        for seed in range(seeds):
            progress(done, total, f"{kind} ({d}, {m})")
            runs.append(one(kind, d, m, seed, bool(sphere)))
            done += 1
        rows.append(row(kind, d, m, bool(sphere), runs))
    wrong: dict[str, list[dict[str, Any]]] = {name: [] for name in WRONG}
    for name, seed, sphere in boxes:
        progress(done, total, f"wrong: {name}")
        wrong[name].append(refused(name, seed, sphere))
        done += 1
    limits = {"error": LIMIT, "queries": {str(d): most for d, most in QUERIES.items()}}
    return {"limits": limits, "rows": rows, "wrong": wrong}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        what = f"{row['kind']} ({row['d']}, {row['m']}), {'sphere' if row['sphere'] else 'anywhere'}"
        if row["refused"]:
            yield f"{what}: {row['refused']} of {row['seeds']} refused"
        if row["error"] is not None and not row["error"] <= LIMIT:
            yield f"{what}: error {row['error']:.1e} > {LIMIT:.0e}"
        if row["queries"] is not None and not row["queries"] <= QUERIES[row["d"]]:
            yield f"{what}: {row['queries']:,} queries > {QUERIES[row['d']]:,}"
    for name, runs in result["wrong"].items():
        if accepted := [run for run in runs if run["error"] is None]:
            yield f"wrong network accepted: {name}, {len(accepted)} of {len(runs)}"
