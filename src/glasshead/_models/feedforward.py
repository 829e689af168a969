"""The parts of `gh.Block.random`: its heads, and behind them a GELU network with a LayerNorm before and after it, as in
BERT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._types import Float
from .attention import Attention
from .norm import TORCH_EPS, Norm


@dataclass(frozen=True, eq=False)
class Feedforward:
    """What stands behind the heads of a random block, asked about single tokens: `norm(y + gelu(y A + a) C)` with `y =
    norm(x S + c)`, where norm is LayerNorm with torch's eps."""

    S: Float[np.ndarray, "d d"]
    c: Float[np.ndarray, " d"]
    A: Float[np.ndarray, "d m"]
    a: Float[np.ndarray, " m"]
    C: Float[np.ndarray, "m d"]

    @classmethod
    def random(cls, S: np.ndarray, rng: np.random.Generator) -> Feedforward:
        """Four times as wide as tokens are long."""
        d, m = len(S), 4 * len(S)
        A, C = rng.standard_normal((d, m)) / np.sqrt(d), 0.5 * rng.standard_normal((m, d)) / np.sqrt(m)
        return cls(S, 0.1 * rng.standard_normal(d), A, 0.1 * rng.standard_normal(m), C)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        norm = Norm("layer", TORCH_EPS)
        y = norm(X[:, -1] @ self.S + self.c)
        z = y @ self.A + self.a
        return norm(y + z * (1 + erf(z / np.sqrt(2))) / 2 @ self.C)

    def tensors(self) -> dict[str, np.ndarray]:
        return {"S": self.S, "c": self.c, "A": self.A, "a": self.a, "C": self.C}

    @classmethod
    def from_tensors(cls, tensors: dict[str, np.ndarray]) -> Feedforward:
        return cls(**tensors)


def random_head(dim: int, rank: int, rng: np.random.Generator) -> Attention:
    """Scores of the order of one for tokens with entries of that order, and values that all heads together make so."""
    Q, K, V, O = (rng.standard_normal((rank, dim)) / np.sqrt(dim) for _ in range(4))  # noqa: E741 (its name everywhere)
    key_bias = K.T @ rng.standard_normal(rank) / np.sqrt(rank)
    v = V.T @ O
    return Attention(np.sqrt(dim) / rank * K.T @ Q, v, key_bias=0.3 * key_bias)
