"""Normalisation of tokens before a head, and the way back: every token inside a ball is some token's normalisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np


@dataclass(frozen=True)
class Norm:
    """LayerNorm (`kind="layer"`) or RMSNorm (`kind="rms"`) with the given eps, without gains and shifts.

    >>> gh.Norm("layer", 1e-5)(np.array([1.0, 3.0])).round(3).tolist()
    [-1.0, 1.0]
    """

    kind: str
    eps: float

    kinds: ClassVar[tuple[str, ...]] = ("layer", "rms")

    def __post_init__(self) -> None:
        if self.kind not in self.kinds or not self.eps > 0:
            raise ValueError(f"expected a kind from {self.kinds} and eps > 0, got {self.kind!r}, {self.eps!r}")

    def centred(self, X: np.ndarray) -> np.ndarray:
        return X - X.mean(axis=-1, keepdims=True) if self.kind == "layer" else X

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = self.centred(X)
        return X / np.sqrt(np.mean(X**2, axis=-1, keepdims=True) + self.eps)

    def token(self, Z: np.ndarray) -> np.ndarray:
        """Tokens with `norm(token(Z)) = Z`. Any Z works that is shorter than sqrt(d), and centred for "layer"."""
        return Z * np.sqrt(self.eps / (1 - np.mean(Z**2, axis=-1, keepdims=True)))
