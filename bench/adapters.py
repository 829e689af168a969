"""Boxes on this machine: the same head behind numpy, torch and onnxruntime, and what becomes of layers of Hugging Face
models with random weights, in float64 and in float32."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.boxes.local import head_file, in_float64, made, tensors_of

import glasshead as gh

Progress = Callable[[int, int, str], None]

DIMS, SEEDS = (16, 64), 5
ALIKE = 1e-12  # of the largest entry: how far recoveries of the same head may be apart
DIM, HEADS, MODELS = 32, 4, 3  # of layers, and seeds of each


@dataclass(frozen=True)
class Case:
    """A model, what is asked of it, and what is done to it before."""

    name: str
    asked: dict[str, Any] = field(default_factory=lambda: {"layer": 1})
    sizes: dict[str, Any] = field(default_factory=dict[str, Any])
    ready: Callable[[Any], Any] = lambda model: model
    what: str = "float64"


def in_float32(model: Any) -> Any:
    return model.float()


CASES = (
    *(Case(name) for name in ("Bert", "Roberta", "DistilBert", "GPT2", "OPT", "GPTNeoX", "Bloom", "Llama")),
    Case("Qwen2", sizes={"num_key_value_heads": 2}),
    Case("GPT2", ready=in_float32, what="float32"),
    Case("Llama", ready=in_float32, what="float32"),
    Case("Llama", ready=in_float64, what="float64, norms and turns too"),
    Case(
        "Llama", {"output": "logits"}, {"head": "ForCausalLM", "layers": 1}, in_float64, "float64, norms and turns too"
    ),
)


def same_heads(dim: int, seed: int) -> dict[str, float]:
    """How far recoveries from torch and from an ONNX file are from that of numpy, of the largest entry."""
    head = gh.Attention.random(dim, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        file = head_file(Path(folder) / "head.onnx", head)
        oracles = {"torch": gh.from_torch(tensors_of(head), dim), "ONNX": gh.from_onnx(file)}
        here = gh.recover(gh.ValueOracle(head)).model
        there = {name: gh.recover(oracle).model for name, oracle in oracles.items()}
    return {name: max(apart(model.W, here.W), apart(model.v, here.v)) for name, model in there.items()}


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def outcome(oracle: gh.Oracle) -> dict[str, Any]:
    """Recovered, with how well fresh answers are predicted, or refused for a reason."""
    try:
        found = gh.recover(oracle)
    except gh.GlassheadError as refusal:
        return {"refused": type(refusal).__name__, "heads": 0}
    heads = found.heads if found.family == "block" else 0
    return {"refused": "", "heads": heads, "residual": found.residual, "queries": found.queries}


def layers(progress: Progress, done: int, total: int) -> Iterable[dict[str, Any]]:
    for case in CASES:
        runs, notes = [], ()
        for seed in range(MODELS):
            model = case.ready(made(case.name, dim=DIM, heads=HEADS, seed=seed, **case.sizes))
            oracle = gh.from_transformers(model, **case.asked)
            notes = oracle.notes
            runs.append(outcome(oracle))
            done += 1
            progress(done, total, case.name)
        good = [run for run in runs if run["heads"] == HEADS]
        yield {
            "model": case.name,
            "format": case.what,
            "asked": "logits" if "output" in case.asked else "a layer",
            "rounded": any("float32 inside" in note for note in notes),
            "boxes": MODELS,
            "recovered": len(good),
            "wrong": sum(run["refused"] == "" and run["heads"] != HEADS for run in runs),
            "refused": sorted({run["refused"] for run in runs} - {""}),
            "residual": max((run["residual"] for run in good), default=None),
            "queries": max((run["queries"] for run in good), default=None),
        }


def run(progress: Progress) -> dict[str, Any]:
    total, apart_by = len(DIMS) * SEEDS + len(CASES) * MODELS, []
    torch.set_num_threads(1)
    for dim in DIMS:
        rows = []
        for seed in range(SEEDS):
            rows.append(same_heads(dim, seed))
            progress(len(apart_by) * SEEDS + len(rows), total, f"d = {dim}")
        apart_by.append({"dim": dim, "heads": SEEDS} | {name: max(row[name] for row in rows) for name in rows[0]})
    found = list(layers(progress, len(DIMS) * SEEDS, total))
    return {"dim": DIM, "heads": HEADS, "most": ALIKE, "same": apart_by, "layers": found}


def broken(result: dict[str, Any]) -> Iterable[str]:
    for row in result["same"]:
        for name in ("torch", "ONNX"):
            if row[name] > result["most"]:
                yield f"{name}, d = {row['dim']}: {row[name]:.1e} from numpy's recovery, more than {result['most']}"
    for row in result["layers"]:
        if row["wrong"]:
            yield f"{row['model']}: {row['wrong']} of {row['boxes']} recovered wrongly"
