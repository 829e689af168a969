"""Whole layers computed in float16 and bfloat16: `nn.MultiheadAttention` cast to them, by dimension and heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from tests.red.box import Box
from tests.red.layers import bias_of, heads_of
from tests.red.run import attempt

import glasshead as gh

Progress = Callable[[int, int, str], None]
FORMATS = ("float16", "bfloat16")
LAYERS = ((4, 1), (8, 1), (16, 1), (32, 1), (64, 1), (8, 2), (16, 2), (32, 4), (64, 8))
EACH = 6  # boxes of each


def cast_layer(dim: int, heads: int, form: str, seed: int) -> Box:
    """A layer as torch makes it, all of it in that format; the last token's output, in numbers of float32."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    dtype = getattr(torch, form)
    layer = torch.nn.MultiheadAttention(dim, heads, batch_first=True).eval().to(dtype)
    parts = [gh.Attention(W, v, key_bias=key_bias) for W, key_bias, v in heads_of(layer)]
    truth = gh.MultiHead(parts, bias=bias_of(layer))

    def answer(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            x = torch.tensor(X).to(dtype)
            return layer(x[:, -1:], x, x, need_weights=False)[0][:, 0].float().numpy()

    count = len(gh.canonical(truth).heads)
    unit = float(torch.finfo(dtype).eps) / 2
    arguments = {"family": "auto", "seed": seed}
    return Box(answer, dim, truth, count, "either", arguments=arguments, expect="either", unit=unit)


def run(progress: Progress) -> dict[str, Any]:
    rows = []
    for place, (dim, heads) in enumerate(LAYERS):
        for form in FORMATS:
            progress(place, len(LAYERS), f"{heads} heads of dimension {dim}, {form}")
            outcomes = [attempt(cast_layer(dim, heads, form, seed), seed, {})[0] for seed in range(EACH)]
            counts = {name: outcomes.count(name) for name in ("right", "refused", "wrong")}
            rows.append({"dim": dim, "heads": heads, "format": form, "boxes": EACH} | counts)
    return {"rows": rows}


def told(rows: list[dict[str, Any]], dim: int, heads: int, form: str) -> str:
    """One cell of the table."""
    (row,) = (row for row in rows if (row["dim"], row["heads"], row["format"]) == (dim, heads, form))
    wrong = f", {row['wrong']} wrong" if row["wrong"] else ""
    return f"{row['right']} right, {row['boxes'] - row['right'] - row['wrong']} refused{wrong}"


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["rows"]:
        if row["right"] + row["refused"] < row["boxes"]:
            yield f"{row['dim']}, {row['heads']}, {row['format']}: neither right nor refused"
