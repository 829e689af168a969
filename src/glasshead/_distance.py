"""How far apart two models are, up to what no query can see."""

from __future__ import annotations

import numpy as np

from ._models import Attention


def distance(a, b) -> float:
    """The larger of the relative distances of W (with the key bias as one more column) and of v (with the bias).

    >>> gh.distance(gh.Attention.random(4, seed=1), gh.Attention.random(4, seed=1))
    0.0

    Relative to the larger of the two norms. Where both have v = 0 nothing shows W, so W does not count; models of
    different dimensions are infinitely far apart.
    """
    for model in (a, b):
        if not isinstance(model, Attention):
            raise TypeError(f"expected two gh.Attention models, got {type(model).__name__}")
    if a.dim != b.dim or a.v.size != b.v.size:  # one output is one output, as (d,) or as (d, 1)
        return float("inf")
    values = relative(np.append(a.v, a.bias), np.append(b.v, b.bias))
    if not np.any(a.v) and not np.any(b.v):
        return values
    return max(values, relative(np.c_[a.W, a.key_bias], np.c_[b.W, b.key_bias]))


def relative(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    size = max(np.linalg.norm(x), np.linalg.norm(y))
    return 0.0 if size == 0 else float(np.linalg.norm(x - y) / size)
