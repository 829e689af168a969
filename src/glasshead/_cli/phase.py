"""The phase diagram of low rank: how often a method succeeds with so many measurements per free parameter."""

from __future__ import annotations

import json
from concurrent.futures import Executor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from .. import sensing
from .._boxes import as_finished
from .._errors import BudgetExceeded
from .._limits import OVERHEAD
from .._models import Attention, written_whole
from .._oracles import Report, ValueOracle
from .._plan import DISCOVERY
from .._recover import recover
from .._report import ChartCurve, chart

RECOVERED = 1e-5  # relative error of W
MINIMISED = 1e-6  # relative, for the nuclear norm: ten times better than is asked of W
RATIOS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
OUR_EXTRA = OVERHEAD + DISCOVERY


def run_phase(
    folder: Path,
    dim: int = 24,
    rank: int = 2,
    trials: int = 20,
    progress: Report | None = None,
    executor: Executor | None = None,
) -> dict:
    """Run what is not in `folder/phase.json` yet, here or on the workers of an executor, saving every cell, and draw
    `folder/phase.svg`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "phase.json"
    content = {"dim": dim, "rank": rank, "trials": trials, "recovered_below": RECOVERED, "cells": {}}
    if path.is_file():
        saved = json.loads(path.read_text())
        if {key: saved.get(key) for key in ("dim", "rank", "trials")} != {"dim": dim, "rank": rank, "trials": trials}:
            raise ValueError(
                f"{path} holds dim={saved.get('dim')}, rank={saved.get('rank')}, trials={saved.get('trials')}; "
                "choose another folder, or the same numbers to go on with it"
            )
        content = saved
    names = {(method, ratio): f"{method} {ratio:g}" for method, ratio in product(METHODS, RATIOS)}
    left = [(*cell, dim, rank, trials) for cell, name in names.items() if name not in content["cells"]]
    for done, ((method, ratio, *_), share) in enumerate(as_finished(successes, left, executor), len(names) - len(left)):
        found = content["cells"] | {names[method, ratio]: share}
        content["cells"] = {name: found[name] for name in names.values() if name in found}
        with written_whole(path) as part:
            part.write_text(json.dumps(content, indent=2) + "\n")
        if progress is not None:
            progress(done + 1, len(names), f"{method}, {ratio:g} measurements per parameter")
    curves = [ChartCurve(name, RATIOS, [content["cells"][f"{name} {ratio:g}"] for ratio in RATIOS]) for name in METHODS]
    chart(
        folder / "phase.svg",
        curves,
        title=f"Recovering a head of rank {rank} in dimension {dim}",
        x="measurements per free parameter of W",
        y="probability of success",
        caption=f"{trials} trials per point; adaptive: ours, rank unknown, with {OUR_EXTRA} queries for checks on top",
    )
    return content


def successes(method: str, ratio: float, dim: int, rank: int, trials: int) -> float:
    """The share of the trials in which a method recovers W."""
    return sum(succeeds(method, dim, rank, ratio, seed) for seed in range(trials)) / trials


def succeeds(method: str, dim: int, rank: int, ratio: float, seed: int) -> bool:
    rng = np.random.default_rng((seed, dim, rank))
    W = rng.standard_normal((dim, rank)) @ rng.standard_normal((rank, dim))
    m = round(ratio * rank * (2 * dim - rank))
    found = METHODS[method](W, rank, m, rng)
    return found is not None and bool(np.linalg.norm(found - W) <= RECOVERED * np.linalg.norm(W))


def solve_nuclear_norm(W: np.ndarray, rank: int, m: int, rng: np.random.Generator) -> np.ndarray:
    A, B = rng.standard_normal((2, m, len(W)))
    return sensing.nuclear_norm(A, B, np.sum(A @ W * B, axis=1), tol=MINIMISED).W


def solve_fixed_rank(W: np.ndarray, rank: int, m: int, rng: np.random.Generator) -> np.ndarray:
    A, B = rng.standard_normal((2, m, len(W)))
    return sensing.fixed_rank(A, B, np.sum(A @ W * B, axis=1), rank).W


def learn_adaptively(W: np.ndarray, rank: int, m: int, rng: np.random.Generator) -> np.ndarray | None:
    """The whole thing on a real head: v and the checks come on top of the m scores."""
    try:
        head = ValueOracle(Attention(W, rng.standard_normal(len(W))))
        model: Any = recover(head, budget=m + len(W) + OUR_EXTRA, seed=int(rng.integers(2**31))).model
        return model.W
    except BudgetExceeded:
        return None


METHODS = {"nuclear norm": solve_nuclear_norm, "fixed rank": solve_fixed_rank, "adaptive": learn_adaptively}
