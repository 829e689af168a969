"""Whether two sets of parameters compute one function, and other parameters of the same function where there are any.

Heads with different (W, key_bias) are linearly independent functions of the sequence. So two models agree everywhere
exactly when their difference, which is a sum of heads too, has a canonical form without heads and without a bias.
"""

from __future__ import annotations

import numpy as np

from .._models import Attention, MultiHead
from .._types import no_type_check
from .canonical import (
    DEFAULT_TOL,
    HeadSum,
    as_head_sum,
    canonical_sum,
    clusters,
    comparable,
    length,
    louder,
    merged,
    require_model,
)


@no_type_check
def equivalent(a: Attention | MultiHead, b: Attention | MultiHead, *, tol: float = DEFAULT_TOL) -> bool:
    """Whether `a` and `b` (`gh.Attention` or `gh.MultiHead`, any numbers of heads) are the same function.

    >>> model = gh.MultiHead.random(4, heads=3, seed=1)
    >>> gh.equivalent(model, gh.MultiHead(model.heads[::-1])), gh.equivalent(model, model.heads[0])
    (True, False)

    Decided from the parameters, without a query. `tol` is relative: heads within it count as equal (`gh.canonical` says
    how), and what is left of a `v` after subtraction counts as nothing up to `tol` times the longest `v`.
    """
    first, second = as_head_sum(a), as_head_sum(b)
    return comparable(first, second) and not is_nonzero(difference(first, second, tol))


def is_nonzero(left: HeadSum) -> bool:
    return bool(left.heads) or bool(np.any(left.bias))


def difference(a: HeadSum, b: HeadSum, tol: float) -> HeadSum:
    """`a - b` in canonical form, where what is below the tolerance is gone."""
    a, b = canonical_sum(a, tol), canonical_sum(b, tol)
    longest = max((length(head.v) for head in a.heads + b.heads), default=0.0)
    heads = louder(merged(a.heads + [negated(head) for head in b.heads], tol), tol * longest)
    bias = a.bias - b.bias
    size = max(length(a.bias), length(b.bias), longest * unit_score_length(a.heads + b.heads))
    return HeadSum(a.dim, heads, bias if length(bias) > tol * size else 0 * bias)


def negated(head: Attention) -> Attention:
    return head.with_values(-head.v)


def unit_score_length(heads: list[Attention]) -> float:
    """The length of tokens whose largest scores are about 1: the unit in which a bias is as large as a v."""
    largest = max((max(np.sqrt(length(head.W)), length(head.key_bias)) for head in heads), default=0.0)
    return 1 / largest if largest > 0 else 1.0


EQUAL = 1e-13  # relative: one W computed from two sets of factors


@no_type_check
def witness(model: Attention | MultiHead, seed: int = 0) -> Attention | MultiHead:
    """A model with other parameters that computes the same function, of the same kind and with as many heads.

    >>> model = gh.paper.proposition_7_1(gh.Attention.random(4, seed=1), [0.5, 0.5])
    >>> other = gh.witness(model)
    >>> gh.equivalent(model, other), np.allclose(model.v, other.v)
    (True, False)

    Where a head has `v = 0` its W is free; where two share `(W, key_bias)`, only the sum of their `v` shows. Otherwise
    the parameters are unique up to the order of the heads, which does not count as a difference: `ValueError`.
    """
    require_model(model)
    heads, rng = list(model.heads), np.random.default_rng(seed)
    changed = other_scores(heads, rng) or other_values(heads, rng)
    if changed is None:
        raise ValueError(
            "expected a head with v = 0, or two with equal W and key_bias, got none: these parameters are unique "
            "among all with as many heads, up to order; gh.paper.proposition_7_1 splits a head into several"
        )
    return (
        MultiHead(changed, bias=model.bias)
        if isinstance(model, MultiHead)
        else changed[0].with_values(changed[0].v, model.bias)
    )


def other_scores(heads: list[Attention], rng: np.random.Generator) -> list[Attention] | None:
    """The first head that nobody hears gets another W."""
    for h, head in enumerate(heads):
        if not np.any(head.v):
            W = rng.standard_normal((head.dim, head.dim)) * (head.W_norm or 1.0) / head.dim
            return [*heads[:h], Attention(W.astype(head.dtype), head.v), *heads[h + 1 :]]
    return None


def other_values(heads: list[Attention], rng: np.random.Generator) -> list[Attention] | None:
    """The first two heads that score alike exchange a vector as long as their v are."""
    for first, second in (cluster[:2] for cluster in clusters(heads, EQUAL) if len(cluster) > 1):
        changed, v = list(heads), heads[first].v
        moved = rng.standard_normal(v.shape)
        moved *= max(np.linalg.norm(heads[h].v) for h in (first, second)) / np.linalg.norm(moved)
        moved = moved.astype(v.dtype)
        changed[first] = heads[first].with_values(v + moved)
        changed[second] = heads[second].with_values(heads[second].v - moved)
        return changed
    return None
