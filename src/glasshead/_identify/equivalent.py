"""Whether two sets of parameters compute one function.

Heads with different (W, key_bias) are linearly independent functions of the sequence. So two models agree everywhere
exactly when their difference, which is a sum of heads too, has a canonical form without heads and without a bias.
"""

from __future__ import annotations

import numpy as np

from .._models import Attention, MultiHead, with_values
from .._types import no_type_check
from .canonical import DEFAULT_TOL, HeadSum, as_head_sum, canonical_sum, comparable, length, louder, merged


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
    return with_values(head.score_tensors(), -head.v)


def unit_score_length(heads: list[Attention]) -> float:
    """The length of tokens whose largest scores are about 1: the unit in which a bias is as large as a v."""
    largest = max((max(np.sqrt(length(head.W)), length(head.key_bias)) for head in heads), default=0.0)
    return 1 / largest if largest > 0 else 1.0
