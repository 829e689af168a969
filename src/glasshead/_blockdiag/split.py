"""One subspace becomes two: cut at the widest gap of X, then turn both until what couples them is least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from .._types import Float

STEPS = 6


@dataclass(frozen=True)
class Split:
    """Bases of the two parts, in the coordinates of the whole, and `coupling[j]`, what of A_j lies between them."""

    first: Float[np.ndarray, "n a"]
    second: Float[np.ndarray, "n b"]
    coupling: Float[np.ndarray, "m a b"]

    @property
    def cost(self) -> float:
        return float(np.sum(self.coupling**2))

    @property
    def freedom(self) -> int:
        """The numbers in the coupling, less those that turning the parts has fitted."""
        m, a, b = self.coupling.shape
        return max(m - 1, 1) * a * b

    @property
    def rms(self) -> float:
        """The size of an entry between the parts, as an estimate of the noise if there is nothing but noise."""
        return float(np.sqrt(self.cost / self.freedom))

    @property
    def white(self) -> bool:
        """Whether the coupling has no preferred direction: a forgotten part of a block would have one.

        The largest singular value of m x p independent numbers is near `sqrt(m) + sqrt(p)`, within a few widths of the
        Tracy-Widom law.
        """
        m = len(self.coupling)
        table = self.coupling.reshape(m, -1)
        edge = np.sqrt(m) + np.sqrt(table.shape[1])
        width = edge * (m**-0.5 + table.shape[1] ** -0.5) ** (1 / 3)
        return bool(np.linalg.norm(table, 2) ** 2 <= self.rms**2 * (edge**2 + 4 * width))


def split(A: Float[np.ndarray, "m n n"], X: Float[np.ndarray, "n n"]) -> Split:
    """Cut at the widest gap of the eigenvalues of X, then Gauss-Newton for as long as the coupling falls."""
    w, Q = np.linalg.eigh(X)
    cut = int(np.argmax(np.diff(w))) + 1
    best = parts(A, Q[:, :cut], Q[:, cut:])
    for _ in range(STEPS):
        better = turned(A, best)
        if not better.cost < best.cost:
            break
        best, before = better, best
        if best.cost > 0.99 * before.cost:
            break
    return best


def parts(A: np.ndarray, first: np.ndarray, second: np.ndarray) -> Split:
    return Split(first, second, first.T @ A @ second)


def turned(A: np.ndarray, at: Split) -> Split:
    """Turned by the Z of least `sum_j |C_j + F_j Z - Z G_j|^2`, with `A_j = [[F_j, C_j], [C_j^T, G_j]]`."""
    C, F, G = at.coupling, at.first.T @ A @ at.first, at.second.T @ A @ at.second
    FF, GG = (np.einsum("jab,jbc->ac", B, B) for B in (F, G))

    def normal(z: np.ndarray) -> np.ndarray:
        Z = z.reshape(C.shape[1:])
        return (FF @ Z + Z @ GG - 2 * np.einsum("jab,jbc->ac", F @ Z, G, optimize=True)).ravel()

    size = C[0].size
    operator = LinearOperator((size, size), matvec=normal, dtype=float)  # pyright: ignore[reportCallIssue]
    gradient = np.sum(C @ G - F @ C, axis=0).ravel()
    with np.errstate(all="ignore"):  # equal blocks leave Z free: a step that is not a number is no better
        Z = cg(operator, gradient, rtol=1e-8, maxiter=200)[0].reshape(C.shape[1:])
    if not np.isfinite(Z).all():
        return at
    first, second = np.linalg.qr(at.first - at.second @ Z.T)[0], np.linalg.qr(at.second + at.first @ Z)[0]
    return parts(A, first, second)
