"""How exactly a head is recovered: the worst case over scales, zeros, biases and seeds, and the paper's own probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby, product
from statistics import median
from typing import Any

import numpy as np

import glasshead as gh

Progress = Callable[[int, int, str], None]

LIMITS = {"plain": 1e-12, "biased": 1e-10, "float32": 1e-5}
EXTRA = 64  # queries beyond one per free parameter
W_SCALES = (1e-6, 1.0, 30.0, 1e3)
V_SCALES = (1e-6, 1.0, 1e6)
KEY_BIASES = (0.0, 0.1, 1.0, 10.0)
BIASES = (0.0, 1.0, 10.0)
SEEDS = {
    "plain": {1: 20, 2: 20, 3: 20, 16: 20, 64: 5, 256: 1},
    "biased": {1: 6, 2: 6, 3: 6, 16: 6, 64: 1, 256: 1},
    "float32": {1: 100, 2: 100, 3: 100, 16: 100, 64: 40},
}
PAPER_SEEDS = {16: 5, 64: 2}
LOW_RANKS = {(32, 2): 10, (128, 8): 5, (512, 16): 2}  # (d, rank): seeds


@dataclass(frozen=True)
class Case:
    """One box. `Case(**row["worst_at"]).box()` rebuilds the one that a row of the results names.

    W and v are Gaussian times their scale; `half_zero` empties half of v. The key bias is `key_bias` times the
    root-mean-square norm of W's rows, the bias `bias` times the norm of v, both in random directions.
    """

    d: int
    W_scale: float = 1.0
    v_scale: float = 1.0
    half_zero: bool = False
    key_bias: float = 0.0
    bias: float = 0.0
    dtype: str = "float64"
    seed: int = 0

    def box(self) -> gh.Attention:
        rng = np.random.default_rng([self.d, self.seed])
        W = self.W_scale * rng.standard_normal((self.d, self.d))
        v = self.v_scale * rng.standard_normal(self.d)
        direction, sign = rng.standard_normal(self.d), rng.choice((-1.0, 1.0))
        if self.half_zero:
            v[rng.permutation(self.d)[: self.d // 2]] = 0.0
        row = np.linalg.norm(W) / np.sqrt(self.d)
        key_bias = self.key_bias * row * direction / np.linalg.norm(direction) if self.key_bias else None
        bias = sign * self.bias * np.linalg.norm(v)
        return gh.Attention(W.astype(self.dtype), v.astype(self.dtype), key_bias=key_bias, bias=bias)

    @property
    def parameters(self) -> int:
        """Free parameters, and so the least number of queries: with biases there are d + 1 more."""
        return self.d**2 + self.d + (self.d if self.key_bias else 0) + (1 if self.bias else 0)


@dataclass(frozen=True)
class Measured:
    """What one recovery got: relative error of W, queries beyond the parameters, and the bound relative to W."""

    case: Case
    error: float
    extra: int
    bound: float | None

    @property
    def bound_holds(self) -> bool:
        return self.bound is not None and self.bound >= self.error


def measure(case: Case, recover: Callable[[gh.Attention], gh.Recovery] = gh.recover) -> Measured:
    box = case.box()
    found = recover(box)
    W = box.W.astype(np.float64)
    size = float(np.linalg.norm(W))
    error = float(np.linalg.norm(found.model.W - W)) / size
    return Measured(case, error, found.queries - case.parameters, None if found.bound is None else found.bound / size)


def cases(kind: str) -> Iterator[Case]:
    """Every box of one kind, by dimension."""
    for d, seeds in SEEDS[kind].items():
        zeros = (False, True) if d >= 2 else (False,)
        if kind == "float32":
            yield from (Case(d, half_zero=zero, dtype=kind, seed=s) for zero, s in product(zeros, range(seeds)))
            continue
        grid = list(product(W_SCALES, V_SCALES, zeros))
        biases = [pair for pair in product(KEY_BIASES, BIASES) if any(pair)] if kind == "biased" else [(0.0, 0.0)]
        for index, (key_bias, bias) in enumerate(biases):
            # Large boxes take a second each: there every W meets every pair of biases, and v takes turns.
            chosen = grid if kind == "plain" or d <= 64 else grid[index % 6 :: 6]
            for (W_scale, v_scale, zero), seed in product(chosen, range(seeds)):
                yield Case(d, W_scale, v_scale, zero, key_bias, bias, seed=seed)


def rows(kind: str, progress: Progress) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row per dimension, and the boxes that were not recovered at all."""
    everything = list(cases(kind))
    table, refused, done = [], [], 0
    for d, group in groupby(everything, key=lambda case: case.d):
        measured = []
        for case in group:
            progress(done, len(everything), f"accuracy, {kind}, d = {d}")
            done += 1
            try:
                measured.append(measure(case))
            except Exception as error:  # a crash is a result too, and the worst one
                refused.append({"case": asdict(case), "why": f"{type(error).__name__}: {error}"})
        table.append({"kind": kind, "d": d} | worst(measured))
    return table, refused


def worst(measured: list[Measured]) -> dict[str, Any]:
    largest = max(measured, key=lambda m: m.error)
    most = max(measured, key=lambda m: m.extra)
    return {
        "boxes": len(measured),
        "error": largest.error,
        "median_error": median(m.error for m in measured),
        "worst_at": asdict(largest.case),
        "extra": most.extra,
        "extra_at": asdict(most.case),
        "bound": max(m.bound for m in measured if m.bound is not None),
        "bound_broken_at": [asdict(m.case) for m in measured if not m.bound_holds],
    }


def paper_rows(progress: Progress) -> list[dict[str, Any]]:
    """Theorem 4.1 with the paper's own probes against `gh.recover`, on the same boxes, by the size of W's entries."""
    table = []
    sizes = list(product(PAPER_SEEDS.items(), W_SCALES))
    for done, ((d, seeds), W_scale) in enumerate(sizes):
        progress(done, len(sizes), f"accuracy, the paper's probes, d = {d}")
        boxes = [Case(d, W_scale, v, zero, seed=s) for v, zero, s in product(V_SCALES, (False, True), range(seeds))]
        row: dict[str, Any] = {"d": d, "W_scale": W_scale, "boxes": len(boxes)}
        for name, recover in LEARNERS.items():
            errors = [measure(case, recover).error for case in boxes]
            row[name] = {"error": max(errors), "median_error": median(errors)}
        table.append(row)
    return table


def low_rank_rows(progress: Progress) -> list[dict[str, Any]]:
    """Heads of low rank, which is not told: queries over the free parameters, `2rd - r^2 + d`."""
    table = []
    for done, ((d, rank), seeds) in enumerate(LOW_RANKS.items()):
        progress(done, len(LOW_RANKS), f"accuracy, low rank, d = {d}")
        errors, ratios, bounded = [], [], True
        for seed in range(seeds):
            box = gh.Attention.random(d, rank=rank, seed=seed)
            found = gh.recover(box, seed=seed)
            error = float(np.linalg.norm(found.model.W - box.W))
            errors.append(error / float(np.linalg.norm(box.W)))
            ratios.append(found.queries / (2 * rank * d - rank**2 + d))
            bounded = bounded and found.bound is not None and found.bound >= error and found.rank == rank
        table.append({"d": d, "rank": rank, "boxes": seeds, "error": max(errors), "over_limit": max(ratios)})
        table[-1] |= {"rank_and_bound_right": bounded}
    return table


LEARNERS: dict[str, Callable[[gh.Attention], gh.Recovery]] = {
    "basis": lambda box: gh.paper.theorem_4_1(box, probes="basis"),
    "gaussian": lambda box: gh.paper.theorem_4_1(box, probes="gaussian"),
    "glasshead": gh.recover,
}


def run(progress: Progress) -> dict[str, Any]:
    table: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for kind in LIMITS:
        some, without = rows(kind, progress)
        table += some
        refused += without
    return {
        "limits": LIMITS | {"extra": EXTRA},
        "rows": table,
        "refused": refused,
        "paper": paper_rows(progress),
        "low_rank": low_rank_rows(progress),
    }


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"]:
        where = f"{row['kind']}, d = {row['d']}"
        if not row["error"] <= LIMITS[row["kind"]]:
            yield f"{where}: error {row['error']:.2g} > {LIMITS[row['kind']]:.0e} at {row['worst_at']}"
        if row["extra"] > EXTRA:
            yield f"{where}: {row['extra']} extra queries > {EXTRA} at {row['extra_at']}"
        for case in row["bound_broken_at"]:
            yield f"{where}: the bound is below the error at {case}"
    for row in result["low_rank"]:
        if not row["rank_and_bound_right"]:
            yield f"low rank, d = {row['d']}, rank {row['rank']}: a rank or a bound is wrong"
    for refusal in result["refused"]:
        yield f"not recovered: {refusal['case']}: {refusal['why']}"
