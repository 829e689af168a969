"""Proposition C.2: heads in orthogonal subspaces with known bases, each by Theorem 4.1 within its own."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._errors import NotIdentifiable
from .._models import Attention, MultiHead
from .._oracles import Oracle, Within, as_oracle
from .._recovery import Recovery, recovered
from .._types import Answering, ArrayLike
from .._validate import as_real, require_shape
from .theorem_4_1 import theorem_4_1

ORTHONORMAL = 1e-8  # bases found numerically are orthonormal to about 1e-14; typed ones to fewer digits


def proposition_c_2(oracle: Oracle | Answering, bases: Iterable[ArrayLike]) -> Recovery:
    """The proof of Proposition C.2 as it stands, in exactly `sum_h (d_h + d_h**2)` queries.

    >>> rng = np.random.default_rng(0)
    >>> bases = np.split(np.linalg.qr(rng.standard_normal((6, 6)))[0], 2, axis=1)
    >>> heads = [gh.Attention(E @ rng.standard_normal((3, 3)) @ E.T, E @ rng.standard_normal(3)) for E in bases]
    >>> found = gh.paper.proposition_c_2(gh.MultiHead(heads), bases)
    >>> found.queries, bool(np.abs(found.model.W - [head.W for head in heads]).max() < 1e-12)
    (24, True)

    `bases` has one matrix `(d, d_h)` per head, with orthonormal columns that are orthogonal to those of all others.
    Tokens in head h's subspace are invisible to every other head, so there the box is one head in dimension `d_h`, and
    Theorem 4.1 with basis probes reads it. Directions in no basis are never asked and taken as unused. The heads come
    in the order of the bases; the proof leaves no queries for a check.
    """
    oracle = as_oracle(oracle)
    bases = require_bases(bases, oracle.dim)
    start = oracle.queries
    found = [read_within(oracle, E, h) for h, E in enumerate(bases)]
    pairs = zip(bases, (one.model for one in found if isinstance(one.model, Attention)), strict=True)
    return recovered(
        MultiHead([Attention(E @ head.W @ E.T, E @ head.v) for E, head in pairs]),
        rank=tuple(int(one.rank) for one in found),  # type: ignore[arg-type]
        queries=oracle.queries - start,
        limit=sum(one.limit for one in found),
        reason="Proposition C.2, unchecked: its sum of d_h + d_h^2 queries leaves none for a check of the bases",
    )


def read_within(oracle: Oracle, E: np.ndarray, h: int) -> Recovery:
    try:
        return theorem_4_1(Within(oracle, E))
    except NotIdentifiable as error:
        raise NotIdentifiable(
            f"v = 0 in subspace {h}: the box answers 0 to every token there, so no learner could read its head; "
            "leave that basis out"
        ) from error


def require_bases(given: Iterable[ArrayLike], dim: int) -> list[np.ndarray]:
    bases = [as_real(E, "bases").astype(np.float64, copy=False) for E in given]
    if not bases:
        raise ValueError("expected at least one basis of shape (d, d_h), got none")
    for E in bases:
        require_shape(E.ndim == 2 and len(E) == dim and E.size > 0, f"bases of shape ({dim}, d_h)", E.shape)
    together = np.hstack(bases)
    off = float(np.abs(together.T @ together - np.eye(together.shape[1])).max())
    if off > ORTHONORMAL:
        raise ValueError(
            f"expected orthonormal bases of orthogonal subspaces, got products off by {off:.2g}; np.linalg.qr makes a "
            "basis orthonormal, gh.paper.hessian_subspaces finds the subspaces"
        )
    return bases
