"""Gauss-Newton with damping on the manifold of rank-r matrices, every linear solve matrix-free."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ._factors import Factors, Tangent, damped_least_squares, retract
from ._measurements import Point, Rows

# Single precision cannot resolve a linear solve much further; Gauss-Newton then gains these digits per step.
SINGLE_ACCURACY = 1e-4
# Far from the solution the linear model is wrong by more than this anyway.
ROUGH_ACCURACY = 0.1
# Conjugate gradients have either converged by then or are better restarted from a damped problem.
SOLVE_LIMIT = 400
# A step that cannot lower the squared misfit by this fraction: a local minimum, to about 1e-5 of the misfit.
STATIONARY = 1e-10
# A start that has not halved its misfit in this many steps is stuck in a valley.
VALLEY_STEPS = 20


class Fit(NamedTuple):
    point: Point
    steps: int
    stationary: bool


class Step(NamedTuple):
    trial: Point
    promised: float
    """The fraction of the squared misfit that the linear model says goes away."""


def gauss_newton(
    rows: Rows, start: Factors, *, tol: float, max_steps: int, report: Callable[[float], None] | None = None
) -> Fit:
    point, damping, single = Point(rows, start), 0.1, True
    sizes = [point.size]
    for steps in range(max_steps):
        if point.residual <= tol or _stuck(sizes):
            return Fit(point, steps, stationary=False)
        trial, promised = _step(rows, point, damping, single=single, tol=tol)
        if promised <= STATIONARY and not single:
            return Fit(point, steps, stationary=True)
        quality = (1.0 - (trial.size / point.size) ** 2) / max(promised, STATIONARY)
        damping *= 0.25 if quality > 0.75 else 4.0 if quality < 0.25 else 1.0
        # A poor step may be the fault of single precision or of the model; rule out the first before damping more.
        single = single and quality > 0.25
        if trial.size < point.size:
            point = trial
        sizes.append(point.size)
        if report is not None:
            report(point.residual)
    return Fit(point, max_steps, stationary=False)


def _step(rows: Rows, point: Point, damping: float, *, single: bool, tol: float) -> Step:
    A, B = rows.single if single else (rows.A, rows.B)
    tangent = Tangent(A, B, point.W, point.AU, point.BV)
    length = float(np.linalg.norm(point.misfit))
    # Newton's own error is of the order of the misfit, so a more accurate solve than that is wasted,
    # and so is one that goes past the tolerance asked for.
    useful = max(point.size, 0.1 * tol / point.residual, SINGLE_ACCURACY if single else 0.0)
    solved = damped_least_squares(
        tangent,
        point.misfit / length,
        damping=damping * min(point.size, 1.0) * len(rows),
        accuracy=min(ROUGH_ACCURACY, useful),
        limit=_solve_limit(point.W),
    )
    trial = Point(rows, retract(point.W, length * solved.z.astype(np.float64)))
    return Step(trial, 1.0 - float(np.linalg.norm(solved.misfit)) ** 2)


def _solve_limit(W: Factors) -> int:
    (rank, d1), d2 = W.U.shape, W.V.shape[1]
    # At full rank the problem is linear: only a finished solve helps, and rounding delays it past the dimension.
    return 4 * d1 * d2 if rank == min(d1, d2) else SOLVE_LIMIT


def _stuck(sizes: list[float]) -> bool:
    return len(sizes) > VALLEY_STEPS and sizes[-1] > 0.5 * sizes[-1 - VALLEY_STEPS]
