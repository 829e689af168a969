"""Whole blocks with norms in front, and language models of one: heads and network, every weight, from answers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import process_time
from typing import Any

import numpy as np
from tests.decoder.boxes import Decoder, llama_frequencies

import glasshead as gh

Progress = Callable[[int, int, str], None]

WEIGHTS, FUNCTION = 1e-6, 1e-8  # of the worst neuron and the worst head, and of the largest answer
SEQUENCES, TOKENS = 50, 12
GPT = {"norm": "layer", "network": "gelu", "eps": 1e-5}
LLAMA = {"theta": llama_frequencies(8), "biases": False}
LOGITS = {"final": 96}
# Name, d, heads, width, seeds, and what else the box is.
ROWS: tuple[tuple[str, int, int, int, int, dict[str, Any]], ...] = (
    ("GPT-2 type, GELU", 64, 4, 256, 5, GPT),
    ("LLaMA type, rotary, SwiGLU", 64, 4, 170, 5, LLAMA),
    ("language model, LayerNorm, GELU", 48, 3, 128, 3, GPT | LOGITS),
    ("language model, RMSNorm, rotary, SwiGLU", 48, 3, 128, 3, LLAMA | LOGITS),
)


def made(d: int, heads: int, width: int, seed: int, options: dict[str, Any]) -> Decoder:
    """A block with a network of that width."""
    box, rng = Decoder(d, heads, seed=seed, **options), np.random.default_rng([d, width, seed])
    A, B = rng.standard_normal((2, d, width)) / np.sqrt(d)
    a, C = 0.2 * box.biases * rng.standard_normal(width), rng.standard_normal((width, d)) / np.sqrt(width)
    box.weights |= {"A": A, "B": B, "a": a, "C": C}
    return box


def network_of(box: Decoder) -> tuple[np.ndarray, np.ndarray]:
    """Weights in front of the activation, for normalised tokens, and what can be seen behind it, a row per neuron."""
    at, gain = box.weights, box.weights["gain"][1][:, None]
    W1 = (box.seen() @ (gain * at["A"])).T
    C = at["C"] @ box.seen() if box.final else at["C"]  # a last LayerNorm forgets means
    if box.network != "swiglu":
        return W1, C
    return W1, products(C, (box.seen() @ (gain * at["B"])).T)


def products(rows: np.ndarray, gate: np.ndarray | None) -> np.ndarray:
    return rows if gate is None else np.einsum("mk,md->mkd", rows, gate).reshape(len(gate), -1)


def worst(found: np.ndarray, true: np.ndarray) -> float:
    return float((np.linalg.norm(found - true, axis=1) / np.linalg.norm(true, axis=1)).max())


def one(d: int, heads: int, width: int, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    box, start = made(d, heads, width, seed, options), process_time()
    try:
        found = gh.recover(gh.ValueOracle(box, dim=d), family="block", network=True, seed=seed)
    except gh.GlassheadError as refusal:
        return {"seed": seed, "refused": f"{type(refusal).__name__}: {refusal}"[:200]}
    seconds, block = process_time() - start, found.model
    network, (W1, behind) = block.network, network_of(box)
    order = [int(np.linalg.norm(network.W1 - w, axis=1).argmin()) for w in W1]
    gate = None if network.gate is None else network.gate[order]
    whole = len(set(order)) == network.width == width
    W = [box.W(h) for h in range(heads)]
    X = np.random.default_rng(777).standard_normal((SEQUENCES, TOKENS, d))
    answers = box(X)
    return {
        "seed": seed,
        "network": max(worst(network.W1[order], W1), worst(products(network.W2.T[order], gate), behind))
        if whole
        else 1.0,
        "heads": max(min(float(np.linalg.norm(h.W - w) / np.linalg.norm(w)) for h in block.heads) for w in W),
        "function": float(np.abs(block(X) - answers).max() / np.abs(answers).max()),
        "queries": found.queries,
        "seconds": seconds,
    }


def run(progress: Progress) -> dict[str, Any]:
    rows, done, total = [], 0, sum(seeds for *_, seeds, _ in ROWS)
    for name, d, heads, width, seeds, options in ROWS:
        runs = []
        for seed in range(seeds):
            progress(done, total, name)
            done += 1
            runs.append(one(d, heads, width, seed, options))
        rows.append({"name": name, "d": d, "heads": heads, "width": width, "runs": runs})
    return {"limits": {"weights": WEIGHTS, "function": FUNCTION}, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        for each in row["runs"]:
            what = f"{row['name']}, seed {each['seed']}"
            if "refused" in each:
                yield f"{what}: refused"
                continue
            for name, limit in (("network", WEIGHTS), ("heads", WEIGHTS), ("function", FUNCTION)):
                if not each[name] <= limit:
                    yield f"{what}: {name} {each[name]:.1e} > {limit:.0e}"
