"""Decoder blocks against the numbers asked for: a norm in front, rotary positions, shared heads, logits, and boxes
beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from tests.decoder.boxes import NEIGHBOURS, Decoder, Places, TorchBlock, llama_frequencies

import glasshead as gh

Progress = Callable[[int, int, str], None]
Made = Callable[[int], Any]

SEEDS, MANY = 5, 10
NEIGHBOUR_SEEDS = 14  # of each kind, with either norm: 308 boxes in all
FAR = 8  # places before the last token
MOST_OFF, MOST_FAR_OFF = 1e-9, 1e-7  # of frequencies, absolute, and of W so far away, of LLaMA types without sharing


def block(d: int, heads: int, **options: Any) -> Made:
    return lambda seed: Decoder(d, heads, seed=seed, **options)


def placed(d: int, heads: int, **options: Any) -> Made:
    return lambda seed: Places(d, heads, seed=seed, **options)


def torch_block(activation: str, dtype: str = "float64") -> Made:
    return lambda seed: TorchBlock(64, 4, 256, seed, activation, dtype)


GPT, ROTARY = {"norm": "layer", "network": "gelu", "eps": 1e-5}, {"theta": llama_frequencies(8)}

# Name, maker of boxes, seeds, the largest errors of W and of value maps, and how many may be refused.
ROWS: tuple[tuple[str, Made, int, float, float, int], ...] = (
    ("GPT-2 type (64, 4)", block(64, 4, **GPT), SEEDS, 1e-8, 1e-7, 0),
    ("GPT-2 type (96, 12)", block(96, 12, **GPT), SEEDS, 1e-8, 1e-7, 0),
    ("LLaMA type (64, 4), rotary", block(64, 4, **ROTARY), SEEDS, 1e-8, 1e-6, 0),
    ("LLaMA type (128, 8), rotary", block(128, 8, **ROTARY), SEEDS, 1e-8, 1e-6, 0),
    ("torch norm_first (64, 4, 256), relu", torch_block("relu"), MANY, 1e-8, 1e-7, 0),
    ("torch norm_first (64, 4, 256), gelu", torch_block("gelu"), MANY, 1e-8, 1e-7, 0),
    ("the same in float32", torch_block("gelu", "float32"), MANY, 2e-2, 2e-2, 2),
    ("torch norm_first, relu, float32", torch_block("relu", "float32"), MANY, 2e-2, 2e-2, 2),
    ("64: 4 heads on 2", block(64, 4, sharing=2), MANY, 1e-6, 1e-6, 1),
    ("96: 6 heads on 2", block(96, 6, sharing=3), MANY, 1e-6, 1e-6, 1),
    ("64: 4 heads on 1", block(64, 4, sharing=4), MANY, 1e-6, 1e-6, 1),
    ("64: 4 heads on 2, rotary", block(64, 4, sharing=2, **ROTARY), MANY, 1e-6, 1e-6, 1),
    ("96: 6 heads on 2, rotary", block(96, 6, sharing=3, **ROTARY), MANY, 1e-6, 1e-6, 1),
    ("64: 4 heads on 1, rotary", block(64, 4, sharing=4, **ROTARY), MANY, 1e-6, 1e-6, 1),
    ("logits (48, 3)", block(48, 3, final=96), MANY, 1e-6, 1e-6, 1),
    ("logits (48, 3), rotary", block(48, 3, final=96, **ROTARY), MANY, 1e-6, 1e-6, 1),
    ("logits, 64: 4 heads on 2, rotary", block(64, 4, sharing=2, final=128, **ROTARY), MANY, 1e-6, 1e-6, 1),
    ("logits behind LayerNorm (48, 3)", block(48, 3, final=96, **GPT), SEEDS, 1e-6, 1e-6, 0),
    ("slopes of scores (64, 4)", block(64, 4, slopes=2.0 ** -np.arange(1, 5)), SEEDS, 1e-8, 1e-7, 0),
    ("GPT-2 type (64, 4), position vectors", placed(64, 4, **GPT), SEEDS, 1e-8, 1e-7, 0),
    ("logits (48, 3), position vectors", placed(48, 3, final=96, **GPT), SEEDS, 1e-6, 1e-6, 0),
    ("32: 4 heads of rank 16, rotary", block(32, 4, rank=16, **ROTARY), SEEDS, 1e-5, 1e-6, 1),
    ("32: 4 heads of rank 16 on 2, rotary", block(32, 4, rank=16, sharing=2, **ROTARY), SEEDS, 1e-5, 1e-6, 1),
    ("network beside the heads (64, 4)", block(64, 4, parallel=True), SEEDS, 1e-8, 1e-7, 0),
)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def errors(found: gh.Block, box: Any) -> dict[str, float]:
    """Relative, of the worst head; frequencies in radians per place."""
    seen = np.eye(box.d) - found.free.T @ found.free
    apart = np.array([[relative(head.v, box.P(h) @ seen) for h in range(box.heads)] for head in found.heads])
    mine, true = linear_sum_assignment(apart)
    off = {"v": float(apart[mine, true].max()), "frequencies": 0.0, "far": 0.0, "E": 0.0}
    pairs = [(int(a), int(b)) for a, b in zip(mine, true, strict=True)]
    if found.rotary is None:
        off["W"] = max(relative(found.heads[a].W, box.W(b)) for a, b in pairs)
    else:
        off["W"] = max(relative(found.rotary.W(a, 1), box.W(b, 1)) for a, b in pairs)
        off["far"] = max(relative(found.rotary.W(a, FAR), box.W(b, FAR)) for a, b in pairs)
        each = [np.sort(frequencies) for frequencies in found.rotary.frequencies]
        same = all(len(one) == len(box.theta) for one in each)
        off["frequencies"] = max(np.abs(one - np.sort(box.theta)).max() for one in each) if same else np.inf
    if found.unembedding is not None:
        off["E"] = relative(found.unembedding, box.seen() @ (box.weights["gain"][2][:, None] * box.weights["E"]))
    return {name: float(value) for name, value in off.items()}


def attempt(box: Any) -> dict[str, Any]:
    dtype = getattr(box, "dtype", "float64")
    try:
        found = gh.recover(gh.ValueOracle(box, box.d, dtype=dtype))
    except gh.GlassheadError as refusal:
        return {"why": type(refusal).__name__}
    if found.family != "block" or found.heads != box.heads:
        return {"why": f"{found.heads} heads, {found.family}"}
    model, off = found.model, 0.0
    if isinstance(model, gh.Placed):
        seen = np.eye(box.d) - model.model.free.T @ model.model.free
        mine, true = (table - table[0] for table in (model.positions, box.table[: len(model.positions)]))
        off = relative(mine @ seen, true @ seen)
        model = model.model
    return errors(model, box) | {"why": "", "queries": found.queries, "limit": found.limit, "positions": off}


def run(progress: Progress) -> dict[str, Any]:
    rows, done = [], 0
    total = sum(row[2] for row in ROWS) + 2 * NEIGHBOUR_SEEDS * len(NEIGHBOURS)
    for name, made, seeds, most_W, most_v, spared in ROWS:
        runs = []
        for seed in range(seeds):
            runs.append(attempt(made(seed)))
            done += 1
            progress(done, total, name)
        good = [run for run in runs if not run["why"]]
        keys = ("W", "v", "frequencies", "far", "E", "queries", "limit", "positions")
        row = {key: max((run[key] for run in good), default=0) for key in keys}
        right = sum(run["W"] <= most_W and run["v"] <= most_v for run in good)
        refused = sorted({run["why"] for run in runs} - {""})
        rows.append({"box": name, "boxes": seeds, "right": right, "spared": spared, "refused": refused} | row)
    return {"rows": rows, "neighbours": list(neighbours(progress, done, total))}


def neighbours(progress: Progress, done: int, total: int) -> Iterable[dict[str, Any]]:
    """Boxes that are nearly such blocks, and how many of each kind were accepted."""
    for kind in NEIGHBOURS:
        accepted = 0
        for seed in range(NEIGHBOUR_SEEDS):
            for norm in ("rms", "layer"):
                try:
                    gh.recover(gh.ValueOracle(kind(24, 3, seed=seed, norm=norm), 24), family="block")
                    accepted += 1
                except gh.GlassheadError:
                    pass
                done += 1
                progress(done, total, kind.__name__)
        yield {"box": kind.__name__, "boxes": 2 * NEIGHBOUR_SEEDS, "accepted": accepted}


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        if row["right"] < row["boxes"] - row["spared"]:
            yield f"{row['box']}: {row['right']} of {row['boxes']} right"
        if row["box"].startswith("LLaMA") and (row["frequencies"] > MOST_OFF or row["far"] > MOST_FAR_OFF):
            yield f"{row['box']}: frequencies {row['frequencies']:.0e}, W(h, {FAR}) {row['far']:.0e}"
    if wrong := sum(row["accepted"] for row in result["neighbours"]):
        yield f"{wrong} boxes that are no such blocks were accepted"
