"""Silencing all heads but one: a key that moves no value but turns every other head's weight to 0.

Keys along the other heads' values are answered by these as well. To see head h there, add a vector n orthogonal to all
v, with `n.k_h = 0` and `n.k_g` very negative for the others: their weight is then 0, whatever their values.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from .._errors import NotConverged
from .._types import Float

PATTERNS = 64  # of signs, tried where not all heads can be silenced at once
FEASIBLE = 1e-9  # of the residual of the least-distance problem: 0 means that no vector does it


def steering(
    keys: Float[np.ndarray, "H n"], h: int, depth: Float[np.ndarray, " H"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, " n"], np.ndarray]:
    """The shortest n with `n.k_h = 0` and `n.k_g <= -depth_g` for the others, and which heads it turns on instead.

    With more heads than room some may have to be turned on: their weight is then 1, as good as 0.
    """
    others = np.arange(len(keys)) != h
    own = keys[h] / (np.linalg.norm(keys[h]) or 1.0)
    walls = (keys - np.outer(keys @ own, own))[others] / depth[others, None]
    best, signs = shortest(-walls), -np.ones(len(walls))
    for _ in range(PATTERNS if best is None else 0):
        tried = np.sign(walls @ rng.standard_normal(keys.shape[1]))
        n = shortest(tried[:, None] * walls)
        if n is not None and (best is None or n @ n < best @ best):
            best, signs = n, tried
    if best is None:
        raise NotConverged(f"{len(keys)} heads leave no room to silence all but one: their keys are too alike")
    on = np.zeros(len(keys), bool)
    on[others] = signs > 0
    return best, on


def shortest(walls: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " d"] | None:
    """The shortest x with `walls @ x >= 1`: least distance programming, by way of non-negative least squares."""
    if len(walls) == 0:
        return np.zeros(walls.shape[1])
    scale = float(np.linalg.norm(walls, axis=1).max())
    if scale == 0:
        return None
    Q, R = np.linalg.qr(walls.T / scale)
    system = np.vstack([R, np.ones(len(walls))])
    target = np.zeros(len(system))
    target[-1] = 1.0
    weights, residual = nnls(system, target)
    left = system @ weights - target
    if residual <= FEASIBLE or left[-1] >= 0:
        return None
    return Q @ (-left[:-1] / left[-1]) / scale
