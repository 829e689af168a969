"""Heads with unknown networks behind them: how exactly W is read, and how many queries a score takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
from tests.any_network.blocks import Block, RandomBlock, Result, identifiable, learn

import glasshead as gh
from glasshead._meters.matching.meter import MatchingMeter

from .fresh import measured

Progress = Callable[[int, int, str], None]

LIMITS = {
    "scalar": 1e-9,
    "8 outputs": 1e-11,
    "eps given": 1e-9,
    "eps found": 1e-8,
    "encoder layer": 1e-8,
    "decision, 24 bits": 1e-4,
    "queries_per_score": 10.0,
    "wrong": 0,
}
SEEDS = 3
RANDOM = 200
WRONG = 1e-6  # a relative error of W that no noise explains


@contextmanager
def counting() -> Iterator[list[int]]:
    """Counts the scores that a scheme asks for."""
    asked, logits = [0], MatchingMeter.read_logits

    def counted(self, q, keys):
        asked[0] += keys.shape[0] * keys.shape[1]
        return logits(self, q, keys)

    MatchingMeter.read_logits = counted
    try:
        yield asked
    finally:
        MatchingMeter.read_logits = logits


def row(kind: str, runs: Iterable[tuple[np.ndarray, Callable[[], Result]]], **what) -> dict[str, Any]:
    """The worst over runs, each a true W and what learns it."""
    errors, per_score, per_parameter, bounded = [], [], [], []
    for W, run in runs:
        with counting() as asked:
            found = run()
        errors.append(found.error(W))
        per_score.append(found.queries / asked[0])
        per_parameter.append(found.per_parameter)
        bounded.append(found.bounded(W))
    counts = {"queries_per_score": max(per_score), "queries_per_parameter": max(per_parameter)}
    return {"kind": kind, **what, "boxes": len(errors), "error": max(errors)} | counts | {"bounded": all(bounded)}


def blocks(dim: int, rank: int | None, residual: bool, outputs: int | None) -> dict[str, Any]:
    """LayerNorm, GELU network with biases, LayerNorm and read-out behind the head."""
    boxes = [Block(dim, rank=rank, residual=residual, outputs=outputs, seed=seed) for seed in range(SEEDS)]
    runs = ((box.W, lambda box=box, seed=seed: learn(box, dim, seed=seed)) for seed, box in enumerate(boxes))
    kind = "scalar" if outputs is None else f"{outputs} outputs"
    return row(kind, runs, d=dim, rank=rank or dim, residual=residual)


def norms(kind: str, dim: int, residual: bool, given: bool) -> dict[str, Any]:
    """A normalisation before the head: the identifiable part of W."""
    boxes = [Block(dim, norm=kind, residual=residual, eps=3.7e-6, seed=seed) for seed in range(SEEDS)]
    norm = gh.Norm(kind, 3.7e-6) if given else "auto"
    runs = (
        (identifiable(box)[0], lambda box=box, seed=seed: learn(box, dim, seed=seed, norm=norm))
        for seed, box in enumerate(boxes)
    )
    return row("eps given" if given else "eps found", runs, norm=kind, d=dim, residual=residual)


def encoder_layer(act: str, norm_first: bool, readout: bool) -> dict[str, Any]:
    """`torch.nn.TransformerEncoderLayer`, last token."""
    from tests.any_network.test_torch_layer import Layer

    layers = [Layer(32, act, norm_first, readout, seed) for seed in range(SEEDS)]
    runs = (
        (layer.identifiable()[0], lambda layer=layer, seed=seed: learn(layer, 32, seed=seed))
        for seed, layer in enumerate(layers)
    )
    return row("encoder layer", runs, d=32, act=act, norm_first=norm_first, readout=readout)


def decisions(residual: bool) -> dict[str, Any]:
    """Yes and no, 24 bits."""
    boxes = [Block(8, residual=residual, seed=seed) for seed in range(2 * SEEDS)]
    runs = (
        (box.W, lambda box=box, seed=seed: learn(box, 8, seed=seed, oracle=gh.SignOracle, bits=24))
        for seed, box in enumerate(boxes)
    )
    return row("decision, 24 bits", runs, d=8, residual=residual)


def random_blocks(first: int, count: int) -> dict[str, Any]:
    """Random networks of one to three layers (tanh, GELU, ReLU), scalar answers: read, refused, or silently wrong."""
    outcomes, errors, bound_broken = Counter(), [], []
    for seed in range(first, first + count):
        box = RandomBlock(seed)
        try:
            found = learn(box, box.dim, seed=seed)
        except gh.GlassheadError as error:
            outcomes[type(error).__name__] += 1
            continue
        refused = found.learned.check.evidence is not None
        outcomes["TargetMismatch" if refused else "wrong" if found.error(box.W) > WRONG else "read"] += 1
        if not refused:
            errors.append(found.error(box.W))
            bound_broken += [] if found.bounded(box.W) else [seed]
    return {"boxes": count, "outcomes": dict(outcomes), "error": max(errors), "bound_broken_at": bound_broken}


def run(progress: Progress) -> dict[str, Any]:
    calls = [
        *(f"blocks({d}, {r}, {s}, {k})" for d in (16, 32) for r, s, k in product((None, d // 4), (0, 1), (None, 8))),
        *(f"norms({n!r}, {d}, {s}, {g})" for n, d, s, g in product(("layer", "rms"), (16, 32), (0, 1), (True, False))),
        *(
            f"encoder_layer({act!r}, {first}, {r})"
            for act, first, r in product(("relu", "gelu"), (False, True), (1, 0))
        ),
        *(f"decisions({residual})" for residual in (False, True)),
    ]
    rows = []
    for done, call in enumerate(calls):
        progress(done, len(calls) + 1, f"any network: {call}")
        rows.append(measured(f"bench.any_network.{call}", threads=1))
    progress(len(calls), len(calls) + 1, "any network: random blocks")
    return {
        "limits": LIMITS,
        "rows": rows,
        "random": measured(f"bench.any_network.random_blocks(0, {RANDOM})", threads=1),
    }


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for found in result["rows"]:
        where = ", ".join(f"{name} = {found[name]}" for name in found if name not in ("error", "boxes", "bounded"))
        if not found["error"] <= LIMITS[found["kind"]]:
            yield f"{where}: error {found['error']:.2g} > {LIMITS[found['kind']]:.0e}"
        if found["kind"] in ("scalar", "8 outputs") and found["queries_per_score"] > LIMITS["queries_per_score"]:
            yield f"{where}: {found['queries_per_score']:.3g} queries per score"
        if not found["bounded"]:
            yield f"{where}: a bound is below the error"
    if result["random"]["outcomes"].get("wrong", 0) > LIMITS["wrong"]:
        yield f"random blocks: {result['random']['outcomes']['wrong']} silently wrong"
    for seed in result["random"]["bound_broken_at"]:
        yield f"random block {seed}: the bound is below the error"
