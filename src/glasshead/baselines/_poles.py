"""`y(r) = sum_h c_h r / (r + exp(-s_h))`: the pairs (s, c) from values of y."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eig
from scipy.optimize import least_squares, linear_sum_assignment
from scipy.special import expit

from .._types import Float

SATURATED_SCORE = 30.0  # past this size a score saturates whatever the ratio
FIT_ACCURACY = 1e-13  # relative: a few hundred roundings, past which neither a step nor a misfit says anything


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
    return -np.log(np.clip(np.where(np.isfinite(sizes), sizes, 1.0), np.exp(-SATURATED_SCORE), np.exp(SATURATED_SCORE)))


def pairs(
    r: Float[np.ndarray, " M"], y: Float[np.ndarray, "P M"], total: Float[np.ndarray, " P"], heads: int
) -> tuple[Float[np.ndarray, "P H"], Float[np.ndarray, "P H"]]:
    """Scores and values for every row of y. `total` is the sum of the values: y at infinity, known beforehand.

    The poles of the interpolant, then Levenberg-Marquardt.
    """
    t, y = np.append(np.log(r), np.inf), np.column_stack([y, total])
    s = np.array([first_guess(r, row[:-1], heads) for row in y])
    return polished(s, fitted_values(s, t, y), t, y)


def polished(s, c, t, y, values_known: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Scores and values that fit y best, row by row, from a first guess; by MINPACK's Levenberg-Marquardt."""
    rows = [polished_row(*row, t, values_known) for row in zip(s, c, y, strict=True)]
    return np.array([score for score, _ in rows]), np.array([value for _, value in rows])


def polished_row(s, c, y, t, values_known: bool) -> tuple[np.ndarray, np.ndarray]:
    def unpack(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.clip(x[: len(s)], -SATURATED_SCORE, SATURATED_SCORE), c if values_known else x[len(s) :]

    def residual(x: np.ndarray) -> np.ndarray:
        score, value = unpack(x)
        return expit(score + t[:, None]) @ value - y

    def jacobian(x: np.ndarray) -> np.ndarray:
        score, value = unpack(x)
        weight = expit(score + t[:, None])
        by_score = value * weight * (1 - weight)
        return by_score if values_known else np.hstack([by_score, weight])

    start = s if values_known else np.concatenate([s, c])
    stop = {"xtol": FIT_ACCURACY, "ftol": FIT_ACCURACY, "gtol": FIT_ACCURACY}
    found = least_squares(residual, start, jacobian, method="lm", **stop)  # type: ignore[arg-type]
    return unpack(found.x)


def fitted_values(s: Float[np.ndarray, "P H"], t: Float[np.ndarray, " M"], y: Float[np.ndarray, "P M"]) -> np.ndarray:
    """The values that fit y best beside given scores, for every row."""
    return np.array(
        [
            np.linalg.lstsq(expit(score + t[:, None]), row, rcond=FIT_ACCURACY)[0]
            for score, row in zip(s, y, strict=True)
        ]
    )


def by_sums(one, other, together) -> np.ndarray:
    """For each pair of `one` its partner in `other`, so that the half sums lie in `together`; all are (H, 2)."""
    sums = (one[:, None] + other) / np.sqrt(2)
    cost = np.sum((sums[:, :, None] - together) ** 2, axis=-1).min(axis=-1)
    return linear_sum_assignment(cost)[1]


def by_vectors(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each row of `one` the row of `other` that is the same vector."""
    return linear_sum_assignment(np.sum((one[:, None] - other) ** 2, axis=-1))[1]
