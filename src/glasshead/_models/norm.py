"""`gh.Norm`: LayerNorm or RMSNorm without gains and shifts, and the way back through one beside a residual map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from .._types import Float


@dataclass(frozen=True)
class Norm:
    """LayerNorm (`kind="layer"`) or RMSNorm (`kind="rms"`) with the given eps, without gains and shifts, before the
    heads or behind them; `eps=None` where it is not known, or too small to matter.

    >>> gh.Norm("layer", 1e-5)(np.array([1.0, 3.0])).round(3).tolist()
    [-1.0, 1.0]
    """

    kind: str
    eps: Any = None  # a float, or None
    place: str = "before"

    kinds: ClassVar[tuple[str, ...]] = ("layer", "rms")
    places: ClassVar[tuple[str, ...]] = ("before", "behind")

    def __post_init__(self) -> None:
        if self.kind not in self.kinds or not (self.eps is None or 0 < self.eps < np.inf):
            raise ValueError(f"expected a kind from {self.kinds} and a finite eps > 0, got {self.kind!r}, {self.eps!r}")
        if self.place not in self.places:
            raise ValueError(f"expected a place from {self.places}, got {self.place!r}")

    def centred(self, X: np.ndarray) -> np.ndarray:
        return X - X.mean(axis=-1, keepdims=True) if self.kind == "layer" else X

    def __call__(self, X: np.ndarray) -> np.ndarray:
        centred = self.centred(X)
        return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + (self.eps or 0.0))

    def token(self, Z: np.ndarray) -> np.ndarray:
        """Tokens with `norm(token(Z)) = Z`. Any Z works that is shorter than sqrt(d), and centred for "layer"."""
        return Z * np.sqrt(self.eps / (1 - np.mean(Z**2, axis=-1, keepdims=True)))


TORCH_EPS = 1e-5  # of torch.nn.LayerNorm unless told otherwise

INVERSION_STEPS, INVERSION_STARTS = 60, 24
INVERSION_ACCURACY = 1e-12  # of what is looked for


def token_before(norm: Norm, total: np.ndarray, u: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b d"]:
    """Tokens x with `x + norm(x) total = u`, by Newton's method with steps that are shortened where they go astray."""
    d, found = u.shape[1], np.full(u.shape, np.nan)
    centre = np.eye(d) - (1 / d if norm.kind == "layer" else 0.0)
    eps, rng = norm.eps or 0.0, np.random.default_rng(0)
    size = np.linalg.norm(u, axis=1) + np.linalg.norm(total)

    def missing(x: np.ndarray, u: np.ndarray) -> np.ndarray:
        return x + norm(x) @ total - u

    for start in range(INVERSION_STARTS):
        todo = np.flatnonzero(np.isnan(found[:, 0]))
        x = u[todo] - norm(u[todo]) @ total
        if start:
            x = rng.standard_normal(x.shape) * np.linalg.norm(x, axis=1, keepdims=True) / np.sqrt(d)
        left = missing(x, u[todo])
        for _ in range(INVERSION_STEPS):
            done = np.linalg.norm(left, axis=1) <= INVERSION_ACCURACY * size[todo]
            found[todo[done]] = x[done]
            todo, x, left = todo[~done], x[~done], left[~done]
            if len(todo) == 0:
                return found
            n, width = norm(x), np.sqrt(np.mean((x @ centre) ** 2, axis=1) + eps)
            slope = (centre - n[:, :, None] * n[:, None, :] / d) / width[:, None, None]
            tangent = (np.eye(d) + slope @ total).swapaxes(1, 2)
            step = cast("np.ndarray", np.linalg.solve(tangent, -left[..., None]))[..., 0]
            share = np.ones(len(x))
            for _ in range(12):
                there = missing(x + share[:, None] * step, u[todo])
                worse = np.linalg.norm(there, axis=1) > (1 - share / 4) * np.linalg.norm(left, axis=1)
                if not worse.any():
                    break
                share = np.where(worse, share / 2, share)
            x = x + share[:, None] * step
            left = missing(x, u[todo])
    return found
