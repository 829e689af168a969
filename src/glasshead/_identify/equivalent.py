"""Whether two sets of parameters compute one function, how far apart they are up to what no query can see, and other
parameters of the same function where there are any.

Heads with different (W, key_bias) are linearly independent functions of the sequence. So two models agree everywhere
exactly when their difference, which is a sum of heads too, has a canonical form without heads and without a bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import linear_sum_assignment

from .._models import Attention, Block, FrontHead, Head, MultiHead, Network, Transformer
from .._types import no_type_check
from .canonical import (
    DEFAULT_TOL,
    HeadSum,
    as_head_sum,
    canonical_sum,
    check_model,
    clusters,
    comparable,
    length,
    louder,
    merged,
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
    check_model(model)
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


def distance(a: Any, b: Any, *, up_to_scale: bool = False) -> float:
    """The larger of the relative distances of W (with the key bias as one more column) and of v (with the bias).

    >>> gh.distance(gh.Attention.random(4, seed=1), gh.Attention.random(4, seed=1))
    0.0

    Relative to the larger of the two norms. Where both have v = 0 nothing shows W, so W does not count; models of
    different dimensions are infinitely far apart. With `up_to_scale=True` v and bias count up to one positive factor,
    which is all that yes-or-no answers show.

    For `gh.MultiHead` it is the largest such distance over heads, those of the canonical forms (`gh.canonical`) paired
    by assignment, and the relative distance of all v and the bias together; different numbers of heads are infinitely
    far apart. An Attention counts as one head.

    For two `gh.Transformer` it is the larger of that of W and of the largest difference of their networks on a thousand
    fixed inputs, over the largest value: different neurons may compute the same. A `gh.FrontHead` has only W and key
    bias to compare. Of two `gh.Block` the heads are compared as those of a MultiHead, their value maps without the
    directions that one of the two says no answer sees.
    """
    kinds = {type(a), type(b)}
    if Block in kinds:
        return distance_of_blocks(a, b)
    if FrontHead in kinds or kinds == {Transformer}:
        return distance_in_front(a, b)
    first, second = as_head_sum(a), as_head_sum(b)
    if not comparable(first, second):
        return float("inf")
    # Two heads are compared as they are, whatever their v, unless no query sees either.
    as_they_are = kinds == {Attention} and any(np.any(model.v) for model in (a, b))
    if not as_they_are:
        first, second = canonical_sum(first, DEFAULT_TOL), canonical_sum(second, DEFAULT_TOL)
    if up_to_scale:
        first, second = on_unit_scale(first), on_unit_scale(second)
    if as_they_are:
        return max(values_apart(first, second), scores_apart(first.heads[0], second.heads[0]))
    return matched_distance(first, second)


def distance_of_blocks(a: Any, b: Any) -> float:
    """The distance of the heads alone: what lies behind a block is no part of it."""
    if not isinstance(a, Block) or not isinstance(b, Block):
        raise TypeError(f"expected two gh.Block, got {type(a).__name__} and {type(b).__name__}")
    if a.dim != b.dim:
        return float("inf")
    free = scipy.linalg.orth(np.concatenate([a.free, b.free]).T, rcond=DEFAULT_TOL)

    def seen(block: Block) -> HeadSum:
        heads = [head.with_values(head.v - head.v @ free @ free.T) for head in block.heads]
        return HeadSum(block.dim, heads, np.zeros(block.dim))

    return matched_distance(canonical_sum(seen(a), DEFAULT_TOL), canonical_sum(seen(b), DEFAULT_TOL))


def distance_in_front(a: Any, b: Any) -> float:
    """How far apart two heads with something behind them are: the distance of the heads, and of the networks where both
    are known."""
    if not isinstance(a, Head) or not isinstance(b, Head):
        several = a if isinstance(b, Head) else b
        raise TypeError(f"expected two models with one head each, got {type(several).__name__}")
    if a.dim != b.dim:
        return float("inf")
    scores = scores_apart(a, b)
    if isinstance(a, Transformer) and isinstance(b, Transformer):
        return max(scores, networks_apart(a.network, b.network))
    return scores


def networks_apart(a: Network, b: Network) -> float:
    """The largest difference on inputs of lengths over four decades, over the largest value."""
    x = np.random.default_rng(0).standard_normal((1000, a.dim)) * np.resize([0.1, 1.0, 10.0, 100.0], 1000)[:, None]
    one, other = a(x), b(x)
    largest = max(float(np.abs(one).max()), float(np.abs(other).max()))
    return 0.0 if largest == 0 else float(np.abs(one - other).max()) / largest


def matched_distance(a: HeadSum, b: HeadSum) -> float:
    """The distance of two canonical forms, heads paired so that their distances add up to the least."""
    if len(a.heads) != len(b.heads):
        return float("inf")
    far = [[max(relative(g.v, h.v), scores_apart(g, h)) for h in b.heads] for g in a.heads]
    far = np.array(far).reshape(len(a.heads), len(b.heads))
    rows, columns = linear_sum_assignment(far)
    ordered = (replace(model, heads=[model.heads[h] for h in order]) for model, order in ((a, rows), (b, columns)))
    return max(values_apart(*ordered), float(far[rows, columns].max(initial=0.0)))


def scores_apart(a: Head, b: Head) -> float:
    """The relative distance of W, with the key bias as one more column."""
    return relative(*(np.c_[head.W, head.key_bias].astype(np.float64) for head in (a, b)))


def values_apart(a: HeadSum, b: HeadSum) -> float:
    """The relative distance of every v, heads in the order they have, with the biases."""
    return relative(*(np.concatenate([*(head.v.ravel() for head in model.heads), model.bias]) for model in (a, b)))


def on_unit_scale(model: HeadSum) -> HeadSum:
    """Every v and the bias divided by the length of all v together, or of the bias where there is none."""
    size = length(np.array([length(head.v) for head in model.heads])) or length(model.bias) or 1.0
    heads = [head.with_values(head.v / size) for head in model.heads]
    return HeadSum(model.dim, heads, model.bias / size)


def relative(x: np.ndarray, y: np.ndarray) -> float:
    """The distance of x and y over the larger of their lengths."""
    size = max(length(x), length(y))
    return 0.0 if size == 0 else length(x - y) / size
