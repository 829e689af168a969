"""The symmetric X that most nearly commutes with all matrices, the identity left aside."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from .._errors import NotConverged
from .._types import Float

# Up to here the whole map is a matrix of n (n + 1) / 2 rows, made from n^4 numbers: 42 MB, half a second.
DENSE = 48
PATIENCE = ((1e-9, 20), (1e-5, 40), (1e-3, 100))  # tolerances of Lanczos, and restarts for each


def nearest_to_commuting(A: Float[np.ndarray, "m n n"]) -> Float[np.ndarray, "n n"]:
    """The traceless X of norm 1 with the least `sum_j |X A_j - A_j X|^2`.

    That is the smallest eigenvector of `X -> S X + X S - 2 sum_j A_j X A_j`, with `S = sum_j A_j^2`.
    """
    return dense(A) if A.shape[1] <= DENSE else iterative(A)


def dense(A: np.ndarray) -> np.ndarray:
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


def iterative(A: np.ndarray) -> np.ndarray:
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
    X = largest(operator, (start + start.T).ravel()).reshape(n, n)
    return traceless(X + X.T)


def largest(operator: LinearOperator, start: np.ndarray) -> np.ndarray:
    """The eigenvector of the largest eigenvalue, 1 or just below: to fewer digits where the next ones lie close.

    That happens within an irreducible block, where any vector will do: its cut couples too much.
    """
    for tol, restarts in PATIENCE:
        with suppress(ArpackNoConvergence):
            options = {"which": "LA", "v0": start, "tol": tol, "ncv": 64, "maxiter": restarts}
            return eigsh(operator, 1, **options)[1][:, 0]
    raise NotConverged(
        f"Lanczos found no matrix that nearly commutes, to {PATIENCE[-1][0]:g} of the largest eigenvalue"
    )


def traceless(X: np.ndarray) -> np.ndarray:
    X = X - np.eye(len(X)) * np.trace(X) / len(X)
    return X / np.linalg.norm(X)
