"""How exactly a head is recovered: the worst case over scales, zeros, biases and seeds, and the paper's own probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median
from typing import Any

import numpy as np

import glasshead as gh

from .fresh import measured

Progress = Callable[[int, int, str], None]

LIMITS = {"plain": 1e-12, "biased": 1e-10, "float32": 1e-5}
EXTRA = 104  # queries beyond one per free parameter, without biases
W_SCALES = (1e-6, 1.0, 30.0, 1e3)
V_SCALES = (1e-6, 1.0, 1e6)
KEY_BIASES = (0.0, 0.1, 1.0, 10.0)
BIASES = (0.0, 1.0, 10.0)
SEEDS = {
    "plain": {1: 20, 2: 20, 3: 20, 16: 20, 64: 10, 256: 1},
    "biased": {1: 8, 2: 8, 3: 8, 16: 8, 64: 3, 256: 1},
    "float32": {1: 100, 2: 100, 3: 100, 16: 100, 64: 60},
}
CORNER = {"W_scale": 1e3, "key_bias": 10.0, "bias": 10.0}  # the hardest of the biased boxes: more seeds of these
CORNER_SEEDS = {1: 30, 2: 30, 3: 30, 16: 30, 64: 20, 256: 2}
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


def cases(kind: str, d: int) -> Iterator[Case]:
    """Every box of one kind and dimension."""
    zeros = (False, True) if d >= 2 else (False,)
    if kind == "corner":  # seeds that the grid does not have
        more = range(SEEDS["biased"][d], SEEDS["biased"][d] + CORNER_SEEDS[d])
        yield from (Case(d, half_zero=zero, seed=seed, **CORNER) for zero, seed in product(zeros, more))
        return
    seeds = range(SEEDS[kind][d])
    if kind == "float32":
        yield from (Case(d, half_zero=zero, dtype=kind, seed=seed) for zero, seed in product(zeros, seeds))
        return
    grid = list(product(W_SCALES, V_SCALES, zeros))
    biases = [pair for pair in product(KEY_BIASES, BIASES) if any(pair) == (kind == "biased")]
    for index, (key_bias, bias) in enumerate(biases):
        # Large boxes take a second each: there every W meets every pair of biases, and v takes turns.
        chosen = grid if kind == "plain" or d <= 64 else grid[index % 6 :: 6]
        for (W_scale, v_scale, zero), seed in product(chosen, seeds):
            yield Case(d, W_scale, v_scale, zero, key_bias, bias, seed=seed)


def child(kind: str, d: int) -> dict[str, Any]:
    """One row, and the boxes that were not recovered at all."""
    got, refused = [], []
    for case in cases(kind, d):
        try:
            got.append(measure(case))
        except Exception as error:  # a crash is a result too, and the worst one
            refused.append({"case": asdict(case), "why": f"{type(error).__name__}: {error}"})
    return {"row": {"kind": kind, "d": d} | worst(got), "refused": refused}


def worst(got: list[Measured]) -> dict[str, Any]:
    largest = max(got, key=lambda m: m.error)
    most = max(got, key=lambda m: m.extra)
    return {
        "boxes": len(got),
        "error": largest.error,
        "above_1e-10": sum(m.error > 1e-10 for m in got),
        "median_error": median(m.error for m in got),
        "worst_at": asdict(largest.case),
        "extra": most.extra,
        "extra_at": asdict(most.case),
        "bound": max(m.bound for m in got if m.bound is not None),
        "bound_broken_at": [asdict(m.case) for m in got if not m.bound_holds],
    }


def paper_child(d: int, W_scale: float) -> dict[str, Any]:
    """Theorem 4.1 with the paper's own probes against `gh.recover`, on the same boxes, for one size of W's entries."""
    seeds = range(PAPER_SEEDS[d])
    boxes = [Case(d, W_scale, v, zero, seed=seed) for v, zero, seed in product(V_SCALES, (False, True), seeds)]
    row: dict[str, Any] = {"d": d, "W_scale": W_scale, "boxes": len(boxes)}
    for name, recover in LEARNERS.items():
        errors = [measure(case, recover).error for case in boxes]
        row[name] = {"error": max(errors), "median_error": median(errors)}
    return row


LEARNERS: dict[str, Callable[[gh.Attention], gh.Recovery]] = {
    "basis": lambda box: gh.paper.theorem_4_1(box, probes="basis"),
    "gaussian": lambda box: gh.paper.theorem_4_1(box, probes="gaussian"),
    "glasshead": gh.recover,
}


def low_rank_child(d: int, rank: int) -> dict[str, Any]:
    """Heads of low rank, which is not told: the most queries, against `2rd - r^2 + d` free parameters."""
    parameters = 2 * rank * d - rank**2 + d
    errors, queries, right = [], [], True
    for seed in range(LOW_RANKS[d, rank]):
        box = gh.Attention.random(d, rank=rank, seed=seed)
        found = gh.recover(box, seed=seed)
        error = float(np.linalg.norm(found.model.W - box.W))
        errors.append(error / float(np.linalg.norm(box.W)))
        queries.append(found.queries)
        right = right and found.rank == rank and found.bound is not None and bool(found.bound >= error)
    row = {"d": d, "rank": rank, "boxes": len(errors), "error": max(errors)}
    return row | {"parameters": parameters, "queries": max(queries), "rank_and_bound_right": right}


def run(progress: Progress) -> dict[str, Any]:
    """Each row in a process of its own, with one thread: on a busy machine more of them only wait for each other."""
    rows = [f"child({kind!r}, {d})" for kind in LIMITS for d in SEEDS[kind]]
    corner = [f"child('corner', {d})" for d in CORNER_SEEDS]
    paper = [f"paper_child({d}, {W_scale})" for d, W_scale in product(PAPER_SEEDS, W_SCALES)]
    low_rank = [f"low_rank_child({d}, {rank})" for d, rank in LOW_RANKS]
    results = {}
    for done, call in enumerate(calls := [*rows, *corner, *paper, *low_rank]):
        progress(done, len(calls), f"accuracy: {call}")
        results[call] = measured(f"bench.accuracy.{call}", threads=1)
    return {
        "limits": LIMITS | {"extra": EXTRA},
        "rows": [results[call]["row"] for call in rows],
        "corner": [results[call]["row"] for call in corner],
        "refused": [refusal for call in rows + corner for refusal in results[call]["refused"]],
        "paper": [results[call] for call in paper],
        "low_rank": [results[call] for call in low_rank],
    }


def broken(result: dict[str, Any]) -> Iterable[str]:
    """A sentence for every number that misses its limit."""
    for row in result["rows"] + result["corner"]:
        where = f"{row['kind']}, d = {row['d']}"
        # The corner shows by how much and how often the limit for biases is missed on more seeds of its hardest boxes.
        if not row["error"] <= LIMITS.get(row["kind"], np.inf):
            yield f"{where}: error {row['error']:.2g} > {LIMITS[row['kind']]:.0e} at {row['worst_at']}"
        if (
            row["kind"] not in ("biased", "corner") and row["extra"] > EXTRA
        ):  # of boxes with biases the README says the number
            yield f"{where}: {row['extra']} extra queries > {EXTRA} at {row['extra_at']}"
        for case in row["bound_broken_at"]:
            yield f"{where}: the bound is below the error at {case}"
    for row in result["low_rank"]:
        if not row["rank_and_bound_right"]:
            yield f"low rank, d = {row['d']}, rank {row['rank']}: a rank or a bound is wrong"
    for refusal in result["refused"]:
        yield f"not recovered: {refusal['case']}: {refusal['why']}"
