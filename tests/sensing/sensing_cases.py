"""The instances of these tests: W from Gaussian factors, Gaussian directions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    W: np.ndarray
    A: np.ndarray
    B: np.ndarray
    t: np.ndarray

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.A, self.B, self.t

    def error(self, W: np.ndarray) -> float:
        return float(np.linalg.norm(W - self.W) / np.linalg.norm(self.W))


def dof(d1: int, d2: int, rank: int) -> int:
    return rank * (d1 + d2 - rank)


def gaussian(d1: int, d2: int, rank: int, m: int, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d1, rank)) @ rng.standard_normal((rank, d2))
    return measured(W, m, rng)


def with_values(d: int, values: list[float], m: int, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, len(values))))[0] for _ in range(2))
    return measured((U * values) @ V.T, m, rng)


def measured(W: np.ndarray, m: int, rng: np.random.Generator) -> Case:
    A, B = rng.standard_normal((m, W.shape[0])), rng.standard_normal((m, W.shape[1]))
    return Case(W, A, B, measure(W, A, B))


def measure(W: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("md,md->m", A @ W, B)


def residual(W: np.ndarray, case: Case) -> float:
    return float(np.linalg.norm(measure(W, case.A, case.B) - case.t) / np.linalg.norm(case.t))
