"""Heads that cannot be told apart one by one: values parallel, scores proportional, more heads than dimensions, tokens
too short to saturate them.

`python -m bench.run --only together` writes `bench/results/together.json`. Every box goes through `gh.recover`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy as np

import glasshead as gh

from .multi_head import layer

Progress = Callable[[int, int, str], None]
Row = dict[str, Any]

SEEDS, FEWER = 10, 5
LIMIT = 1e-8  # of every W and v, relative
SINGLE = 1e-3
SIZES = (8, 3, 2), (16, 4, 4), (32, 6, 8)
CROWDED = {(4, 8, 4): 5, (8, 16, 8): 5, (16, 16, 1): 5, (16, 32, 2): 5, (24, 40, 4): 2}  # d, H, r and boxes
BOTH = {(96, 12, 8): 2, (24, 40, 4): 2}  # heads that are many, and hide as well
SHORT = 3.0, 10.0, 30.0, 100.0, 1000.0  # max_norm


def changed(model: gh.MultiHead, h: int, *, factor: float | None = None, v: np.ndarray | None = None) -> gh.MultiHead:
    """Head h with the scores of the first head times a factor, or with another v."""
    heads = list(model.heads)
    old, first = heads[h], heads[0]
    W, key_bias = (old.W, old.key_bias) if factor is None else (factor * first.W, factor * first.key_bias)
    heads[h] = gh.Attention(W, old.v if v is None else v, key_bias=key_bias)
    return gh.MultiHead(heads, bias=model.bias)


def all_parallel(model: gh.MultiHead) -> gh.MultiHead:
    factors = np.random.default_rng(0).uniform(-2, 2, len(model.heads))
    for h in range(1, len(model.heads)):
        model = changed(model, h, v=factors[h] * model.heads[0].v)
    return model


HIDDEN: dict[str, Callable[[gh.MultiHead], gh.MultiHead]] = {
    "two equal v": lambda m: changed(m, 1, v=m.heads[0].v),
    "two opposite v": lambda m: changed(m, 1, v=-m.heads[0].v),
    "a v that is the sum of two others": lambda m: changed(m, 2, v=m.heads[0].v + m.heads[1].v),
    "all v parallel": all_parallel,
    "twice the scores": lambda m: changed(m, 1, factor=2.0),
    "opposite scores": lambda m: changed(m, 1, factor=-1.0),
    "scores times 1, 2 and -0.6": lambda m: changed(changed(m, 1, factor=2.0), 2, factor=-0.6),
    "twice the scores, opposite v": lambda m: changed(m, 1, factor=2.0, v=-m.heads[0].v),
    "two equal v, and a head that takes the mean": lambda m: changed(changed(m, 1, factor=0.0), 2, v=m.heads[0].v),
}


def recovered(target: gh.MultiHead, seed: int, **promise) -> Row:
    """One box: how far off, or why not, and its queries."""
    oracle, start = gh.ValueOracle(target, **promise), perf_counter()
    row: Row = {"seed": seed, "error": None, "refused": None}
    try:
        found = gh.recover(oracle, family="multi-head", seed=seed)
        row |= {"error": float(gh.distance(found.model, target)), "limit": found.limit}
    except gh.GlassheadError as error:
        row["refused"] = f"{type(error).__name__}: {error}"
    return row | {"queries": oracle.queries, "seconds": round(perf_counter() - start, 2)}


def summary(what: str, size: tuple[int, int, int], rows: list[Row]) -> Row:
    done = [row for row in rows if row["refused"] is None]
    errors, seconds = [row["error"] for row in done], [row["seconds"] for row in rows]
    return {
        "what": what,
        "size": list(size),
        "boxes": len(rows),
        "recovered": len(done),
        "error": max(errors, default=None),
        "median": float(np.median(errors)) if errors else None,
        "queries": float(np.median([row["queries"] for row in rows])),
        "ratio": float(np.median([row["queries"] / row["limit"] for row in done])) if done else None,
        "seconds": float(np.median(seconds)),
        "refusals": sorted({row["refused"] for row in rows if row["refused"]}),
    }


def run(progress: Progress) -> dict[str, Any]:
    planned = len(HIDDEN) + len(CROWDED) + len(SHORT) + 2
    result: dict[str, Any] = {"limits": {"error": LIMIT, "float32": SINGLE}, "hidden": [], "crowded": [], "short": []}
    for done, (name, change) in enumerate(HIDDEN.items()):
        progress(done, planned, f"together: {name}")
        for size in SIZES:
            rows = [recovered(change(layer(*size, seed)), seed) for seed in range(SEEDS)]
            result["hidden"].append(summary(name, size, rows))
    for done, (size, boxes) in enumerate(CROWDED.items(), start=len(HIDDEN)):
        progress(done, planned, f"together: {size[1]} heads in dimension {size[0]}")
        rows = [recovered(layer(*size, seed), seed) for seed in range(boxes)]
        result["crowded"].append(summary("Gaussian", size, rows))
    progress(planned - len(SHORT) - 2, planned, "together: many that hide")
    for name in ("two equal v", "twice the scores"):
        for size, boxes in BOTH.items():
            rows = [recovered(HIDDEN[name](layer(*size, seed)), seed) for seed in range(boxes)]
            result["crowded"].append(summary(name, size, rows))
    for done, most in enumerate(SHORT, start=planned - len(SHORT) - 1):
        progress(done, planned, f"together: max_norm = {most:g}")
        for size in SIZES:
            rows = [recovered(layer(*size, seed), seed, max_norm=most) for seed in range(FEWER)]
            result["short"].append({"max_norm": most} | summary("Gaussian", size, rows))
    progress(planned - 1, planned, "together: float32")
    change = HIDDEN["twice the scores"]
    rows = [recovered(change(layer(16, 4, 4, seed)), seed, dtype="float32") for seed in range(2 * SEEDS)]
    result["float32"] = summary("twice the scores", (16, 4, 4), rows)
    return result


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every box that was recovered wrongly, and where most are refused that should not be."""
    limits = result["limits"]
    for row in result["hidden"] + result["crowded"] + result["short"]:
        if row["error"] is not None and not row["error"] <= limits["error"]:
            yield f"{row['what']}, {row['size']}: off by {row['error']:.1e}"
    for row in result["hidden"] + [row for row in result["crowded"] if row["what"] == "Gaussian"]:
        if not row["recovered"] > row["boxes"] / 2:
            yield f"{row['what']}, {row['size']}: {row['recovered']} of {row['boxes']} recovered"
    single = result["float32"]["error"]
    if single is not None and not single <= limits["float32"]:
        yield f"float32: off by {single:.1e}"
