"""What every comparison here measures: W from Gaussian factors, Gaussian directions, and the machine it ran on."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULTS = Path(__file__).parent / "results"


class Instance(NamedTuple):
    W: np.ndarray
    A: np.ndarray
    B: np.ndarray
    t: np.ndarray

    def first(self, m: int) -> Instance:
        return Instance(self.W, self.A[:m], self.B[:m], self.t[:m])

    def error(self, W: np.ndarray) -> float:
        return float(np.linalg.norm(W - self.W) / np.linalg.norm(self.W))


def instance(dim: int, rank: int, m: int, seed: int = 0) -> Instance:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((dim, rank)) @ rng.standard_normal((rank, dim))
    A, B = rng.standard_normal((m, dim)), rng.standard_normal((m, dim))
    return Instance(W, A, B, np.einsum("md,md->m", A @ W, B))


def dof(dim: int, rank: int) -> int:
    return rank * (2 * dim - rank)


def machine() -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def load(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def save(name: str, content: dict[str, Any]) -> None:
    """Written beside and moved into place: an interrupted run leaves the last whole file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    half = path.with_suffix(".half")
    half.write_text(json.dumps(content, indent=1) + "\n")
    half.replace(path)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
