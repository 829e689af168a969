"""`gh.sensing.nuclear_norm`: of all W that fit the one of least nuclear norm, with a proof that there is none smaller.

Douglas-Rachford brings W and a point y of the dual program near; from there the rank is fixed, Gauss-Newton finishes W,
and the shortest correction of y closes the duality gap. Gap and residual decide, not the number of iterations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._types import Float
from ._douglas_rachford import DouglasRachford, Iterate
from ._factors import Factors, Tangent, least_norm, svd_factors
from ._fixed_rank import gauss_newton
from ._measurements import Constraints, EvenRows, Point, as_measurements, degrees_of_freedom, require_settings
from ._result import Certificate, Progress, Sensed, zero

# Gauss-Newton from the right rank needs about six steps; more than this and the rank was wrong.
FINISH_STEPS = 12
FINISH_SOLVES = 400
FITTED_SHARE, BENT_SHARE = 1e-4, 1e-2  # of the accuracy wanted: what W and y may miss of theirs, not to spoil the gap


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
    point = gauss_newton(rows, low, tol=FITTED_SHARE * tol, max_steps=FINISH_STEPS).point
    if point.residual > tol:
        return None
    tangent = Tangent(rows.A, rows.B, point.W, point.AU, point.BV)
    missing = np.hstack([point.W.U, np.zeros_like(point.W.V)]) - tangent.adjoint(y)
    bent = y + least_norm(tangent, missing, accuracy=BENT_SHARE * tol, limit=FINISH_SOLVES)
    return prove(constraints, point, bent)


def _outside(D: Float[np.ndarray, "d1 d2"], W: Factors) -> float:
    across = D - W.U.T @ (W.U @ D)
    return float(np.linalg.norm(across - (across @ W.V.T) @ W.V, 2))


CHECK_EVERY = 10
# A rank that was wrong is tried again when the iteration has come this much further.
RETRY = 1.5
# Relative to the largest singular value.
ROUNDING_TAIL = 1e-14


def nuclear_norm(
    A: ArrayLike,
    B: ArrayLike,
    t: ArrayLike,
    *,
    tol: float = 1e-8,
    max_iterations: int = 5000,
    progress: Progress | None = None,
) -> Sensed:
    """Minimise `||W||_*`, the sum of the singular values, over all W (d1 x d2) with `a_k^T W b_k = t_k`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> W = np.outer(rng.standard_normal(8), rng.standard_normal(8))
    >>> A, B = rng.standard_normal((2, 50, 8))
    >>> found = nuclear_norm(A, B, np.sum(A @ W * B, axis=1))
    >>> found.converged, found.rank, bool(np.allclose(found.W, W))
    (True, 1, True)

    A is (m, d1), B (m, d2) and t (m,). `converged` says that W fits to `residual <= tol` and that
    `certificate.gap <= tol`: no W that fits has a nuclear norm smaller by more than that, relative. Whether the
    minimiser is the W that was measured is another question: `measurements_needed` says when to expect it.
    Memory is that of one m x m matrix, time `m^3 / 3` operations once and `2 m^2 + 4 m d^2` per iteration.
    """
    lefts, rights, values = as_measurements(A, B, t)
    require_settings(tol, max_iterations)
    if not values.any():
        return zero(lefts.shape[1], rights.shape[1])
    rows = EvenRows(lefts, rights, values)
    constraints = Constraints(rows)
    least = Point(rows, svd_factors(constraints.least_norm()))
    if least.residual > tol:
        return _contradiction(rows, least, tol)
    proof, iterations = _solve(constraints, tol, max_iterations, progress)
    return _report(rows, constraints, proof, iterations, tol)


def _solve(constraints: Constraints, tol: float, max_iterations: int, progress: Progress | None) -> tuple[Proof, int]:
    solver, best, iteration, next_try = DouglasRachford(constraints), None, 0, 0.0
    while best is None or iteration < max_iterations:
        for _ in range(min(CHECK_EVERY, max_iterations - iteration) - 1):
            solver.advance(solver.current())
        iteration = min(iteration + CHECK_EVERY, max_iterations)
        now = solver.current()
        y = solver.dual(now)
        found = _prove(constraints, now, y, tol, iteration >= next_try)
        next_try = RETRY * iteration if iteration >= next_try else next_try
        best = found if best is None or abs(found.gap) < abs(best.gap) else best
        if progress is not None:
            progress(iteration, max_iterations, f"nuclear norm, rank {len(now.low.s)}, duality gap {best.gap:.1e}")
        if abs(best.gap) <= tol:
            break
        if not solver.rebalance(now, y):
            solver.advance(now)
    return best, iteration


def _prove(constraints: Constraints, now: Iterate, y: Float[np.ndarray, "m"], tol: float, also_finish: bool) -> Proof:
    as_it_is = prove(constraints, _fitting(constraints.rows, now, tol), y)
    finished = finish(constraints, now.low, y, tol) if also_finish else None
    return finished if finished is not None and abs(finished.gap) < abs(as_it_is.gap) else as_it_is


def _fitting(rows: EvenRows, now: Iterate, tol: float) -> Point:
    """The iterate that fits, without its tail of rounding where it fits without."""
    everything = svd_factors(now.fitting)
    rank = len(now.low.s)
    low = Point(rows, Factors(everything.U[:rank], everything.s[:rank], everything.V[:rank]))
    return low if low.residual <= tol else Point(rows, everything)


def _report(rows: EvenRows, constraints: Constraints, proof: Proof, iterations: int, tol: float) -> Sensed:
    W = Point(rows, proof.point.W)
    converged = W.residual <= tol and abs(proof.gap) <= tol
    value = f"nuclear norm {rows.unit * np.sum(W.W.s):.6g}, optimal to a relative {abs(proof.gap):.1e} (duality gap)"
    what = f"rank {len(W.W.s)} fits {len(rows)} measurements to a relative {W.residual:.1e}; {value}"
    reason = what if converged else f"stopped after {iterations} iterations, short of tol = {tol:.0e}: {what}"
    certificate = _in_callers_units(rows, constraints, proof)
    return Sensed(*rows.in_callers_units(W.W).halves(), W.residual, converged, iterations, reason, certificate)


def _in_callers_units(rows: EvenRows, constraints: Constraints, proof: Proof) -> Certificate:
    y = np.zeros(len(rows))
    y[constraints.kept] = proof.y / constraints.rows.lengths
    bound = rows.unit * float(proof.y @ constraints.rows.t)
    norm = float(np.linalg.norm(constraints.adjoint(proof.y), 2))
    return Certificate(y, bound, abs(proof.gap), norm, proof.outside)


def _contradiction(rows: EvenRows, least: Point, tol: float) -> Sensed:
    reason = (
        f"the measurements contradict each other: no matrix at all fits them to tol = {tol:.0e}, this one to a "
        f"relative {least.residual:.1e}; look for repeated (a_k, b_k) with different t_k, or for noise where m > d1 d2"
    )
    W = rows.in_callers_units(least.W.trimmed(ROUNDING_TAIL))
    return Sensed(*W.halves(), least.residual, False, 0, reason)
