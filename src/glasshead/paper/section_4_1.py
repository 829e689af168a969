"""Section 4.1: a one-layer Transformer from a learner for ReLU networks and Theorem 4.1 on antisymmetric queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._errors import NotIdentifiable
from .._limits import information_limit
from .._linalg import numerical_rank
from .._models import Transformer
from .._oracles import Antisymmetric, Counted, Oracle, as_oracle
from .._recovery import Recovery, recovered
from .._relu import recover_relu
from .._types import Answering, ArrayLike
from .theorem_4_1 import theorem_4_1


def section_4_1(oracle: Oracle | Answering, learn_ffn: Callable[..., Any] = recover_relu) -> Recovery:
    """The reduction of Section 4.1 as it stands: the queries of `learn_ffn`, and `2 (d + d**2)` for W.

    >>> target = gh.Transformer.random(4, width=6, seed=1)
    >>> found = gh.paper.section_4_1(gh.ValueOracle(target))
    >>> bool(np.linalg.norm(found.model.W - target.W) < 1e-9)
    True

    `learn_ffn(f, dim)` is any learner for `f(x) = w^T ReLU(A^T x)` from values of f, whose result has `A` and `w`; it
    is given the one-row queries. The paper left it open which one could serve without assuming that the columns of A
    are independent, and conjectured that an algorithm of Daniely and Granot could be modified to do so:
    `gh.recover_relu` needs no assumption. W comes from `f(X) - f(-X)`, a plain head with `v = A w`, through Theorem 4.1
    and its probes. Where `A w = 0` that is silent: `NotIdentifiable` by this route, though `gh.recover` reads W.
    """
    counted = Counted(as_oracle(oracle))

    def ask_one_row(x: ArrayLike) -> np.ndarray:
        return counted(np.asarray(x)[:, None])

    network = learn_ffn(ask_one_row, counted.dim)
    spent = counted.queries
    try:
        head: Any = theorem_4_1(Antisymmetric(counted)).model
    except NotIdentifiable as error:
        raise NotIdentifiable(
            'A w = 0: f(X) - f(-X) is 0 whatever W is; gh.recover(oracle, family="transformer") reads W another way'
        ) from error
    model, width = Transformer(head.W, network.A, network.w), np.shape(network.w)[0]
    return recovered(
        model,
        rank=numerical_rank(np.linalg.svd(model.W, compute_uv=False), counted.dim),
        queries=counted.queries,
        limit=information_limit(counted.dim) + width * counted.dim,
        reason=f"Section 4.1, unchecked: {spent} queries for a network of {width} neurons, two for every score of W",
    )
