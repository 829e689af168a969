"""Theorem 4.1: one head, exactly, with d one-row and d^2 two-row value queries.

Other proofs of the paper read v and scores in the same two ways.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit  # pyright: ignore[reportMissingTypeStubs]

from .._limits import information_limit
from .._linalg import numerical_rank
from .._models import Attention
from .._oracles import Oracle, as_oracle, read_unit_rows
from .._recovery import Recovery, recovered
from .._types import Answering

PROBE_KINDS = ("basis", "gaussian")


def theorem_4_1(oracle: Oracle | Answering, probes: str = "basis", seed: int = 0) -> Recovery:
    """The proof of Theorem 4.1 as it stands, in exactly `d + d**2` queries, as reference and baseline.

    >>> target = gh.Attention.random(8, seed=1)
    >>> gh.paper.theorem_4_1(target).queries
    72

    `probes="basis"` takes `u_l = e_l`, or `e_l + e_p` where `v_l = 0`, for some `v_p != 0`; `"gaussian"` takes i.i.d.
    Gaussian ones. Tokens have length one or so whatever the scale of W, so large scores saturate: `gh.recover` asks at
    the right scale instead. The theorem leaves no queries for a held-out check, so `residual` is None.
    """
    if probes not in PROBE_KINDS:
        raise ValueError(f"expected probes to be one of {PROBE_KINDS}, got {probes!r}")
    oracle = as_oracle(oracle)
    d, start = oracle.dim, oracle.queries
    v = read_unit_rows(oracle)
    U = basis_probes(v) if probes == "basis" else np.random.default_rng(seed).standard_normal((d, d))
    scores = [read_unit_scores(oracle, U, np.broadcast_to(e_j, U.shape), v) for e_j in np.eye(d)]
    W = np.linalg.solve(U, np.column_stack(scores))
    return recovered(
        Attention(W, v),
        rank=numerical_rank(np.linalg.svd(W, compute_uv=False), d),
        queries=oracle.queries - start,
        limit=information_limit(d),
        reason=f"Theorem 4.1 with {probes} probes, unchecked: its d + d^2 queries leave none for a check",
    )


def basis_probes(v: np.ndarray) -> np.ndarray:
    probes = np.eye(len(v))
    probes[v == 0, np.argmax(np.abs(v))] = 1.0
    return probes


def read_unit_scores(oracle: Oracle, A: np.ndarray, B: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`a . W b` for the rows of `A` and `B`: the softmax over `[a + b ; b]` is `sigma(a . W b)`."""
    alpha = (oracle(np.stack([A + B, B], axis=1)) - B @ v) / (A @ v)
    # A saturated or rounded weight is taken as the nearest one a sigmoid can have.
    return logit(np.clip(alpha, np.finfo(float).tiny, 1 - 2.0**-53))
