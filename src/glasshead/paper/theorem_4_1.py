"""Theorem 4.1: one head, exactly, with d one-row and d^2 two-row value queries."""

from __future__ import annotations

import numpy as np

from .._errors import NotIdentifiable
from .._models import Attention
from .._models.factors import numerical_rank
from .._oracle import Oracle
from .._plan import information_limit
from .._recover import as_oracle
from .._recovery import Recovery

PROBES = ("basis", "gaussian")


def theorem_4_1(oracle, probes: str = "basis", seed: int = 0) -> Recovery:
    """The proof of Theorem 4.1 as it stands, in exactly `d + d**2` queries, as reference and baseline.

    >>> target = gh.Attention.random(8, seed=1)
    >>> gh.paper.theorem_4_1(target).queries
    72

    `probes="basis"` takes `u_l = e_l`, or `e_l + e_p` where `v_l = 0`, for some `v_p != 0`; `"gaussian"` takes i.i.d.
    Gaussian ones. Tokens have length one or so whatever the scale of W, so large scores saturate: `gh.recover` asks at
    the right scale instead. The theorem leaves no queries for a held-out check, so `residual` is None.
    """
    if probes not in PROBES:
        raise ValueError(f"expected probes to be one of {PROBES}, got {probes!r}")
    oracle = as_oracle(oracle)
    d, start = oracle.dim, oracle.queries
    basis = np.eye(d)
    v = np.asarray(oracle(basis[:, None]))
    if v.ndim != 1:
        raise ValueError(f"expected a box with one number per answer, as in the paper, got {v.shape[1]}")
    if not v.any():
        raise NotIdentifiable("v = 0: the box answers 0 to everything whatever W is, so no learner could read W")
    U = basis_probes(v) if probes == "basis" else np.random.default_rng(seed).standard_normal((d, d))
    W = np.column_stack([column(oracle, U, basis[j], v) for j in range(d)])
    return Recovery(
        model=Attention(W, v),
        family="attention",
        heads=1,
        rank=numerical_rank(np.linalg.svd(W, compute_uv=False), d),
        queries=oracle.queries - start,
        limit=information_limit(d),
        bound=None,
        bound_v=None,
        confidence=1.0,
        residual=None,
        reason=f"Theorem 4.1 with {probes} probes, unchecked: its d + d^2 queries leave none for a check",
    )


def basis_probes(v: np.ndarray) -> np.ndarray:
    probes = np.eye(len(v))
    probes[v == 0, np.argmax(np.abs(v))] = 1.0
    return probes


def column(oracle: Oracle, U: np.ndarray, e_j: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`W e_j`: the softmax over `[u + e_j ; e_j]` is `sigma(u . W e_j)`, and d such probes are a linear system."""
    X = np.stack([U + e_j, np.broadcast_to(e_j, U.shape)], axis=1)
    alpha = (oracle(X) - e_j @ v) / (U @ v)
    # A saturated or rounded weight is taken as the nearest one a sigmoid can have.
    alpha = np.clip(alpha, np.finfo(float).tiny, 1 - 2.0**-53)
    return np.linalg.solve(U, np.log(alpha) - np.log1p(-alpha))
