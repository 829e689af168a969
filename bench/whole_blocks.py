"""Whole blocks with norms in front or behind, and language models of one: every weight, from answers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import process_time
from typing import Any

import numpy as np
from tests.decoder.boxes import Decoder, TorchBlock, llama_frequencies

import glasshead as gh

Progress = Callable[[int, int, str], None]

WEIGHTS, FUNCTION = 1e-6, 1e-8  # of the worst neuron and the worst head, and of the largest answer
SEQUENCES, TOKENS = 50, 12
GPT = {"norm": "layer", "network": "gelu", "eps": 1e-5}
LLAMA = {"theta": llama_frequencies(8), "biases": False}
LOGITS = {"final": 96}
TORCH = {"torch": "relu"}  # nn.TransformerEncoderLayer(norm_first=True) as it is initialised
BEHIND = {"norm_first": False}  # as it is by default: norms behind heads and network
# Name, d, heads, width, seeds, and what else the box is.
ROWS: tuple[tuple[str, int, int, int, int, dict[str, Any]], ...] = (
    ("GPT-2 type, GELU", 64, 4, 256, 5, GPT),
    ("LLaMA type, rotary, SwiGLU", 64, 4, 170, 5, LLAMA),
    ("torch layer, ReLU", 32, 4, 64, 5, TORCH),
    ("torch layer, ReLU", 64, 4, 256, 2, TORCH),
    ("torch layer, norms behind, GELU", 32, 4, 64, 5, {"torch": "gelu"} | BEHIND),
    ("torch layer, norms behind, ReLU", 32, 4, 64, 5, TORCH | BEHIND),
    ("language model, LayerNorm, GELU", 48, 3, 128, 3, GPT | LOGITS),
    ("language model, RMSNorm, rotary, SwiGLU", 48, 3, 128, 3, LLAMA | LOGITS),
)


def made(d: int, heads: int, width: int, seed: int, options: dict[str, Any]) -> Decoder | TorchBlock:
    """A block with a network of that width."""
    if "torch" in options:
        first = options.get("norm_first", True)
        return TorchBlock(d, heads, width, seed, activation=options["torch"], norm_first=first)
    box, rng = Decoder(d, heads, seed=seed, **options), np.random.default_rng([d, width, seed])
    A, B = rng.standard_normal((2, d, width)) / np.sqrt(d)
    a, C = 0.2 * box.biases * rng.standard_normal(width), rng.standard_normal((width, d)) / np.sqrt(width)
    box.weights |= {"A": A, "B": B, "a": a, "C": C}
    return box


def network_of(box: Decoder | TorchBlock) -> tuple[np.ndarray, np.ndarray]:
    """Weights in front of the activation, for normalised tokens, and what can be seen behind it, a row per neuron."""
    if isinstance(box, TorchBlock):
        layer, seen = box.layer, np.eye(box.d) - 1 / box.d
        W1, b1, W2 = (x.detach().numpy() for x in (layer.linear1.weight, layer.linear1.bias, layer.linear2.weight))
        relu, W2 = layer.activation_relu_or_gelu == 1, W2 if box.norm_first else seen @ W2  # a norm forgets means
        return scaled(np.c_[W1 @ seen, b1], W2.T) if relu else (W1 @ seen, W2.T)
    at, gain = box.weights, box.weights["gain"][1][:, None]
    W1 = (box.seen() @ (gain * at["A"])).T
    C = at["C"] @ box.seen() if box.final else at["C"]  # a last LayerNorm forgets means
    if box.network != "swiglu":
        return W1, C
    return W1, products(C, (box.seen() @ (gain * at["B"])).T)


def scaled(front: np.ndarray, behind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neurons of a ReLU network, whose weights in front can be scaled against those behind."""
    size = np.linalg.norm(front, axis=1, keepdims=True)
    return front / size, behind * size


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
    mine, columns = network.W1, products(network.W2.T, network.gate)
    if network.activation == "relu":
        mine, columns = scaled(np.c_[network.W1, network.b1], columns)
    order = [int(np.linalg.norm(mine - w, axis=1).argmin()) for w in W1]
    whole = len(set(order)) == network.width == width
    W = [box.W(h) for h in range(heads)]
    X = np.random.default_rng(777).standard_normal((SEQUENCES, TOKENS, d))
    answers = box(X)
    return {
        "seed": seed,
        "network": max(worst(mine[order], W1), worst(columns[order], behind)) if whole else 1.0,
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
