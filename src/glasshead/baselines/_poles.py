"""`y(r) = sum_h c_h r / (r + exp(-s_h))`: the pairs (s, c) from values of y."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eig
from scipy.optimize import linear_sum_assignment

from .._types import Float

FURTHEST = 30.0  # past this size a score saturates whatever the ratio
STEPS = 60


def loewner(r: Float[np.ndarray, " M"], y: Float[np.ndarray, " M"]) -> tuple[np.ndarray, np.ndarray]:
    """The Loewner matrix of `y / r = sum_h c_h / (r + exp(-s_h))` between alternate points, and the shifted one."""
    phi, x = y / r, r
    (xa, xb), (fa, fb) = (x[::2], x[1::2]), (phi[::2], phi[1::2])
    gap = xa[:, None] - xb
    weight = np.sqrt(xa[:, None] * xb)  # rows and columns of one size: the poles do not change
    return weight * (fa[:, None] - fb) / gap, weight * ((xa * fa)[:, None] - xb * fb) / gap


def conditioning(r: np.ndarray, y: np.ndarray, heads: int) -> float:
    """The part that the last head has in the Loewner matrix: below the rounding of y it cannot be found."""
    s = np.linalg.svd(loewner(r, y)[0], compute_uv=False)
    return float(s[heads - 1] / s[0]) if s[0] > 0 else 0.0


def first_guess(r: np.ndarray, y: np.ndarray, heads: int) -> np.ndarray:
    """Scores from the poles of the rational interpolant; where one is no negative number, from its size."""
    L, shifted = loewner(r, y)
    U, _, Vt = np.linalg.svd(L)
    left, right = U[:, :heads].T, Vt[:heads].T
    poles = eig(left @ shifted @ right, left @ L @ right, right=False)
    sizes = np.abs(np.asarray(poles))
    return -np.log(np.clip(np.where(np.isfinite(sizes), sizes, 1.0), np.exp(-FURTHEST), np.exp(FURTHEST)))


def pairs(
    r: Float[np.ndarray, " M"], y: Float[np.ndarray, "P M"], total: Float[np.ndarray, " P"], heads: int
) -> tuple[Float[np.ndarray, "P H"], Float[np.ndarray, "P H"]]:
    """Scores and values for every row of y. `total` is the sum of the values: y at infinity, known beforehand.

    The poles of the interpolant, then Levenberg-Marquardt.
    """
    t, y = np.append(np.log(r), np.inf), np.column_stack([y, total])
    s = np.array([first_guess(r, row[:-1], heads) for row in y])
    return polished(s, least_squares(basis(s, t), y), t, y)


def polished(s, c, t, y, values_known: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg-Marquardt on all rows side by side, each with a damping of its own."""
    misfit, damping = np.linalg.norm(fitted(s, c, t) - y, axis=1), np.full(len(y), 1e-3)
    for _ in range(STEPS):
        ds, dc = step(s, c, t, y, damping, values_known)
        new_s, new_c = np.clip(s + ds, -FURTHEST, FURTHEST), c + dc
        new = np.linalg.norm(fitted(new_s, new_c, t) - y, axis=1)
        better = new < misfit
        s, c = np.where(better[:, None], new_s, s), np.where(better[:, None], new_c, c)
        misfit, damping = np.where(better, new, misfit), damping * np.where(better, 0.1, 10.0)
    return s, c


def basis(s: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "P M H"]:
    return 0.5 * (1 + np.tanh((s[:, None] + t[:, None]) / 2))


def fitted(s: np.ndarray, c: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "P M"]:
    return np.einsum("pmh,ph->pm", basis(s, t), c)


def least_squares(A: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("phm,pm->ph", np.linalg.pinv(A, rcond=1e-13), y)


def step(s, c, t, y, damping, values_known: bool) -> tuple[np.ndarray, np.ndarray]:
    weights = basis(s, t)
    by_score = c[:, None] * weights * (1 - weights)
    U, size, Vt = np.linalg.svd(by_score if values_known else np.dstack([by_score, weights]), full_matrices=False)
    rest = np.einsum("pmk,pm->pk", U, y - np.einsum("pmh,ph->pm", weights, c))
    small = (damping * size[:, 0])[:, None]
    both = np.einsum("pkl,pk->pl", Vt, rest * size / (size**2 + small**2 + np.finfo(float).tiny))
    heads = s.shape[1]
    return both[:, :heads], np.zeros_like(c) if values_known else both[:, heads:]


def by_sums(one, other, together) -> np.ndarray:
    """For each pair of `one` its partner in `other`, so that the half sums lie in `together`; all are (H, 2)."""
    sums = (one[:, None] + other) / np.sqrt(2)
    cost = np.sum((sums[:, :, None] - together) ** 2, axis=-1).min(axis=-1)
    return linear_sum_assignment(cost)[1]


def by_vectors(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each row of `one` the row of `other` that is the same vector."""
    return linear_sum_assignment(np.sum((one[:, None] - other) ** 2, axis=-1))[1]
