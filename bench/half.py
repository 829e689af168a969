"""Answers in float16 and bfloat16: plain heads whose answers alone are rounded to them, with and without biases; and
whole layers computed in them, `nn.MultiheadAttention` cast, by dimension and heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
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
DIMS, HEADS_EACH, OFTEN = (4, 8, 16, 32), 20, 0.95
WITHIN = {"float16": 1e-2, "bfloat16": 5e-2}  # of `||W||_F`: the largest error of a head that counts as recovered
ROUNDED = {"float16": gh.defences.half, "bfloat16": gh.defences.bfloat16}


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


def random_head(dim: int, biased: bool, seed: int) -> gh.Attention:
    """A random head; a bias is standard normal, and so is three times an entry of a key bias."""
    head, rng = gh.Attention.random(dim, seed=seed), np.random.default_rng(seed)
    key_bias, bias = rng.standard_normal(dim) / 3, rng.standard_normal()
    return gh.Attention(head.W, head.v, key_bias=key_bias, bias=bias) if biased else head


def heads_of_answers(dim: int, biased: bool, form: str) -> dict[str, Any]:
    """How many plain heads are recovered, and how: errors and bounds relative to the norm of W."""
    errors, bounds, queries = [], [], []
    for seed in range(HEADS_EACH):
        truth = random_head(dim, biased, seed)
        try:
            found = gh.recover(gh.ValueOracle(ROUNDED[form](truth), dim), seed=seed)
        except gh.GlassheadError:
            continue
        size = float(np.linalg.norm(truth.W))
        errors.append(float(np.linalg.norm(found.model.W - truth.W)) / size)
        bounds.append(found.bound / size)
        queries.append(found.queries)
    counts = {
        "recovered": sum(error < WITHIN[form] for error in errors),
        "broken": sum(error > bound for error, bound in zip(errors, bounds, strict=True)),
    }
    typical = {"error": float(np.median(errors)), "bound": float(np.median(bounds)), "queries": int(np.median(queries))}
    return {"dim": dim, "biased": biased, "format": form, "boxes": HEADS_EACH} | counts | typical


def run(progress: Progress) -> dict[str, Any]:
    rows, kinds = [], list(product(DIMS, (False, True), FORMATS))
    for place, kind in enumerate(kinds):
        progress(place, len(kinds), f"heads of dimension {kind[0]}, {kind[2]} answers")
        rows.append(heads_of_answers(*kind))
    return {"heads": rows} | run_layers(progress)


def run_layers(progress: Progress) -> dict[str, Any]:
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


def told_heads(rows: list[dict[str, Any]], dim: int, biased: bool, form: str) -> tuple[str, ...]:
    """Four cells of the table of heads: recovered, error, bound and queries."""
    wanted = (dim, biased, form)
    (row,) = (row for row in rows if (row["dim"], row["biased"], row["format"]) == wanted)
    return f"{row['recovered']} of {row['boxes']}", f"{row['error']:.2%}", f"{row['bound']:.0%}", f"{row['queries']:,}"


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["heads"]:
        if row["broken"] or row["recovered"] < OFTEN * row["boxes"]:
            yield f"heads of dimension {row['dim']}, {row['format']}: a broken bound, or too few recovered"
    for row in result["rows"]:
        if row["right"] + row["refused"] < row["boxes"]:
            yield f"{row['dim']}, {row['heads']}, {row['format']}: neither right nor refused"
