"""One-layer Transformers: how exactly head and network are recovered, and what that costs beside the paper's route."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import glasshead as gh

from .fresh import measured

Progress = Callable[[int, int, str], None]
Row = dict[str, Any]

LIMITS = {"function": 1e-8, "W": 1e-9, "W, not plain": 1e-8, "extra": 200}
SIZES = ((16, 16, 32), (64, 8, 128))  # d, rank, width
SEEDS = 5
KINDS: dict[str, dict[str, bool]] = {
    "plain": {},
    "A w = 0": {"even": True},
    "biases": {"biases": True},
    "key bias": {"key_bias": True},
    "biases and key bias": {"biases": True, "key_bias": True},
}
LENGTHS, FRESH = range(1, 9), 100  # sequences of every length


def target(d: int, rank: int, width: int, seed: int, even=False, biases=False, key_bias=False) -> gh.Transformer:
    """`even` gives every neuron a twin that looks the other way: then `A w = 0`, and the width is twice as large."""
    rng = np.random.default_rng([d, rank, width, seed])
    model = gh.Transformer.random(d, width, rank=None if rank == d else rank, seed=seed)
    A, w = (np.c_[model.A, -model.A], np.r_[model.w, model.w]) if even else (model.A, model.w)
    b, c = (rng.standard_normal(len(w)), float(rng.standard_normal())) if biases else (None, 0.0)
    return gh.Transformer(model.W, A, w, b=b, c=c, key_bias=rng.standard_normal(d) if key_bias else None)


def function_error(found: gh.Recovery, model: gh.Transformer) -> float:
    """The largest error over the largest answer, on sequences of 1 to 8 tokens."""
    rng = np.random.default_rng(777)
    batches = [rng.standard_normal((FRESH, length, model.dim)) for length in LENGTHS]
    true = [model(X) for X in batches]
    off = max(float(np.abs(found.model(X) - answers).max()) for X, answers in zip(batches, true, strict=True))
    return off / max(float(np.abs(answers).max()) for answers in true)


def W_error(found: gh.Recovery, model: gh.Transformer) -> float:
    return float(np.linalg.norm(found.model.W - model.W) / np.linalg.norm(model.W))


def one(kind: str, d: int, rank: int, width: int, seed: int) -> Row:
    model = target(d, rank, width, seed, **KINDS[kind])
    try:
        found = gh.recover(gh.ValueOracle(model), family="transformer", seed=seed)
    except gh.GlassheadError as refusal:
        return {"seed": seed, "refused": f"{type(refusal).__name__}: {refusal}"[:200]}
    network = gh.recover_relu(model.network, d, seed=seed).queries
    scores = 2 * rank * d - rank * rank
    row = {"seed": seed, "function": function_error(found, model), "W": W_error(found, model)}
    row |= {"queries": found.queries, "network_alone": network, "beyond_network": found.queries - network}
    row |= {"limit": network + 2 * (scores + d) + LIMITS["extra"], "rank_right": found.rank == rank}
    return row | {"paper": paper(model), "auto": auto(model, found, seed)}


def paper(model: gh.Transformer) -> Row:
    """Section 4.1 on the same box: the same network learner, then two queries for every entry of W."""
    try:
        found = gh.paper.section_4_1(gh.ValueOracle(model))
    except gh.GlassheadError as refusal:
        return {"refused": f"{type(refusal).__name__}: {refusal}"[:200]}
    return {"queries": found.queries, "W": W_error(found, model), "function": function_error(found, model)}


def auto(model: gh.Transformer, told: gh.Recovery, seed: int) -> Row:
    """Not told what it is: what comes out, and what telling costs."""
    found = gh.recover(gh.ValueOracle(model), seed=seed)
    return {"family": found.family, "more": found.queries - told.queries, "function": function_error(found, model)}


def size(kind: str, d: int, rank: int, width: int) -> Row:
    """The worst over seeds."""
    runs = [one(kind, d, rank, width, seed) for seed in range(SEEDS)]
    done = [run for run in runs if "refused" not in run]
    row = {"kind": kind, "d": d, "rank": rank, "width": width, "seeds": SEEDS, "refused": SEEDS - len(done)}
    row["scores"] = 2 * rank * d - rank * rank
    row |= {name: max((run[name] for run in done), default=None) for name in ("function", "W", "queries")}
    row |= {name: max((run[name] for run in done), default=None) for name in ("beyond_network", "limit")}
    row["over_limit"] = max((run["queries"] / run["limit"] for run in done), default=None)
    theirs = [run["paper"] for run in done if "refused" not in run["paper"]]
    row["paper"] = {name: max((run[name] for run in theirs), default=None) for name in ("queries", "W", "function")}
    row["paper"]["refused"] = len(done) - len(theirs)
    row["told_apart"] = sum(run["auto"]["family"] == "transformer" for run in done)
    row["telling"] = max((run["auto"]["more"] for run in done), default=None)
    return row | {"runs": runs}


def limit(name: str, kind: str) -> float:
    """The promise for W is about Transformers as the paper has them."""
    return LIMITS["W, not plain" if name == "W" and kind != "plain" else name]


def run(progress: Progress) -> dict[str, Any]:
    """Each row in a process of its own, with one thread."""
    calls = [f"size({kind!r}, {d}, {rank}, {width})" for d, rank, width in SIZES for kind in KINDS]
    rows = []
    for done, call in enumerate(calls):
        progress(done, len(calls), f"transformer: {call}")
        rows.append(measured(f"bench.transformer.{call}", threads=1))
    return {"limits": LIMITS, "rows": rows}


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        where = f"Transformer ({row['d']}, {row['rank']}, {row['width']}), {row['kind']}"
        if row["refused"]:
            yield f"{where}: {row['refused']} of {row['seeds']} refused"
            continue
        for name in ("function", "W"):
            if not row[name] <= (most := limit(name, row["kind"])):
                yield f"{where}: {name} error {row[name]:.2g} > {most:.0e}"
        if not row["over_limit"] <= 1:
            yield f"{where}: {row['over_limit']:.2f} times the queries allowed"
        if not all(run["rank_right"] for run in row["runs"]):
            yield f"{where}: a rank is wrong"
        if row["told_apart"] < row["seeds"]:
            yield f"{where}: {row['told_apart']} of {row['seeds']} told from a plain head"
