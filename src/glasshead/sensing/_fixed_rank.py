"""`gh.sensing.fixed_rank`: W of a known rank, from spectral starts and Gauss-Newton until one of them fits.

The start is made of the leading singular vectors of `sum_k t_k a_k b_k^T`, for Gaussian rows a multiple of W on
average. Gauss-Newton with damping runs on the matrices of that rank, every linear solve matrix-free; where it ends in a
local minimum, a random half of the measurements gives another start.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from .._types import Float
from ._factors import Factors, Tangent, damped_least_squares, retract
from ._measurements import EvenRows, Point, as_measurements, degrees_of_freedom, require_matrix_rank, require_settings
from ._result import Progress, Sensed, zero

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
    rows: EvenRows, start: Factors, *, tol: float, max_steps: int, report: Callable[[float], None] | None = None
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


def _step(rows: EvenRows, point: Point, damping: float, *, single: bool, tol: float) -> Step:
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


# Subspace iteration: the guess is only good to tens of percent, so a few rounds with a few spare columns do.
SUBSPACE_ROUNDS = 2
SPARE_COLUMNS = 8


def spectral_start(rows: EvenRows, rank: int, rng: np.random.Generator, *, share: float = 1.0) -> Factors:
    """From a random `share` of the measurements: less than all of them gives a fresh guess for a restart."""
    weights = rows.t if share >= 1.0 else rows.t * (rng.random(len(rows)) < share)
    guess = _leading(rows, weights, rank, rng)
    return guess._replace(s=guess.s * _best_scale(rows, guess))


def _leading(rows: EvenRows, weights: Float[np.ndarray, "m"], rank: int, rng: np.random.Generator) -> Factors:
    A, B = rows.single
    weights = weights.astype(np.float32)
    width = min(rank + SPARE_COLUMNS, A.shape[1], B.shape[1])
    right = _orthonormal(rng.standard_normal((width, B.shape[1]), dtype=np.float32))
    for _ in range(SUBSPACE_ROUNDS):
        left = _orthonormal((weights * (right @ B.T)) @ A)
        right = _orthonormal((weights * (left @ A.T)) @ B)
    left = _orthonormal((weights * (right @ B.T)) @ A)
    image = (weights * (left @ A.T)) @ B
    u, s, v = np.linalg.svd(image.astype(np.float64), full_matrices=False)
    U, V = _orthonormal((u.T @ left)[:rank].astype(np.float64)), _orthonormal(v[:rank])
    return Factors(U, s[:rank] / len(rows), V)


def _orthonormal(rows: Float[np.ndarray, "r d"]) -> Float[np.ndarray, "r d"]:
    return np.linalg.qr(rows.T)[0].T.copy()


def _best_scale(rows: EvenRows, W: Factors) -> float:
    predicted = rows.t - Point(rows, W).misfit
    energy = float(predicted @ predicted)
    return abs(float(predicted @ rows.t)) / energy if energy > 0 else 1.0


MOST_STARTS = 8
# Two starts that end with the same misfit to this accuracy ended at the same matrix; a third would too.
SAME_MINIMUM = 1e-4
# A singular value below this fraction of the first, and below tol, is what a rank asked for too high leaves behind.
NEGLIGIBLE = 1e-10


def fixed_rank(
    A: ArrayLike,
    B: ArrayLike,
    t: ArrayLike,
    rank: SupportsIndex,
    *,
    tol: float = 1e-12,
    max_iterations: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sensed:
    """Find W (d1 x d2) of the given rank with `a_k^T W b_k = t_k`, for A (m, d1), B (m, d2) and t (m,).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> W = np.outer(rng.standard_normal(8), rng.standard_normal(8))
    >>> A, B = rng.standard_normal((2, 40, 8))
    >>> found = fixed_rank(A, B, np.sum(A @ W * B, axis=1), rank=1)
    >>> found.converged, bool(np.allclose(found.W, W))
    (True, True)

    Not convex, but fast: Gauss-Newton on the matrices of rank r, where a linear step costs `8 m d r` operations and
    nothing of size m x d^2 ever exists. Measurements count by `t_k / (|a_k| |b_k|)`. `converged` says that W fits to
    `residual <= tol`; where no start got there, the best W comes back with `converged=False` and the reason. That no
    other matrix of this rank fits is a property of the measurements: more generic ones than degrees of freedom. From
    `2 r(d1 + d2 - r)` Gaussian ones on, every trial of `bench/sensing/phase.py` recovered W (d = 16 to 64, r = 1 to 8).
    """
    lefts, rights, values = as_measurements(A, B, t)
    d1, d2 = lefts.shape[1], rights.shape[1]
    require_matrix_rank(rank, d1, d2, len(values))
    require_settings(tol, max_iterations)
    if not values.any():
        return zero(d1, d2)
    rows = EvenRows(lefts, rights, values)
    best = _search(rows, index(rank), tol, max_iterations, np.random.default_rng(seed), progress)
    point = _trimmed(rows, best.fit.point, tol)
    converged = point.residual <= tol
    reason = (_success if converged else _failure)(rows, index(rank), point, best, tol)
    return Sensed(*rows.in_callers_units(point.W).halves(), point.residual, converged, best.steps, reason)


class Search(NamedTuple):
    fit: Fit
    starts: int
    steps: int


def _search(
    rows: EvenRows, rank: int, tol: float, budget: int, rng: np.random.Generator, progress: Progress | None
) -> Search:
    fits: list[Fit] = []
    spent = 0

    def report(residual: float) -> None:
        nonlocal spent
        spent += 1
        if progress is not None:
            progress(spent, budget, f"Gauss-Newton, start {len(fits) + 1}, residual {residual:.1e}")

    while len(fits) < MOST_STARTS and spent < budget:
        guess = spectral_start(rows, rank, rng, share=0.5 if fits else 1.0)
        fits.append(gauss_newton(rows, guess, tol=tol, max_steps=budget - spent, report=report))
        fits.sort(key=lambda each: each.point.size)
        if fits[0].point.residual <= tol or _same_minimum(fits):
            break
    return Search(fits[0], len(fits), spent)


def _same_minimum(fits: list[Fit]) -> bool:
    if len(fits) < 2 or not (fits[0].stationary and fits[1].stationary):
        return False
    return fits[1].point.size <= (1 + SAME_MINIMUM) * fits[0].point.size


def _trimmed(rows: EvenRows, point: Point, tol: float) -> Point:
    """The point less the directions that the measurements cannot tell from zero: the rank asked for may be too high."""
    smaller = Point(rows, point.W.trimmed(min(tol, NEGLIGIBLE)))
    return smaller if smaller.residual <= max(tol, point.residual) else point


def _success(rows: EvenRows, rank: int, point: Point, best: Search, tol: float) -> str:
    d1, d2, m = rows.A.shape[1], rows.B.shape[1], len(rows)
    dof = degrees_of_freedom(d1, d2, rank)
    spare = f"{m - dof} more than its degrees of freedom" if m > dof else "as many as its degrees of freedom"
    ambiguous = m == dof and rank < min(d1, d2)
    warning = "; none is left to check W by, and another matrix may fit as well" if ambiguous else ""
    return f"rank {len(point.W.s)} fits {m} measurements, {spare}, to a relative {point.residual:.1e}{warning}"


def _failure(rows: EvenRows, rank: int, point: Point, best: Search, tol: float) -> str:
    m, dof = len(rows), degrees_of_freedom(rows.A.shape[1], rows.B.shape[1], rank)
    where = "at a local minimum" if best.fit.stationary else "without settling"
    return (
        f"no matrix of rank {rank} found that fits: the best of {best.starts} starts stopped {where} at relative "
        f"residual {point.residual:.1e}, above tol = {tol:.0e}, after {best.steps} steps in all; the measurements are "
        f"inconsistent with rank {rank} (or noisy), or {m} of them, {m / dof:.2f} per degree of freedom, are too few"
    )
