"""A matrix of rank r by its singular vectors, `W = U^T diag(s) V`, and its way back to rank r after a step.

Vectors lie in rows: BLAS runs these skinny products up to twice as fast that way round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._types import Float


class Factors(NamedTuple):
    U: Float[np.ndarray, "r d1"]
    s: Float[np.ndarray, "r"]
    V: Float[np.ndarray, "r d2"]

    def trimmed(self, floor: float) -> Factors:
        """Without the singular values below `floor` times the largest."""
        kept = int(np.sum(self.s > floor * self.s.max(initial=0.0)))
        return Factors(self.U[:kept], self.s[:kept], self.V[:kept])

    def halves(self) -> tuple[Float[np.ndarray, "d1 r"], Float[np.ndarray, "d2 r"]]:
        root = np.sqrt(self.s)
        return self.U.T * root, self.V.T * root


def from_matrix(W: Float[np.ndarray, "d1 d2"], rank: int | None = None) -> Factors:
    U, s, V = np.linalg.svd(W, full_matrices=False)
    return Factors(np.ascontiguousarray(U.T[:rank]), s[:rank], V[:rank])


def retract(W: Factors, step: Float[np.ndarray, "r d"]) -> Factors:
    """The best rank-r approximation of `W + Z`, for the tangent step Z = L^T V + U^T R."""
    rank, d1 = W.U.shape
    left, in_left = np.linalg.qr(np.hstack([W.U.T, step[:, :d1].T]))
    right, in_right = np.linalg.qr(np.hstack([W.V.T, step[:, d1:].T]))
    eye = np.eye(rank)
    core = in_left @ np.block([[np.diag(W.s), eye], [eye, np.zeros_like(eye)]]) @ in_right.T
    u, s, v = np.linalg.svd(core)
    return Factors((left @ u[:, :rank]).T.copy(), s[:rank], v[:rank] @ right.T)
