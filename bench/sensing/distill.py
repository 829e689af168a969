"""What people do today: fit a head to random queries with Adam. How many queries that takes, and how long.

    python -m bench.sensing.distill

The student knows the rank, W = K^T Q, and learns v as well. A pool of two-row Gaussian queries is asked once and
trained on to the end: the cheapest way in queries. Two kinds of tokens: of unit variance, and sized by somebody who
knows the head such that its scores have unit variance, which helps Adam most. The learning rate is the best of RATES,
with cosine decay. A pool counts as enough when every seed got there. Errors are of W and, on fresh queries, of the
function.
"""

from __future__ import annotations

import sys
import time
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

import glasshead as gh

from .instances import machine, save

SIZES = ((32, 2), (64, 4))
TOKENS = ("sized", "unit")
POOLS = (1, 2, 3, 4, 8, 16, 32)  # queries, in units of the information limit
RATES = (3e-2, 1e-1)
SEEDS = 2
STEPS = 3000
BATCH = 4096
FRESH = 4096
TARGETS = (1e-2, 1e-3)


class Student(NamedTuple):
    K: torch.Tensor
    Q: torch.Tensor
    v: torch.Tensor

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bnr,br->bn", X @ self.K.T, X[:, -1] @ self.Q.T)
        return torch.sum(torch.softmax(scores, dim=1) * (X @ self.v), dim=1)

    def W(self) -> np.ndarray:
        return (self.K.T @ self.Q).detach().numpy()


def target(dim: int, rank: int, seed: int = 0) -> gh.Attention:
    return gh.Attention.random(dim, rank=rank, seed=seed)


def limit(dim: int, rank: int) -> int:
    return rank * (2 * dim - rank) + dim


def queries(head: gh.Attention, tokens: str, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    size = head.dim**-0.25 if tokens == "sized" else 1.0
    X = size * np.random.default_rng(seed).standard_normal((count, 2, head.dim))
    return torch.from_numpy(X), torch.from_numpy(np.asarray(head(X)))


def row(dim: int, rank: int, tokens: str, pool: int, rate: float, seed: int = 0) -> dict[str, Any]:
    """One line of the table: Adam on `pool` times the information limit of queries."""
    head = target(dim, rank, seed)
    X, y = queries(head, tokens, pool * limit(dim, rank), seed + 100)
    start = time.perf_counter()
    student = train(X, y, rank, rate, seed)
    seconds = time.perf_counter() - start
    fresh, truth = queries(head, tokens, FRESH, seed + 200)
    with torch.no_grad():
        misfit = float(torch.linalg.norm(student(fresh) - truth) / torch.linalg.norm(truth))
    error = float(np.linalg.norm(student.W() - head.W) / np.linalg.norm(head.W))
    return {
        "dim": dim,
        "rank": rank,
        "tokens": tokens,
        "limit": limit(dim, rank),
        "queries": len(X),
        "rate": rate,
        "seconds": seconds,
        "W_error": error,
        "function_error": misfit,
    }


def train(X: torch.Tensor, y: torch.Tensor, rank: int, rate: float, seed: int) -> Student:
    generator = torch.Generator().manual_seed(seed)
    student = start_from(X.shape[2], rank, generator)
    optimizer = torch.optim.Adam(student, lr=rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for _ in range(STEPS):
        chosen = slice(None) if len(X) <= BATCH else torch.randint(len(X), (BATCH,), generator=generator)
        optimizer.zero_grad()
        torch.mean((student(X[chosen]) - y[chosen]) ** 2).backward()
        optimizer.step()
        decay.step()
    return student


def start_from(dim: int, rank: int, generator: torch.Generator) -> Student:
    K, Q = 0.3 * torch.randn((2, rank, dim), generator=generator, dtype=torch.float64)
    return Student(*(part.clone().requires_grad_() for part in (K, Q, torch.zeros(dim, dtype=torch.float64))))


def best(dim: int, rank: int, tokens: str, pool: int) -> dict[str, Any]:
    """The worst of the seeds, each with its best rate; the time is of that rate alone, as if it had been known."""
    seeds = ([row(dim, rank, tokens, pool, rate, seed) for rate in RATES] for seed in range(SEEDS))
    worst = max((min(rows, key=by_error) for rows in seeds), key=by_error)
    print(worst, file=sys.stderr, flush=True)
    return worst


def by_error(row: dict[str, Any]) -> float:
    return row["W_error"]


def needed(rows: list[dict[str, Any]], accuracy: float) -> int | None:
    """The smallest pool from which Adam reached this error of W; None where no pool did."""
    return min((each["queries"] for each in rows if each["W_error"] <= accuracy), default=None)


def main() -> None:
    torch.set_num_threads(1)  # the batches are small: a second thread gains little and measures the neighbours
    content: dict[str, Any] = {
        "machine": machine() | {"torch": torch.__version__},
        "steps": STEPS,
        "seeds": SEEDS,
        "rows": [],
        "needed": [],
    }
    for (dim, rank), tokens in product(SIZES, TOKENS):
        rows = []
        for pool in POOLS:
            rows.append(best(dim, rank, tokens, pool))
            save("distill", content | {"rows": content["rows"] + rows})
            if rows[-1]["W_error"] <= min(TARGETS):
                break
        content["rows"] += rows
        summary = {f"{accuracy:.0e}": needed(rows, accuracy) for accuracy in TARGETS}
        content["needed"].append({"dim": dim, "rank": rank, "tokens": tokens, "limit": limit(dim, rank)} | summary)
        save("distill", content)


if __name__ == "__main__":
    main()
