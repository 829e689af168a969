"""A matrix of rank r by its singular vectors, `W = U^T diag(s) V`: its tangent space, and the way back to rank r.

Least squares on the tangent space and its adjoint problem are conjugate gradients, so nothing of size m x d^2 exists.

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
        """The factors less the singular values below `floor` times the largest."""
        kept = int(np.sum(self.s > floor * self.s.max(initial=0.0)))
        return Factors(self.U[:kept], self.s[:kept], self.V[:kept])

    def halves(self) -> tuple[Float[np.ndarray, "d1 r"], Float[np.ndarray, "d2 r"]]:
        root = np.sqrt(self.s)
        return self.U.T * root, self.V.T * root


def svd_factors(W: Float[np.ndarray, "d1 d2"], rank: int | None = None) -> Factors:
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


# A direction with less of the measurements' energy than this is one that they do not see at all.
UNSEEN_SHARE = 1e-24


class Tangent:
    """`a_k^T Z b_k` for `Z = L^T V + U^T R` with R orthogonal to V.

    A tangent vector is the r x (d1 + d2) array `[L R]`. The splitting is an isometry, so the conditioning does not
    depend on the singular values of W. The precision is that of A: single for most of Gauss-Newton, then double.
    """

    def __init__(self, A, B, W: Factors, AU, BV) -> None:
        self.A, self.B = A, B
        self.V = W.V.astype(A.dtype, copy=False)
        self.AU, self.BV = AU.astype(A.dtype, copy=False), BV.astype(A.dtype, copy=False)

    def measure(self, z: Float[np.ndarray, "r d"]) -> Float[np.ndarray, "m"]:
        d1 = self.A.shape[1]
        along_left = np.einsum("rm,rm->m", z[:, :d1] @ self.A.T, self.BV)
        return along_left + np.einsum("rm,rm->m", self.AU, z[:, d1:] @ self.B.T)

    def adjoint(self, e: Float[np.ndarray, "m"]) -> Float[np.ndarray, "r d"]:
        R = (e * self.AU) @ self.B
        R -= (R @ self.V.T) @ self.V
        return np.hstack([(e * self.BV) @ self.A, R])


class Solution(NamedTuple):
    z: Float[np.ndarray, "r d"]
    misfit: Float[np.ndarray, "m"]
    """What the step leaves of the right-hand side, to first order."""
    steps: int


def damped_least_squares(
    tangent: Tangent, e: Float[np.ndarray, "m"], *, damping: float, accuracy: float, limit: int
) -> Solution:
    """Minimise `||measure(z) - e||^2 + damping ||z||^2` until the gradient has shrunk by `accuracy`."""
    misfit = e.astype(tangent.A.dtype)
    gradient = tangent.adjoint(misfit)
    z, direction = np.zeros_like(gradient), gradient.copy()
    size = first = np.vdot(gradient, gradient)
    steps = 0
    while size > accuracy**2 * first and steps < limit:
        image = tangent.measure(direction)
        length = size / (image @ image + damping * np.vdot(direction, direction))
        z += length * direction
        misfit -= length * image
        gradient = tangent.adjoint(misfit) - damping * z
        size, previous = np.vdot(gradient, gradient), size
        direction = gradient + (size / previous) * direction
        steps += 1
    return Solution(z, misfit, steps)


def least_norm(
    tangent: Tangent, target: Float[np.ndarray, "r d"], *, accuracy: float, limit: int
) -> Float[np.ndarray, "m"]:
    """The shortest y with `adjoint(y) = target`, up to an absolute `accuracy`, or as near as there is one."""
    rest, direction = target.copy(), target.copy()
    y = np.zeros(len(tangent.A), tangent.A.dtype)
    size = np.vdot(rest, rest)
    steps = 0
    while size > accuracy**2 and steps < limit:
        image = tangent.measure(direction)
        energy = image @ image
        if energy <= UNSEEN_SHARE * len(y) * np.vdot(direction, direction):
            break
        length = size / energy
        y += length * image
        rest -= length * tangent.adjoint(image)
        size, previous = np.vdot(rest, rest), size
        direction = rest + (size / previous) * direction
        steps += 1
    return y
