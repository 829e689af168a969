"""One cut: a subspace becomes two, between which the given symmetric matrices couple least.

`nearest_to_commuting` finds the X that nearly commutes with all matrices, `split_at_gap` cuts at the widest gap of its
eigenvalues and turns both parts by Gauss-Newton, `CouplingNoise` says whether what still couples them can be error.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, cg, eigsh

from .._errors import NotConverged
from .._types import Float

GAUSS_NEWTON_STEPS = 6


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


def split_at_gap(A: Float[np.ndarray, "m n n"], X: Float[np.ndarray, "n n"]) -> Split:
    """Cut at the widest gap of the eigenvalues of X, then Gauss-Newton for as long as the coupling falls."""
    w, Q = np.linalg.eigh(X)
    cut = int(np.argmax(np.diff(w))) + 1
    best = split_into(A, Q[:, :cut], Q[:, cut:])
    for _ in range(GAUSS_NEWTON_STEPS):
        better = gauss_newton_step(A, best)
        if not better.cost < best.cost:
            break
        best, before = better, best
        if best.cost > 0.99 * before.cost:
            break
    return best


def split_into(A: np.ndarray, first: np.ndarray, second: np.ndarray) -> Split:
    return Split(first, second, first.T @ A @ second)


STEP_ACCURACY = 1e-8  # relative: the steps that follow mend what is left of each


def gauss_newton_step(A: np.ndarray, at: Split) -> Split:
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
        Z = cg(operator, gradient, rtol=STEP_ACCURACY, maxiter=200)[0].reshape(C.shape[1:])
    if not np.isfinite(Z).all():
        return at
    first, second = np.linalg.qr(at.first - at.second @ Z.T)[0], np.linalg.qr(at.second + at.first @ Z)[0]
    return split_into(A, first, second)


LARGEST_UNTOLD = 0.03  # of the size of an entry: without a tolerance, more than this is never taken for error
CHANCE = 1e-3  # that f free numbers all happen to be small, `ceiling**f`, is to be no more than this
STRUCTURED = 1e-6  # and errors that are not independent, as finite differences leave them, up to here
ALIKE_ERRORS = 30.0  # such errors may differ by this factor from one pair of parts to the next
UNLIKELY = 12.0  # independent errors stray further than allowed with probability exp(-12)


@dataclass
class CouplingNoise:
    """The level of error: given as `tol`, or learned from the cleanest parts so far."""

    size: float
    floor: float
    tol: float | None
    cost: float = 0.0
    freedom: int = 0

    @property
    def level(self) -> float:
        seen = math.sqrt(self.cost / self.freedom) if self.freedom else 0.0
        return max(self.floor, seen if self.tol is None else self.tol)

    def add(self, found: Split) -> None:
        self.cost += found.cost
        self.freedom += found.freedom

    def explains(self, found: Split) -> bool:
        if found.rms <= self.floor:
            return True
        if self.tol is not None:
            return self.within(found)
        if found.rms <= STRUCTURED * self.size:
            return not self.freedom or bool(found.rms <= ALIKE_ERRORS * self.level)
        ceiling = min(LARGEST_UNTOLD, CHANCE ** (1 / found.freedom))
        small = bool(found.rms <= ceiling * self.size)
        return small and found.white and (not self.freedom or self.within(found))

    def within(self, found: Split) -> bool:
        """The bound of Laurent and Massart for the mean of f squares."""
        x = UNLIKELY * (1 / found.freedom + (1 / self.freedom if self.tol is None else 0.0))
        return bool(found.rms**2 <= self.level**2 * (1 + 2 * math.sqrt(x) + 2 * x))


# Up to here the whole map is a matrix of n (n + 1) / 2 rows, made from n^4 numbers: 42 MB, half a second.
DENSE_UP_TO = 48
LANCZOS_PATIENCE = ((1e-9, 20), (1e-5, 40), (1e-3, 100))  # tolerances of Lanczos, and restarts for each


def nearest_to_commuting(A: Float[np.ndarray, "m n n"]) -> Float[np.ndarray, "n n"]:
    """The traceless X of norm 1 with the least `sum_j |X A_j - A_j X|^2`.

    That is the smallest eigenvector of `X -> S X + X S - 2 sum_j A_j X A_j`, with `S = sum_j A_j^2`.
    """
    return commuting_dense(A) if A.shape[1] <= DENSE_UP_TO else commuting_iterative(A)


def commuting_dense(A: np.ndarray) -> np.ndarray:
    m, n, _ = A.shape
    a, b = np.triu_indices(n)
    scale = np.where(a == b, np.sqrt(0.5), 1.0)
    flat = A.reshape(m, n * n)
    products = (flat.T @ flat).reshape(n, n, n, n)
    left, right = np.ix_(a, a), np.ix_(b, b)
    S, same = np.einsum("jab,jbc->ac", A, A), np.eye(n)
    across, down = np.ix_(a, b), np.ix_(b, a)
    L = S[left] * same[right] + S[right] * same[left] + S[across] * same[down] + S[down] * same[across]
    L -= 2 * (products[a[:, None], a, b[:, None], b] + products[a[:, None], b, b[:, None], a])
    trace = np.where(a == b, 1.0, 0.0)
    # The identity commutes with everything: lifted out of the way, the next one is what is wanted.
    L = L * np.outer(scale, scale) + np.outer(trace, trace) * np.trace(S)
    x = eigh(L, subset_by_index=[0, 0])[1][:, 0] * scale
    X = np.zeros((n, n))
    X[a, b] += x
    X[b, a] += x
    return traceless(X)


def commuting_iterative(A: np.ndarray) -> np.ndarray:
    """Lanczos, `2 m n^3` operations a step: a few hundred steps where blocks are clear, more where there is but one."""
    n = A.shape[1]
    S = np.einsum("jab,jbc->ac", A, A)
    top = 4 * np.linalg.norm(S, 2)

    def apply(x: np.ndarray) -> np.ndarray:
        X = x.reshape(n, n)
        X = X + X.T
        Y = S @ X + X @ S - 2 * np.einsum("jab,jbc->ac", A @ X, A, optimize=True)
        return (X - Y / top - np.eye(n) * np.trace(X) / n).ravel() / 2

    operator = LinearOperator((n * n, n * n), matvec=apply, dtype=float)  # pyright: ignore[reportCallIssue]
    start = np.random.default_rng(0).standard_normal((n, n))
    X = largest_eigenvector(operator, (start + start.T).ravel()).reshape(n, n)
    return traceless(X + X.T)


def largest_eigenvector(operator: LinearOperator, start: np.ndarray) -> np.ndarray:
    """The eigenvector of the largest eigenvalue, 1 or just below: to fewer digits where the next ones lie close.

    That happens within an irreducible block, where any vector will do: its cut couples too much.
    """
    for tol, restarts in LANCZOS_PATIENCE:
        with suppress(ArpackNoConvergence):
            options = {"which": "LA", "v0": start, "tol": tol, "ncv": 64, "maxiter": restarts}
            return eigsh(operator, 1, **options)[1][:, 0]
    raise NotConverged(
        f"Lanczos found no matrix that nearly commutes, to {LANCZOS_PATIENCE[-1][0]:g} of the largest eigenvalue"
    )


def traceless(X: np.ndarray) -> np.ndarray:
    X = X - np.eye(len(X)) * np.trace(X) / len(X)
    return X / np.linalg.norm(X)
