"""Whole encoder blocks against the numbers asked for: random ones, torch's own, variants, and boxes beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
from tests.block.boxes import NEIGHBOURS, Box, HardlyCapped, torch_layer

import glasshead as gh

Progress = Callable[[int, int, str], None]
Made = tuple[gh.ValueOracle, gh.Block]

SEEDS, TORCH_SEEDS = 5, 10
NEIGHBOUR_SEEDS = 17  # of each kind, with and without a norm: 306 boxes in all
FEW_DIGITS_SEEDS = 3  # of each kind, in float32
FEW_DIGITS_REFUSED = 2  # boxes in float32, at most


def box_of(*args: Any, **options: Any) -> Callable[[int], Made]:
    """Makes the box with a seed, and its heads."""

    def made(seed: int) -> Made:
        box = Box(*args, seed, **options)
        return box.oracle, box.truth

    return made


def torch_of(
    activation: str, sizes: tuple[int, int, int] = (64, 4, 256), dtype: str = "float64"
) -> Callable[[int], Made]:
    return lambda seed: torch_layer(*sizes, seed, activation, dtype)[1:]


def promised(made: Callable[[int], Made], digits: int) -> Callable[[int], Made]:
    """The box with its answers rounded, and a promise that says so."""

    def rounded(seed: int) -> Made:
        box, truth = made(seed)
        tolerance = 10.0**-digits / 2
        return gh.ValueOracle(lambda X: np.round(box(X), digits), box.dim, tolerance=tolerance), truth

    return rounded


# Name, makers of boxes, seeds, and the largest errors of W (with key biases) and of value maps.
ROWS: tuple[tuple[str, Callable[[int], Made], int, float, float], ...] = (
    ("no norm (32, 4)", box_of(32, (8,) * 4, first="none", last="none"), SEEDS, 1e-9, 1e-9),
    ("no norm (64, 8)", box_of(64, (8,) * 8, first="none", last="none"), SEEDS, 1e-9, 1e-9),
    ("torch (64, 4, 256), relu", torch_of("relu"), TORCH_SEEDS, 1e-8, 1e-7),
    ("torch (64, 4, 256), gelu", torch_of("gelu"), TORCH_SEEDS, 1e-8, 1e-7),
    ("torch (64, 4, 256), gelu, float32", torch_of("gelu", dtype="float32"), TORCH_SEEDS, 2e-2, 2e-2),
    ("torch (32, 4, 64), gelu, float32", torch_of("gelu", (32, 4, 64), "float32"), TORCH_SEEDS, 2e-2, 2e-2),
    ("torch (64, 4, 256), relu, float32", torch_of("relu", dtype="float32"), TORCH_SEEDS, 2e-2, 2e-2),
    ("torch (32, 4, 64), relu, float32", torch_of("relu", (32, 4, 64), "float32"), TORCH_SEEDS, 2e-2, 2e-2),
    ("torch (32, 4, 64), gelu, 12 decimals", promised(torch_of("gelu", (32, 4, 64)), 12), SEEDS, 1e-5, 1e-5),
    ("torch (32, 4, 64), gelu, 8 decimals", promised(torch_of("gelu", (32, 4, 64)), 8), SEEDS, 2e-2, 2e-2),
    ("ranks that add up to less than d", box_of(48, (9, 9, 9, 9)), SEEDS, 1e-7, 1e-7),
    ("unequal ranks", box_of(48, (8, 10, 14, 16)), SEEDS, 1e-7, 1e-7),
    ("RMSNorm", box_of(48, (12,) * 4, first="rms", last="rms"), SEEDS, 1e-7, 1e-7),
    ("LayerNorm, eps 1e-5", box_of(48, (12,) * 4), SEEDS, 1e-7, 1e-7),
    ("a norm only behind the network", box_of(48, (12,) * 4, first="none"), SEEDS, 1e-7, 1e-7),
    ("muted outputs", box_of(48, (12,) * 4, muted=2), SEEDS, 1e-7, 1e-7),
    ("one head", box_of(48, (48,)), SEEDS, 1e-7, 1e-7),
)


def errors(found: gh.Block, truth: gh.Block) -> tuple[float, float, float]:
    """Of W and of the value maps, relative, of the worst head; and the largest of W."""
    keep = np.eye(found.dim) - found.free.T @ found.free
    of_W, of_v, most = 0.0, 0.0, 0.0
    for head in truth.heads:
        v = head.v @ keep
        mate = min(found.heads, key=lambda other: float(np.linalg.norm(other.v - v)))
        off = float(np.linalg.norm(mate.W - head.W))
        of_W, most = max(of_W, off / float(np.linalg.norm(head.W))), max(most, off)
        of_v = max(of_v, float(np.linalg.norm(mate.v - v) / np.linalg.norm(v)))
    return of_W, of_v, most


def attempt(oracle: gh.ValueOracle, truth: gh.Block) -> dict[str, Any]:
    try:
        found = gh.recover(oracle)
    except gh.GlassheadError as refusal:
        return {"why": type(refusal).__name__}
    if found.family != "block" or found.heads != len(truth.heads):
        return {"why": f"{found.heads} heads, {found.family}"}
    of_W, of_v, most = errors(found.model, truth)
    used = most / found.bound if found.bound else np.inf
    return {"why": "", "W": of_W, "v": of_v, "used": used, "queries": found.queries, "limit": found.limit}


def run(progress: Progress) -> dict[str, Any]:
    rows, done = [], 0
    total = sum(seeds for _, _, seeds, _, _ in ROWS) + 2 * (NEIGHBOUR_SEEDS + FEW_DIGITS_SEEDS) * len(NEIGHBOURS)
    for name, made, seeds, most_W, most_v in ROWS:
        runs = []
        for seed in range(seeds):
            runs.append(attempt(*made(seed)))
            done += 1
            progress(done, total, name)
        good = [run for run in runs if not run["why"]]
        row = {key: max((run[key] for run in good), default=0) for key in ("W", "v", "used", "queries", "limit")}
        right = sum(run["W"] <= most_W and run["v"] <= most_v for run in good)
        why = sorted({run["why"] for run in runs} - {""})
        rows.append({"box": name, "boxes": seeds, "right": right, "refused": why, "most": (most_W, most_v)} | row)
    return {"rows": rows, "neighbours": list(neighbours(progress, done, total))}


def neighbours(progress: Progress, done: int, total: int) -> Iterable[dict[str, Any]]:
    """Boxes that are nearly blocks, and how many of each kind were accepted."""
    single: dict[str, Any] = {"box": "all of these in float32, but HardlyCapped", "boxes": 0, "accepted": 0}
    for kind in NEIGHBOURS:
        row: dict[str, Any] = {"box": kind.__name__, "boxes": 0, "accepted": 0}
        few = 0 if kind is HardlyCapped else FEW_DIGITS_SEEDS  # a millionth of a score is below the digits of float32
        for dtype, seeds, count in (("float64", NEIGHBOUR_SEEDS, row), ("float32", few, single)):
            for seed, norm in product(range(seeds), ("none", "layer")):
                count["boxes"] += 1
                with suppress(gh.GlassheadError):
                    gh.recover(kind(16, (8, 8), seed, first=norm, last=norm, dtype=dtype).oracle, family="block")
                    count["accepted"] += 1
                done += 1
                progress(done, total, kind.__name__)
        yield row
    yield single


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        spared = FEW_DIGITS_REFUSED if "float32" in row["box"] else 0
        if row["right"] < row["boxes"] - spared:
            yield f"{row['box']}: {row['right']} of {row['boxes']} right"
        if row["used"] >= 1:
            yield f"{row['box']}: an error of W is {row['used']:.2g} times its bound"
    if wrong := sum(row["accepted"] for row in result["neighbours"]):
        yield f"{wrong} boxes that are no blocks were accepted"
