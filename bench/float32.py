"""Boxes that compute in float32, and heads whose answers are float16 or bfloat16, against the numbers asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np

import glasshead as gh

from .fresh import measured

Progress = Callable[[int, int, str], None]

SEEDS, FEWER_SEEDS = 20, 5
LAYERS = ((16, 2), (32, 4), (64, 8), (128, 8))
DEARER = ((64, 8), (128, 8), (256, 8))
HEADS = (8, 32)
NARROW = {"float16": 1e-2, "bfloat16": 5e-2}
NARROW_DIMS = (4, 8, 16, 32)
LIMITS = {"recovered": 0.95, "error": 1e-3, "dearer": 3.0, "narrow": NARROW}


def torch_layer(dim: int, heads: int, seed: int, dtype: str, scalar: bool) -> tuple[gh.ValueOracle, gh.MultiHead]:
    """`nn.MultiheadAttention` as torch initialises it: the last token's output, or one random combination of that."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    module = torch.nn.MultiheadAttention(dim, heads, batch_first=True).eval()
    exact, readout = deepcopy(module).double(), torch.randn(dim)
    truth, weights = gh.MultiHead.from_torch(exact), readout.double().numpy()
    if scalar:
        truth = gh.MultiHead([gh.Attention(one.W, one.v @ weights) for one in truth.heads])
    if dtype == "float64":
        module, readout = exact, readout.double()

    def box(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            x = torch.from_numpy(X)
            answers = module(x[:, -1:], x, x, need_weights=False)[0][:, 0]
            return (answers @ readout if scalar else answers).numpy()

    return gh.ValueOracle(box, dim=dim, dtype=dtype), truth


def plain_head(dim: int, seed: int, scalar: bool) -> tuple[gh.ValueOracle, gh.Attention]:
    rng = np.random.default_rng((dim, seed))
    W, v = rng.standard_normal((dim, dim)) / np.sqrt(dim), rng.standard_normal((dim, dim)) / np.sqrt(dim)
    W, v = W.astype(np.float32), (v[:, 0] if scalar else v).astype(np.float32)

    def box(X: np.ndarray) -> np.ndarray:
        scores = np.einsum("bnd,bd->bn", X, X[:, -1] @ W.T)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.einsum("bn,bnd->bd", weights / weights.sum(axis=1, keepdims=True), X) @ v

    return gh.ValueOracle(box, dim=dim, dtype="float32"), gh.Attention(W.astype(float), v.astype(float))


def attempt(oracle: gh.ValueOracle, truth: Any, family: str, seed: int) -> dict[str, Any]:
    try:
        found = gh.recover(oracle, family=family, seed=seed)
    except gh.GlassheadError as refusal:
        return {"error": np.inf, "queries": oracle.queries, "why": type(refusal).__name__}
    model = found.model
    if isinstance(truth, gh.MultiHead) and isinstance(model, gh.Attention):
        return {"error": np.inf, "queries": oracle.queries, "why": "one head"}
    return {"error": gh.distance(model, truth), "queries": oracle.queries, "why": ""}


def summary(runs: list[dict[str, Any]], most: float = LIMITS["error"]) -> dict[str, Any]:
    errors = [run["error"] for run in runs if np.isfinite(run["error"])]
    return {
        "boxes": len(runs),
        "right": sum(error <= most for error in errors),
        "wrong": sum(error > most for error in errors),
        "refused": sorted({run["why"] for run in runs} - {""}),
        "error": max(errors, default=0.0),
        "queries": int(np.median([run["queries"] for run in runs])),
        "most_queries": max(run["queries"] for run in runs),
    }


def layer_child(dim: int, heads: int, scalar: bool, family: str) -> dict[str, Any]:
    runs = [attempt(*torch_layer(dim, heads, seed, "float32", scalar), family, seed) for seed in range(SEEDS)]
    return {"d": dim, "heads": heads, "scalar": scalar, "family": family} | summary(runs)


def head_child(dim: int, scalar: bool, family: str) -> dict[str, Any]:
    runs = [attempt(*plain_head(dim, seed, scalar), family, seed) for seed in range(SEEDS)]
    return {"d": dim, "heads": 1, "scalar": scalar, "family": family} | summary(runs)


def dearer_child(dim: int, heads: int) -> dict[str, Any]:
    """The queries of a vector layer in float32 over those of the same in float64, the family named: the worst seed."""
    asked = {
        dtype: [
            attempt(*torch_layer(dim, heads, seed, dtype, False), "multi-head", seed)["queries"]
            for seed in range(FEWER_SEEDS)
        ]
        for dtype in ("float64", "float32")
    }
    worst = max(one / other for one, other in zip(asked["float32"], asked["float64"], strict=True))
    return {"d": dim, "heads": heads, "times": worst} | {name: max(queries) for name, queries in asked.items()}


def rounded(answers: np.ndarray, name: str) -> np.ndarray:
    if name == "float16":
        return answers.astype(np.float16)
    bits = np.asarray(answers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def narrow_child(name: str, dim: int) -> dict[str, Any]:
    """Heads whose answers are rounded to a narrow format, and how often a bound is broken."""
    runs, broken = [], 0
    for seed in range(SEEDS):
        truth = gh.Attention.random(dim, seed=seed)
        oracle = gh.ValueOracle(lambda X, head=truth: rounded(head(X), name), dim=dim)
        try:
            found = gh.recover(oracle, family="attention", seed=seed)
        except gh.GlassheadError as refusal:
            runs.append({"error": np.inf, "queries": oracle.queries, "why": type(refusal).__name__})
            continue
        off = float(np.linalg.norm(found.model.W - truth.W))
        broken += found.bound is not None and off > found.bound
        runs.append({"error": off / truth.W_norm, "queries": oracle.queries, "why": ""})
    return {"format": name, "d": dim, "broken": broken} | summary(runs, NARROW[name])


def run(progress: Progress) -> dict[str, Any]:
    both = [(scalar, family) for scalar in (False, True) for family in ("named", "auto")]
    named = {"layers": "multi-head", "heads": "attention"}

    def family(part: str, how: str) -> str:
        return named[part] if how == "named" else how

    calls = {
        "dearer": [f"dearer_child({d}, {heads})" for d, heads in DEARER],
        "narrow": [f"narrow_child({name!r}, {d})" for name in NARROW for d in NARROW_DIMS],
        "heads": [f"head_child({d}, {scalar}, {family('heads', how)!r})" for d in HEADS for scalar, how in both],
        "layers": [
            f"layer_child({d}, {heads}, {scalar}, {family('layers', how)!r})"
            for d, heads in LAYERS
            for scalar, how in both
        ],
    }
    flat, results = [(part, call) for part, part_calls in calls.items() for call in part_calls], {}
    for done, (part, call) in enumerate(flat):
        progress(done, len(flat), f"float32: {call}")
        results.setdefault(part, []).append(measured(f"bench.float32.{call}", threads=1))
    return {"limits": LIMITS} | results


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    limits = result["limits"]
    for part in ("heads", "layers", "narrow"):
        for row in result[part]:
            if row["right"] < limits["recovered"] * row["boxes"] or row["wrong"] or row.get("broken"):
                yield f"{part}, {row}: {row['right']} of {row['boxes']} right, {row['wrong']} wrong"
    for row in result["dearer"]:
        if row["times"] > limits["dearer"]:
            yield f"{row}: {row['times']:.2g} times the queries of float64"
