"""The nuclear-norm program, ours against cvxpy with SCS: time and memory, each in a process of its own.

    python -m bench.sensing.against_cvxpy

SCS gets `eps` = 1e-6, ours its default of 1e-8; both errors are in the table. Both are timed from the arrays A, B, t to
W, after a small problem that loads everything; memory is the peak above what was resident before the call.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..fresh import measured
from ..memory import high_water, resident
from .instances import Instance, dof, instance, machine, save

SIZES = ((32, 2, 5), (64, 4, 3), (96, 4, 1))  # dim, rank, runs of the other side (ours has twice as many)
ALONE = (256, 4)
SCS_EPS = 1e-6
THREADS = 1  # on a machine shared with others, more of them measure the others


def ours(dim: int, rank: int, seed: int) -> dict[str, Any]:
    from glasshead import sensing

    def solve(data: Instance) -> tuple[np.ndarray, dict[str, Any]]:
        found = sensing.nuclear_norm(data.A, data.B, data.t)
        assert found.certificate is not None
        return found.W, {
            "converged": found.converged,
            "iterations": found.iterations,
            "gap": found.certificate.gap,
            "residual": found.residual,
        }

    return _timed(solve, dim, rank, seed)


def theirs(dim: int, rank: int, seed: int) -> dict[str, Any]:
    import cvxpy as cp

    def solve(data: Instance) -> tuple[np.ndarray, dict[str, Any]]:
        W = cp.Variable(data.W.shape)
        problem = cp.Problem(cp.Minimize(cp.normNuc(W)), [cp.sum(cp.multiply(data.A @ W, data.B), axis=1) == data.t])
        problem.solve(solver=cp.SCS, eps_abs=SCS_EPS, eps_rel=SCS_EPS)
        stats = problem.solver_stats
        solver_only = (stats.solve_time or 0.0) + (stats.setup_time or 0.0)
        return W.value, {"converged": problem.status == "optimal", "iterations": stats.num_iters, "solver": solver_only}

    return _timed(solve, dim, rank, seed)


def _timed(solve: Callable[[Instance], tuple[np.ndarray, dict[str, Any]]], dim: int, rank: int, seed: int) -> dict:
    solve(instance(6, 1, 30))
    data = instance(dim, rank, 3 * dof(dim, rank), seed)
    before, start = resident(), time.perf_counter()
    W, more = solve(data)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "MB": high_water() - before, "error": data.error(W)} | more


def _runs(side: str, dim: int, rank: int, count: int) -> dict[str, Any]:
    rows = []
    for seed in range(count):
        rows.append(measured(f"bench.sensing.against_cvxpy.{side}({dim}, {rank}, {seed})", THREADS))
        print(f"{side} d={dim} r={rank}: {rows[-1]}", file=sys.stderr, flush=True)
    return {
        "seconds": statistics.median(row["seconds"] for row in rows),
        "MB": max(row["MB"] for row in rows) if side == "ours" else min(row["MB"] for row in rows),
        "error": max(row["error"] for row in rows),
        "runs": rows,
    }


def compare(dim: int, rank: int, count: int) -> dict[str, Any]:
    us, them = _runs("ours", dim, rank, 2 * count), _runs("theirs", dim, rank, count)
    solver_only = statistics.median(row["solver"] for row in them["runs"])
    return {
        "dim": dim,
        "rank": rank,
        "m": 3 * dof(dim, rank),
        "ours": us,
        "theirs": them,
        "times_faster": them["seconds"] / us["seconds"],
        "times_faster_than_solver_alone": solver_only / us["seconds"],
        "times_less_memory": them["MB"] / us["MB"],
    }


def main() -> None:
    content: dict[str, Any] = {"machine": machine(), "threads": THREADS, "scs_eps": SCS_EPS, "rows": []}
    for size in SIZES:
        content["rows"].append(compare(*size))
        save("against_cvxpy", content)
    dim, rank = ALONE
    content["alone"] = {"dim": dim, "rank": rank, "m": 3 * dof(dim, rank)} | _runs("ours", dim, rank, 2)
    save("against_cvxpy", content)


if __name__ == "__main__":
    main()
