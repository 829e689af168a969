"""The rank-one members of a space of symmetric matrices: one for each neuron.

The map from a unit vector x to the largest share of `x x^T` in the space has its maxima, 1, at the rank-one members,
and climbing it is a power method: multiply x by the projection of `x x^T` (Kileel and Pereira call this the subspace
power method). From many random starts at once, then Newton's method, each result kept once. Few other maxima are met as
long as the space leaves enough room around it, and none of them reaches 1.
"""

from __future__ import annotations

import numpy as np

from .._linalg import LEAST_DIVISOR, unit
from .._types import Float
from .gpu import climbed_there, device_for, sharpened_there
from .span import Span, to_matrices, to_vectors

STARTS = 3  # for each member that is looked for
CLIMBS = 200
SHIFT = 0.3  # of x added to the product, without which the power method may go in circles
SETTLED_CLIMB = 1e-7  # a move so short ends the climb: Newton's method takes over
NEARLY = 1e-2  # of `x x^T` outside the space, from which Newton's method is tried
SHARPENING_STEPS = 6
EXACT = 1e-14  # of a unit vector: a step so short was the last
REGULAR = 1e-12  # added to what is inverted, of order 1: a double member makes it singular
SAME_MEMBER = 1e-4  # members whose cosine is as near to 1 are one: a double one is met within the root of rounding
MOST_ROUNDS, IDLE_ROUNDS = 60, 4
MOST_MISSING, FROM_REST = 0.3, 32  # of all members, from where on starts come from what is missing; starts at least
LOOKED_AT = 24  # starts that tell plain neurons from gated ones
FLAT_SHARE = 1e-4  # of `x x^T`: less than that outside the space is flat; at isolated members it is a tenth and more
NEWTON_FLOATS = 2**24  # floats


def outside(basis: Float[np.ndarray, "n S"], vectors: Float[np.ndarray, "m S"]) -> Float[np.ndarray, " m"]:
    """The square of the share of each matrix outside the space."""
    rest = vectors - (vectors @ basis.T) @ basis
    return np.einsum("ms,ms->m", rest, rest) / np.maximum(np.einsum("ms,ms->m", vectors, vectors), LEAST_DIVISOR)


def climbed(basis: np.ndarray, X: Float[np.ndarray, "n D"], climbs: int = CLIMBS) -> Float[np.ndarray, "n D"]:
    """Where the power method leads from the rows of X."""
    D = X.shape[1]
    device = device_for(len(X) * len(basis) * D * D)
    if device is not None:
        return climbed_there(device, to_matrices(basis, D), X, climbs, SHIFT, SETTLED_CLIMB)
    X, active = X.copy(), np.arange(len(X))
    for _ in range(climbs):
        x = X[active]
        projected = to_matrices((to_vectors(x) @ basis.T) @ basis, X.shape[1])
        y = unit(np.einsum("nij,nj->ni", projected, x) + SHIFT * x)
        X[active] = y
        active = active[np.abs(y - x).max(axis=1) > SETTLED_CLIMB]
        if len(active) == 0:
            break
    return X


def products(Bx: np.ndarray, By: np.ndarray, x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "n D D"]:
    """The products `<sym(x e_a), Q sym(y e_b)>`, Q the projection off the space; `Bx (n, r, D)` holds `B_k x`."""
    dot = np.einsum("nd,nd->n", x, y)
    both = np.eye(x.shape[1]) * dot[:, None, None] + y[:, :, None] * x[:, None, :]
    return both / 2 - Bx.transpose(0, 2, 1) @ By


def sharpened(
    basis: np.ndarray, X: Float[np.ndarray, "n D"], steps: int = SHARPENING_STEPS
) -> Float[np.ndarray, "n D"]:
    """Newton's method for `Q(x x^T) = 0`, damped by what is left of it."""
    D = X.shape[1]
    flat, at_once = to_matrices(basis, D).reshape(-1, D), max(1, NEWTON_FLOATS // (len(basis) * D))
    if len(X) == 0:
        return X
    device = device_for(len(X) * len(basis) * D * D)
    if device is not None:
        return sharpened_there(device, flat.reshape(-1, D, D), X, steps, REGULAR, EXACT)
    if len(X) > at_once:
        return np.concatenate([sharpened(basis, X[i : i + at_once], steps) for i in range(0, len(X), at_once)])
    for _ in range(steps):
        Bx = (X @ flat.T).reshape(len(X), -1, D)
        N = products(Bx, Bx, X, X)
        gradient = np.einsum("nab,nb->na", N, X)
        left = np.abs(np.einsum("na,na->n", gradient, X))[:, None, None]
        N = N + X[:, :, None] * X[:, None, :] + (left + REGULAR) * np.eye(D)  # the length of x is fixed by x x^T
        move = np.linalg.solve(N, gradient[:, :, None])[:, :, 0] / 2
        X = unit(X - move)
        if np.abs(move).max() <= EXACT:
            break
    return X


def distinct(found: Float[np.ndarray, "n D"], X: Float[np.ndarray, "m D"]) -> list[int]:
    """The rows of X that are neither among those found nor copies of an earlier row, up to sign."""
    chosen: list[int] = []
    for i, x in enumerate(X):
        known = np.concatenate([found, X[chosen]])
        if len(known) == 0 or np.abs(known @ x).max() < 1 - SAME_MEMBER:
            chosen.append(i)
    return chosen


def isolated(span: Span, rng: np.random.Generator) -> bool:
    """Whether rank-one members stand alone, as those of plain neurons do. That of a gated neuron does not: along its
    gate the share outside the space grows with the fourth power of the distance only."""
    X = climbed(span.basis, unit(rng.standard_normal((LOOKED_AT, span.curvature.D))))
    X = sharpened(span.basis, X)
    X = X[outside(span.basis, to_vectors(X)) < FLAT_SHARE]
    if len(X) == 0 or span.curvature.D < 2:
        return True
    Bx = (X @ to_matrices(span.basis, X.shape[1]).reshape(-1, X.shape[1]).T).reshape(len(X), -1, X.shape[1])
    second = np.linalg.eigvalsh(products(Bx, Bx, X, X))[:, 1]
    return bool(np.median(second) > FLAT_SHARE)


def starts(span: Span, found: Float[np.ndarray, "n D"], rng: np.random.Generator) -> Float[np.ndarray, "m D"]:
    """Random starts; once most members are known, what stands out of random combinations of the rest of the space."""
    D, missing = span.curvature.D, len(span.basis) - len(found)
    if missing > MOST_MISSING * span.size:
        return unit(rng.standard_normal((STARTS * span.size, D)))
    known = np.linalg.qr(to_vectors(found).T)[0]
    rest = np.linalg.svd(span.basis - (span.basis @ known) @ known.T, full_matrices=False)[2][:missing]
    mixed = to_matrices(rng.standard_normal((FROM_REST + STARTS * missing, missing)) @ rest, D)
    values, vectors = np.linalg.eigh(mixed)
    return np.take_along_axis(vectors, np.abs(values).argmax(axis=1)[:, None, None], axis=2)[:, :, 0]


def rank_ones(span: Span, rng: np.random.Generator) -> Float[np.ndarray, "n D"]:
    """Unit vectors x with `x x^T` in the span, up to sign: as many as there are neurons, or as many as were met."""
    found, idle = np.zeros((0, span.curvature.D)), 0
    for _ in range(MOST_ROUNDS):
        X = climbed(span.basis, starts(span, found, rng))
        X = X[outside(span.basis, to_vectors(X)) < NEARLY]
        X = sharpened(span.basis, X[distinct(found, X)])
        X = X[outside(span.basis, to_vectors(X)) < span.tolerance]
        fresh = distinct(found, X)
        idle = 0 if fresh else idle + 1
        found = np.concatenate([found, X[fresh]])
        if len(found) >= span.size or idle >= IDLE_ROUNDS:
            break
    return found
