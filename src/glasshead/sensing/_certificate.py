"""Proof that no W that fits has a smaller nuclear norm: a dual point, and how to finish one exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Float
from ._check import degrees_of_freedom
from ._factors import Factors
from ._gauss_newton import fit
from ._gram import Constraints
from ._rows import Point
from ._tangent import Tangent, least_norm

# Gauss-Newton from the right rank needs about six steps; more than this and the rank was wrong.
FINISH_STEPS = 12
FINISH_SOLVES = 400


class Proof(NamedTuple):
    """W with its misfit, and y scaled such that the largest singular value of `sum_k y_k a_k b_k^T` is 1."""

    point: Point
    y: Float[np.ndarray, "m"]
    gap: float
    outside: float


def prove(constraints: Constraints, point: Point, y: Float[np.ndarray, "m"]) -> Proof:
    D = constraints.adjoint(y)
    norm = float(np.linalg.norm(D, 2)) or 1.0
    value = float(np.sum(point.W.s))
    gap = 1.0 - float(y @ constraints.rows.t) / norm / value if value > 0 else 1.0
    return Proof(point, y / norm, gap, _outside(D / norm, point.W))


def finish(constraints: Constraints, low: Factors, y: Float[np.ndarray, "m"], tol: float) -> Proof | None:
    """Fix the rank, fit W to all digits, and bend y until W meets it with equality; None if the rank was wrong.

    W minimises the nuclear norm if `sum_k y_k a_k b_k^T` is `U V^T` on W's tangent space and at most 1 elsewhere.
    Douglas-Rachford brings y near; the shortest correction that mends the tangent part leaves the rest nearly alone.
    """
    rank, rows = len(low.s), constraints.rows
    if rank == 0 or degrees_of_freedom(low.U.shape[1], low.V.shape[1], rank) > len(rows):
        return None
    point = fit(rows, low, tol=1e-4 * tol, max_steps=FINISH_STEPS).point
    if point.residual > tol:
        return None
    tangent = Tangent(rows.A, rows.B, point.W, point.AU, point.BV)
    missing = np.hstack([point.W.U, np.zeros_like(point.W.V)]) - tangent.adjoint(y)
    bent = y + least_norm(tangent, missing, accuracy=1e-2 * tol, limit=FINISH_SOLVES)
    return prove(constraints, point, bent)


def _outside(D: Float[np.ndarray, "d1 d2"], W: Factors) -> float:
    D = D - W.U.T @ (W.U @ D)
    return float(np.linalg.norm(D - (D @ W.V.T) @ W.V, 2))
