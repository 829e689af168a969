"""Blocks of SmolLM2-135M, a published LLaMA of 576 dimensions, taken apart from their answers alone: see
`examples/smollm2.py` for what has to be installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy as np
from examples.smollm2 import SmolBlock, relative
from scipy.optimize import linear_sum_assignment

import glasshead as gh

Progress = Callable[[int, int, str], None]

BLOCKS = 0, 14
FAR = 8  # places before the last token
MOST_OFF = 1e-4  # of W and of value maps


def row_of(index: int, found: gh.Block, queries: int, seconds: float, places: int) -> dict[str, Any]:
    """Relative errors of the worst head; keys were read at so many places."""
    block = SmolBlock.load(index)
    off = np.array([[relative(head.v, block.value_map(h)) for h in range(block.heads)] for head in found.heads])
    pairs = [(int(mine), int(true)) for mine, true in zip(*linear_sum_assignment(off), strict=True)]
    far = {t: max(relative(found.rotary.W(mine, t), block.W(true, t)) for mine, true in pairs) for t in (1, FAR)}
    apart = [np.sort(found.rotary.frequencies[mine])[::-1] - block.frequencies for mine, _ in pairs]
    return {
        "block": index,
        "heads": len(found.heads),
        "v": float(max(off[pair] for pair in pairs)),
        "W": far[1],
        "far": far[FAR],
        "frequencies": float(np.abs(apart).max()),
        "queries": queries,
        "seconds": round(seconds),
        "places": places,
    }


def run(progress: Progress) -> dict[str, Any]:
    from glasshead._learners.block.decoder.learn import MOST_OFFSETS

    rows = []
    for done, index in enumerate(BLOCKS):
        progress(done, len(BLOCKS), f"block {index}")
        block, start = SmolBlock.load(index), perf_counter()
        found = gh.recover(gh.ValueOracle(block, dim=block.dim), family="block")
        rows.append(row_of(index, found.model, found.queries, perf_counter() - start, MOST_OFFSETS))
    return {"rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        if max(row["W"], row["v"]) > MOST_OFF:
            yield f"block {row['block']}: W {row['W']:.0e}, value maps {row['v']:.0e}"
