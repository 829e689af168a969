"""Badly known gradients, made good by least squares on random points far from every hyperplane.

With the side of every hyperplane known, the function is linear in the gradients, and far points know nothing of narrow
arcs, so that what a short step could not measure is determined there as well as anything else. Sides are read off the
present gradients, and the solution is repeated until they no longer change.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, lsqr

from .._linalg import LEAST_DIVISOR, rms
from .._oracles import CHUNK_BYTES
from .._types import Float
from .gradients import Pieces
from .homogeneous import LSQR, Homogeneous
from .scale import AnswerNoise

REPAIRED_SHARE = 0.15  # of the arcs at most, where answers are exact: the rest is good enough
EXACT_EQUATIONS, NOISY_EQUATIONS = 1.25, 2.0  # per unknown
REPAIR_ROUNDS, NOISY_ROUNDS = 2, 25
STALLED_SHARE, WAITED_ROUNDS = 0.75, 2  # a misfit that shrinks by less, this many rounds running, does not converge
LSQR_ITERATIONS = 200
DENSE_UNKNOWNS = 3000  # unknowns; beyond that only the iterative solution fits


def worst_arcs(errors: Float[np.ndarray, "n"], goal: float, noise: AnswerNoise) -> np.ndarray:
    """The fewest arcs without which the errors of the gradients add up to less than the goal."""
    order = np.argsort(-errors)
    left = np.sqrt(np.cumsum(errors[order][::-1] ** 2)[::-1])
    share = round(REPAIRED_SHARE * len(errors)) if noise.exact else len(errors)
    return order[: max(1, min(int(np.count_nonzero(left > goal)), share))]


def read_repaired(
    g: Homogeneous,
    pieces: Pieces,
    errors: Float[np.ndarray, "n"],
    arcs: np.ndarray,
    noise: AnswerNoise,
    rng: np.random.Generator,
) -> Pieces:
    """Correct the gradients of the given arcs, each in proportion to its error."""
    X = far_points(g, pieces, int((EXACT_EQUATIONS if noise.exact else NOISY_EQUATIONS) * len(arcs) * g.dim) + 8, rng)
    answers = g(X)
    solve = solve_dense if not noise.exact and len(arcs) * g.dim <= DENSE_UNKNOWNS else solve_iteratively
    best, least, waited = pieces, np.inf, 0
    for _ in range(REPAIR_ROUNDS if noise.exact else NOISY_ROUNDS):
        weights = pieces.weights(X)
        off = answers - np.einsum("ni,ni->n", weights, X @ pieces.gradients.T)
        size = rms(off)
        waited = 0 if size < STALLED_SHARE * least else waited + 1
        if size < least:
            best, least = pieces, size
        if waited > WAITED_ROUNDS or size <= noise.level:
            break
        gradients = pieces.gradients.copy()
        gradients[arcs] += solve(X, weights[:, arcs] * errors[arcs], off, noise.level) * errors[arcs, None]
        pieces = Pieces(gradients, pieces.bends)
    return pieces if noise.exact else best


class GradientSystem(LinearOperator):
    """From changes of gradients to changes of answers, without the matrix."""

    def __init__(self, X: np.ndarray, weights: np.ndarray):
        self.X, self.weights, self.gradients = X, weights, (weights.shape[1], X.shape[1])
        super().__init__(np.dtype(float), (len(X), weights.shape[1] * X.shape[1]))

    def _matvec(self, x):
        return np.einsum("ni,ni->n", self.weights, self.X @ x.reshape(self.gradients).T)

    def _rmatvec(self, x):
        return ((self.weights * x.reshape(-1, 1)).T @ self.X).ravel()


def solve_iteratively(X: np.ndarray, weights: np.ndarray, off: np.ndarray, damp: float) -> np.ndarray:
    shape = (weights.shape[1], X.shape[1])
    settings = {"damp": damp, "atol": LSQR, "btol": LSQR, "iter_lim": LSQR_ITERATIONS}
    return lsqr(GradientSystem(X, weights), off, **settings)[0].reshape(shape)


def solve_dense(X: np.ndarray, weights: np.ndarray, off: np.ndarray, damp: float) -> np.ndarray:
    shape = (weights.shape[1], X.shape[1])
    unknowns = shape[0] * shape[1]
    normal, right = damp**2 * np.eye(unknowns), np.zeros(unknowns)
    rows = max(1, CHUNK_BYTES // (8 * unknowns))
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        M = (weights[part, :, None] * X[part, None, :]).reshape(-1, unknowns)
        normal += M.T @ M
        right += M.T @ off[part]
    try:
        return cho_solve(cho_factor(normal, overwrite_a=True), right).reshape(shape)
    except np.linalg.LinAlgError:  # the damping is below the rounding of the normal equations
        return solve_iteratively(X, weights, off, damp)


def far_points(g: Homogeneous, pieces: Pieces, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n D"]:
    """The half of twice as many random points that is farthest from the hyperplane nearest to each."""
    X = g.points(2 * n, rng)
    jumps = pieces.jumps
    normals = jumps / np.maximum(np.linalg.norm(jumps, axis=1, keepdims=True), LEAST_DIVISOR)
    rows = max(1, CHUNK_BYTES // (8 * len(jumps)))
    margin = np.concatenate(
        [np.abs(X[start : start + rows] @ normals.T).min(axis=1) for start in range(0, len(X), rows)]
    )
    return X[np.sort(np.argsort(-margin)[:n])]
