"""Vector answers: one head, whole layers, published layers and float32 boxes, against the numbers asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from examples.minilm import minilm_layer

import glasshead as gh
from glasshead._checks.held_out import check_held_out_vector
from glasshead._learners.heads.vector.learn import learn_vector, learn_vector_attention
from glasshead._learners.heads.vector.spaces import NeedsScalarRoute

from .fresh import measured

Progress = Callable[[int, int, str], None]

ONE_HEAD = {"error": 1e-9, "queries": 3 * 64 + 104}
PUBLISHED = {"error": 1e-8, "queries": 2500}
LAYER = {"error": 1e-9}
NARROW = {"error": 1e-3}
SEEDS, FEWER_SEEDS, NARROW_SEEDS = 10, 5, 20
SHAPES = ((64, 16, None, None), (64, 16, 8, None), (64, 2, None, None), (64, 64, None, 8), (64, 64, 8, None))
LAYERS = ((32, 4), (64, 8), (96, 12))
ALBERT = "models/transformers/albert_heads_8_uspto_all_1310k/pytorch_model.bin"


def head(d: int, k: int, rank, value_rank, biases: float, seed: int, dtype="float64") -> gh.Attention:
    rng = np.random.default_rng([d, k, seed])
    W, v = product(d, d, rank or d, rng), product(d, k, value_rank or min(d, k), rng)
    key_bias, bias = biases * rng.standard_normal(d), cast(Any, biases * rng.standard_normal(k))
    return gh.Attention(W.astype(dtype), v.astype(dtype), key_bias=key_bias if biases else None, bias=bias)


def product(rows: int, columns: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns)) / np.sqrt(rank)


def layer(d: int, heads: int, biases: float, seed: int) -> gh.MultiHead:
    rng = np.random.default_rng([d, heads, seed])
    Q, K, V, W_o = rng.standard_normal((4, d, d)) / np.sqrt(d)
    q, v, o = biases * rng.standard_normal((3, d))
    return gh.MultiHead.from_projections(2 * Q, 2 * K, V, W_o, heads, q_bias=q, v_bias=v, o_bias=o)


def albert_layer() -> gh.MultiHead:
    """The attention that all layers of rxnmapper's ALBERT share: 8 heads of rank 32 in dimension 256."""
    import torch

    package = find_spec("rxnmapper")
    folders = package.submodule_search_locations if package else None
    assert folders, "expected the published weights; get them with: pip install --no-deps rxnmapper==0.4.3"
    state = torch.load(Path(folders[0]) / ALBERT, weights_only=True, map_location="cpu")
    prefix = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention."
    part = {name.removeprefix(prefix): tensor.double().numpy() for name, tensor in state.items() if prefix in name}
    Q, K, V, W_o = (part[f"{name}.weight"] for name in ("query", "key", "value", "dense"))
    q, v, o = (part[f"{name}.bias"] for name in ("query", "value", "dense"))
    return gh.MultiHead.from_projections(Q, K, V, W_o, 8, q_bias=q, v_bias=v, o_bias=o)


def as_float32(box: gh.MultiHead) -> gh.MultiHead:
    heads = [
        gh.Attention(*(a.astype(np.float32) for a in (one.W, one.v)), key_bias=one.key_bias.astype(np.float32))
        for one in box.heads
    ]
    return gh.MultiHead(heads, bias=box.bias.astype(np.float32))


def errors(found, box) -> dict[str, float]:
    """The worst head's relative error of W, of the key bias and of the value map, heads matched by the latter."""
    truth, got = (getattr(model, "heads", (model,)) for model in (box, found.model))
    assert len(truth) == len(got), f"{len(got)} heads instead of {len(truth)}"
    nearest = [min(got, key=lambda one, two=two: float(np.linalg.norm(one.v - two.v))) for two in truth]
    pairs = list(zip(nearest, truth, strict=True))
    return {
        name: max(relative(getattr(a, name), getattr(b, name)) for a, b in pairs) for name in ("W", "key_bias", "v")
    }


def relative(a: np.ndarray, b: np.ndarray) -> float:
    size = float(np.linalg.norm(b))
    return float(np.linalg.norm(a - b)) / size if size else float(np.linalg.norm(a))


def measure(box, learn, seed: int, **keywords) -> dict[str, Any]:
    start, oracle, rng = perf_counter(), gh.ValueOracle(box, **keywords), np.random.default_rng(seed)
    found = learn(oracle, rng)
    if isinstance(found, NeedsScalarRoute):
        raise gh.NotConverged(found.reason)
    check = check_held_out_vector(oracle, found, rng)
    if check.evidence is not None:
        raise gh.TargetMismatch("held out", check.evidence)
    cost = {"queries": oracle.queries, "limit": found.limit, "seconds": round(perf_counter() - start, 1)}
    return errors(found, box) | {"said": found.error, "heads": len(found.rank), "rank": max(found.rank)} | cost


def worst(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: max(run[name] for run in runs) for name in runs[0]}


def one_head_child(d: int, k: int, rank, value_rank, seeds: int) -> dict[str, Any]:
    boxes = [(head(d, k, rank, value_rank, biases, seed), seed) for biases in (0.0, 1.0) for seed in range(seeds)]
    row = {"d": d, "k": k, "W_rank": rank or d, "v_rank": value_rank or min(d, k), "boxes": len(boxes)}
    return row | worst([measure(box, learn_vector_attention, seed) for box, seed in boxes])


def layer_child(d: int, heads: int) -> dict[str, Any]:
    boxes = [(layer(d, heads, biases, seed), seed) for biases in (0.0, 1.0) for seed in range(FEWER_SEEDS)]
    return {"d": d, "boxes": len(boxes)} | worst([measure(box, learn_vector, seed) for box, seed in boxes])


def published_child(name: str, index: int) -> dict[str, Any]:
    box = albert_layer() if name == "albert" else minilm_layer(index)
    runs = [measure(box, learn_vector, seed) for seed in range(2)]
    return {"model": name, "layer": index, "d": box.dim, "boxes": len(runs)} | worst(runs)


def narrow_child(kind: str) -> dict[str, Any]:
    """Boxes that compute in float32: recovered, or refused and why."""
    right, reasons = [], []
    published = as_float32(minilm_layer(0)) if kind == "minilm" else None
    for seed in range(NARROW_SEEDS):
        box: Any = published or (
            head(16, 16, None, None, 1.0, seed, "float32") if kind == "head" else as_float32(layer(16, 2, 1.0, seed))
        )
        try:
            right.append(
                measure(box, learn_vector_attention if kind == "head" else learn_vector, seed, dtype="float32")
            )
        except gh.GlassheadError as refusal:
            reasons.append(type(refusal).__name__)
    row = {"kind": kind, "boxes": NARROW_SEEDS, "recovered": len(right), "refused": len(reasons)}
    return (
        row | {"reasons": sorted(set(reasons))} | ({name: worst(right)[name] for name in ("W", "v")} if right else {})
    )


def run(progress: Progress) -> dict[str, Any]:
    calls = {
        "one_head": [f"one_head_child(64, 64, None, None, {SEEDS})"],
        "shapes": [f"one_head_child({', '.join(map(str, shape))}, {FEWER_SEEDS})" for shape in SHAPES],
        "layers": [f"layer_child({d}, {heads})" for d, heads in LAYERS],
        "published": [f"published_child('minilm', {index})" for index in range(6)] + ["published_child('albert', 0)"],
        "narrow": [f"narrow_child({kind!r})" for kind in ("head", "layer", "minilm")],
    }
    flat, results = [(part, call) for part, part_calls in calls.items() for call in part_calls], {}
    for done, (part, call) in enumerate(flat):
        progress(done, len(flat), f"vector: {call}")
        results.setdefault(part, []).append(measured(f"bench.vector.{call}", threads=1))
    limits = {"one_head": ONE_HEAD, "shapes": LAYER, "layers": LAYER, "published": PUBLISHED, "narrow": NARROW}
    return {"limits": limits} | results


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for part, limits in result["limits"].items():
        for row in result[part]:
            error = max((row[name] for name in ("W", "key_bias", "v") if name in row), default=0.0)
            if not error <= limits["error"]:
                yield f"{part}, {row}: error {error:.2g} > {limits['error']:.0e}"
            if row.get("queries", 0) > limits.get("queries", np.inf):
                yield f"{part}, {row}: {row['queries']} queries > {limits['queries']}"
