"""Gated neurons in a space of symmetric matrices: pairs (g, u) with both `g g^T` and `g u^T + u g^T` in it.

The second derivatives of `act(g.x) (u.x)` are combinations of these two. Climbing as for rank-one members leads towards
g, but slowly at the end, since along u the share outside the space grows with the fourth power only. So the last steps
are others. Near g the map `v -> Q(x v^T + v x^T)`, with Q the projection off the space, nearly vanishes on the plane of
g and u; within that plane `Q(x x^T)` is a square, `(eta.x)^2` times one matrix, and g is orthogonal to eta. Newton's
method on both equations does the rest.
"""

from __future__ import annotations

import numpy as np

from .._linalg import unit
from .._types import Float
from .rank_one import MOST_ROUNDS, NEWTON_FLOATS, REGULAR, climbed, distinct, outside, products
from .span import Span, to_matrices, to_vectors

PAIR_STARTS = 4
PAIR_CLIMBS = 150
NEARLY_A_PAIR = 2e-2  # of `x x^T` outside the space, from which Newton's method is tried: it throws out what is none
PAIR_STEPS = 15
IDLE_PAIR_ROUNDS = 5
LOOSEST = 1e-6  # of the square of a matrix: more outside the space is not in it, whatever errors are


def plane_of(matrices: Float[np.ndarray, "r D D"], basis: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """g and u, roughly, for x near g: u is orthogonal to g."""
    D, Bx = len(x), matrices @ x
    a, b = np.linalg.eigh((np.eye(D) + np.outer(x, x)) / 2 - Bx.T @ Bx)[1][:, :2].T
    three = np.concatenate([to_vectors(a[None]), to_vectors(a[None], b[None]) / 2, to_vectors(b[None])])
    rest = three - (three @ basis.T) @ basis
    aa, ab, bb = np.linalg.eigh(rest @ rest.T)[1][:, -1]
    values, vectors = np.linalg.eigh(np.array([[aa, ab], [ab, bb]]))
    eta = vectors[:, np.abs(values).argmax()]
    return eta[1] * a - eta[0] * b, eta[0] * a + eta[1] * b


def sharpened_pairs(
    basis: np.ndarray, X: Float[np.ndarray, "n D"], U: Float[np.ndarray, "n D"]
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method for `Q(g g^T) = 0` and `Q(g u^T + u g^T) = 0`, damped by what is left of them."""
    D = X.shape[1]
    flat, at_once = to_matrices(basis, D).reshape(-1, D), max(1, NEWTON_FLOATS // (2 * len(basis) * D))
    if len(X) > at_once:
        parts = [sharpened_pairs(basis, X[i : i + at_once], U[i : i + at_once]) for i in range(0, len(X), at_once)]
        return np.concatenate([x for x, _ in parts]), np.concatenate([u for _, u in parts])
    zero = np.zeros_like(X)
    for _ in range(PAIR_STEPS):
        Bx, Bu = ((Y @ flat.T).reshape(len(X), -1, D) for Y in (X, U))
        gg, uu, ug, gu = products(Bx, Bx, X, X), products(Bu, Bu, U, U), products(Bu, Bx, U, X), products(Bx, Bu, X, U)
        first, second = np.einsum("nab,nb->na", gg, X), np.einsum("nab,nb->na", gg, U)
        gradient = np.concatenate([2 * first + 4 * np.einsum("nab,nb->na", ug, U), 4 * second], axis=1)
        N = 4 * np.concatenate([np.concatenate([gg + uu, ug], axis=2), np.concatenate([gu, gg], axis=2)], axis=1)
        for fixed in ((X, zero), (zero, X), (zero, U)):  # the lengths of g and u, and u + c g, mean nothing
            c = np.concatenate(fixed, axis=1)
            N = N + c[:, :, None] * c[:, None, :]
        left = np.einsum("na,na->n", first, X) + 4 * np.einsum("na,na->n", U, second)
        N = N + (np.minimum(np.abs(left), 1) + REGULAR)[:, None, None] * np.eye(2 * D)
        move = np.linalg.solve(N, gradient[:, :, None])[:, :, 0]
        X = unit(X - move[:, :D])
        U = U - move[:, D:]
        U = unit(U - X * np.einsum("nd,nd->n", X, U)[:, None])
    return X, U


def rank_twos(span: Span, rng: np.random.Generator) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n D"]]:
    """Unit vectors g and u, orthogonal to each other, for as many gated neurons as were met: half the size of the span
    if it is theirs."""
    D, wanted, idle = span.curvature.D, span.size // 2, 0
    matrices, within = to_matrices(span.basis, D), min(LOOSEST, 100 * span.tolerance)
    G, U = np.zeros((0, D)), np.zeros((0, D))
    for _ in range(MOST_ROUNDS):
        X = climbed(span.basis, unit(rng.standard_normal((PAIR_STARTS * wanted, D))), PAIR_CLIMBS)
        X = X[outside(span.basis, to_vectors(X)) < NEARLY_A_PAIR]
        if len(X):
            pairs = [plane_of(matrices, span.basis, x) for x in X]
            X, Y = sharpened_pairs(span.basis, np.array([g for g, _ in pairs]), np.array([u for _, u in pairs]))
            off = np.maximum(outside(span.basis, to_vectors(X)), outside(span.basis, to_vectors(X, Y)))
            X, Y = X[off < within], Y[off < within]
        else:
            Y = X
        fresh = distinct(G, X)
        idle = 0 if fresh else idle + 1
        G, U = np.concatenate([G, X[fresh]]), np.concatenate([U, Y[fresh]])
        if len(G) >= wanted or idle >= IDLE_PAIR_ROUNDS:
            break
    return G, U
