"""What `bench.blocks` measures: matrices with hidden blocks, boxes with hidden orthogonal subspaces, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import glasshead as gh
from glasshead import Attention, GlassheadError, ValueOracle
from glasshead.paper._commutant import gauss_newton_step, split_into

Subspaces = list[np.ndarray]


def hidden(sizes: tuple[int, ...], rng: np.random.Generator) -> Subspaces:
    n = sum(sizes)
    return np.split(np.linalg.qr(rng.standard_normal((n, n)))[0], np.cumsum(sizes)[:-1], axis=1)


def noisy(A: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    E = noise * rng.standard_normal(A.shape)
    return A + (E + E.transpose(0, 2, 1)) / 2


def dense_blocks(sizes: tuple[int, ...], m: int, noise: float, seed: int) -> tuple[np.ndarray, Subspaces]:
    """Gaussian symmetric blocks."""
    rng = np.random.default_rng((seed, m))
    bases = hidden(sizes, rng)
    blocks = [rng.standard_normal((m, s, s)) for s in sizes]
    A = sum(E @ (B + B.transpose(0, 2, 1)) @ E.T / 2 for E, B in zip(bases, blocks, strict=True))
    return noisy(np.asarray(A), noise, rng), bases


def hessian_blocks(sizes: tuple[int, ...], m: int, noise: float, seed: int) -> tuple[np.ndarray, Subspaces]:
    """Those of the paper, `u_j v^T + v u_j^T`: every combination of them has rank two in a block."""
    rng = np.random.default_rng((seed, m))
    bases = hidden(sizes, rng)
    A = np.zeros((m, sum(sizes), sum(sizes)))
    for E in bases:
        W, v = rng.standard_normal((E.shape[1],) * 2), rng.standard_normal(E.shape[1])
        u = (E @ W @ E.T)[:, :m].T
        A += u[:, :, None] * (E @ v) + (E @ v)[:, None] * u[:, None]
    return noisy(A, noise, rng), bases


def alike_blocks(apart: float, noise: float, seed: int) -> tuple[np.ndarray, Subspaces]:
    """Six matrices with two blocks of 4 that differ by `apart` only: at 0 the subspaces could be any of many."""
    rng = np.random.default_rng(seed)
    bases = hidden((4, 4), rng)
    B, D = rng.standard_normal((2, 6, 4, 4))
    blocks = [B + B.transpose(0, 2, 1), B + B.transpose(0, 2, 1) + apart * (D + D.transpose(0, 2, 1))]
    A = sum(E @ C @ E.T / 2 for E, C in zip(bases, blocks, strict=True))
    return noisy(np.asarray(A), noise, rng), bases


def subspace_error(found: Subspaces, bases: Subspaces) -> float:
    """The largest distance of projectors, subspaces matched; infinite where the sizes differ."""
    if sorted(E.shape[1] for E in found) != sorted(E.shape[1] for E in bases):
        return np.inf
    cost = np.array([[np.linalg.norm(F @ F.T - E @ E.T) for F in found] for E in bases])
    return float(cost[linear_sum_assignment(cost)].max())


def best_possible(A: np.ndarray, bases: Subspaces) -> float:
    """What the noise costs a fit that starts at the truth, one subspace against the rest."""

    def moved(E: np.ndarray) -> float:
        rest = np.linalg.svd(E)[0][:, E.shape[1] :]
        at = split_into(A, E, rest)
        for _ in range(4):
            at = gauss_newton_step(A, at)
        return float(np.linalg.norm(at.first @ at.first.T - E @ E.T))

    return max(moved(E) for E in bases)


def by_fixed_threshold(A: np.ndarray, seed: int, threshold: float = 1e-6) -> Subspaces:
    """The usual way: eigenvectors of a random combination, joined where some matrix couples them."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.eigh(np.tensordot(rng.standard_normal(len(A)), A, 1))[1]
    joined = np.abs(Q.T @ A @ Q).max(axis=0) > threshold * np.sqrt(np.mean(A**2))
    reach = np.linalg.matrix_power(joined.astype(float) + np.eye(len(Q)), len(Q)) > 0
    return [Q[:, row] for row in np.unique(reach, axis=0)]


def box(d: int, H: int, *, rank: int | None = None, size=1.0, tilt=0.0, equal=False, seed: int = 0) -> gh.MultiHead:
    """H heads in subspaces of d / H dimensions that are `tilt` away from orthogonal; `equal` ones but for the place."""
    rng = np.random.default_rng((seed, d, H))
    s = d // H
    r = s if rank is None else rank
    bases = [np.linalg.qr(E + tilt * rng.standard_normal(E.shape))[0] for E in hidden((s,) * H, rng)]
    inner = [(rng.standard_normal((s, r)) @ rng.standard_normal((r, s)), rng.standard_normal(s)) for _ in range(H)]
    inner = [inner[0]] * H if equal else inner
    scale = size / np.sqrt(s * max(r, 1))
    return gh.MultiHead([Attention(scale * E @ W @ E.T, E @ v) for E, (W, v) in zip(bases, inner, strict=True)])


def head_errors(found: gh.MultiHead, target: gh.MultiHead) -> np.ndarray:
    """The relative error of every head's W and v, whichever is larger, heads matched."""

    def distance(one: Attention, other: Attention) -> float:
        W, v = (np.linalg.norm(a - b) for a, b in ((one.W, other.W), (one.v, other.v)))
        return float(max(W / max(np.linalg.norm(other.W), 1e-300), v / np.linalg.norm(other.v)))

    cost = np.array([[distance(one, other) for one in found.heads] for other in target.heads])
    rows, columns = linear_sum_assignment(cost)
    return np.sort(cost[rows, columns])


def known_bases(target: gh.MultiHead) -> float:
    """The worst head's error by Proposition C.2 with the true bases, for heads that fill their subspaces."""
    bases = [np.linalg.svd(head.W)[0][:, : target.dim // len(target.heads)] for head in target.heads]
    return float(head_errors(gh.paper.proposition_c_2(target, bases).model, target)[-1])  # type: ignore[arg-type]


def route(target: gh.MultiHead, f=None, **kw: Any) -> dict[str, Any]:
    """Subspaces from Hessians, then Proposition C.2: how many subspaces, the worst head's error, the queries."""
    oracle = ValueOracle(f or target, target.dim)
    try:
        bases = gh.paper.hessian_subspaces(oracle, **kw)
        found = gh.paper.proposition_c_2(oracle, bases).model
    except GlassheadError as error:
        return {"found": 0, "error": None, "queries": oracle.queries, "refused": type(error).__name__}
    worst = float(head_errors(found, target)[-1]) if len(bases) == len(target.heads) else None
    return {"found": len(bases), "error": worst, "queries": oracle.queries, "refused": None}
