"""How far apart two models are, up to what no query can see."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any, cast

import numpy as np
from scipy.linalg import orth  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from scipy.optimize import linear_sum_assignment  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._models import Attention, Block, FrontHead, Head, MultiHead, Network, Norm, Placed, Transformer
from .canonical import DEFAULT_TOL, HeadSum, as_head_sum, canonical_sum, comparable, length


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
    fixed inputs, over the largest value: different neurons may compute the same. A `gh.FrontHead` has only W, key bias
    and the norm in front to compare. Of two `gh.Block` the heads are compared as those of a MultiHead, their value maps
    without the directions that one of the two says no answer sees. Heads behind different kinds of norms, or none, are
    infinitely far apart, and so are blocks with different residual maps or ways to see the order of tokens, or one
    parallel block; where both know the eps of a norm its relative difference counts. Of norms behind heads only those
    are compared that both blocks know. Of two `gh.Placed` the positions count, too, at the places that both have; in
    front of heads alone those of the first place belong to the biases, and elsewhere to the positions.
    """
    kinds: set[type[Any]] = {type(a), type(b)}
    if Placed in kinds:
        return distance_of_placed(a, b, up_to_scale)
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


def distance_of_placed(a: Any, b: Any, up_to_scale: bool) -> float:
    """The distance of the models behind position vectors, or of these where that is larger."""
    if not isinstance(a, Placed) or not isinstance(b, Placed):
        other = type(b if isinstance(a, Placed) else a).__name__
        raise TypeError(f"expected two gh.Placed, or none, got one and a {other}; its .model is what has no positions")
    a, b = without_first(a), without_first(b)
    far = distance(a.model, b.model, up_to_scale=up_to_scale)
    places = min(len(a.positions), len(b.positions))
    return max(far, relative(a.positions[:places], b.positions[:places])) if a.dim == b.dim else far


def without_first(placed: Placed) -> Placed:
    """A model of the same function with no vector at the first place, where heads alone lie behind it: p adds `W p` to
    each key bias and `p . v` to the bias."""
    model, p = placed.model, placed.positions[0]
    if not isinstance(model, Attention | MultiHead):
        return placed
    bias = model.bias + sum(p @ head.v for head in model.heads)
    heads = [Attention(head.W, head.v, key_bias=head.W @ p + head.key_bias) for head in model.heads]
    moved = MultiHead(heads, bias=bias) if isinstance(model, MultiHead) else heads[0].with_values(heads[0].v, bias)
    return Placed(moved, placed.positions - p)


def distance_of_blocks(a: Any, b: Any) -> float:
    """The distance of the heads and of what is known to stand around them, not of what lies behind a block."""
    if not isinstance(a, Block) or not isinstance(b, Block):
        raise TypeError(f"expected two gh.Block, got {type(a).__name__} and {type(b).__name__}")
    if a.dim != b.dim or what_differs(a, b):
        return float("inf")
    free = cast("np.ndarray", orth(np.concatenate([a.free, b.free]).T, rcond=DEFAULT_TOL))

    def seen(block: Block) -> HeadSum:
        heads = [head.with_values(head.v - head.v @ free @ free.T) for head in block.heads]
        return HeadSum(block.dim, heads, np.zeros(block.dim))

    far = matched_distance(canonical_sum(seen(a), DEFAULT_TOL), canonical_sum(seen(b), DEFAULT_TOL))
    return max(far, eps_apart(a, b))


def distance_in_front(a: Any, b: Any) -> float:
    """How far apart two heads with something behind them are: the distance of the heads, and of the networks where both
    are known."""
    if not isinstance(a, Head) or not isinstance(b, Head):
        several = a if isinstance(b, Head) else b
        raise TypeError(f"expected two models with one head each, got {type(several).__name__}")
    if a.dim != b.dim or what_differs(a, b):
        return float("inf")
    scores = max(scores_apart(a, b), eps_apart(a, b))
    if isinstance(a, Transformer) and isinstance(b, Transformer):
        return max(scores, networks_apart(a.network, b.network))
    return scores


def what_differs(a: Any, b: Any) -> str:
    """What stands around the heads of two models that keeps these from being compared, in words; or nothing."""
    if isinstance(a, Placed) and isinstance(b, Placed):
        return what_differs(a.model, b.model)
    if any(one is None or other is None or one.kind != other.kind for one, other in paired_norms(a, b)):
        return "norms"
    if not isinstance(a, Block) or not isinstance(b, Block):
        return ""
    if a.residual_map != b.residual_map:
        return "residual maps"
    if a.parallel != b.parallel:
        return "orders of heads and network"
    kinds = [(block.rotary is None, block.slopes is None) for block in (a, b)]
    return "ways to see the order of tokens" if kinds[0] != kinds[1] else ""


def eps_apart(a: Any, b: Any) -> float:
    """The largest relative difference of the eps of two norms, where both are known."""
    known = [(one.eps, other.eps) for one, other in paired_norms(a, b) if one and other and one.eps and other.eps]
    return max((abs(one - other) / max(one, other) for one, other in known), default=0.0)


def paired_norms(a: Any, b: Any) -> list[tuple[Norm | None, Norm | None]]:
    """The norms of two models at the same places, those behind heads only where both models know some."""
    before = zip_longest(norms_at(a, "before"), norms_at(b, "before"))
    behind = norms_at(a, "behind"), norms_at(b, "behind")
    return [*before, *(zip_longest(behind[0], behind[1]) if all(behind) else ())]


def norms_at(model: Any, place: str) -> list[Norm]:
    known = model.norms if isinstance(model, Block) else [model.norm] if isinstance(model, FrontHead) else []
    return [norm for norm in known if norm is not None and norm.place == place]


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
    rows, columns = cast("tuple[np.ndarray, np.ndarray]", linear_sum_assignment(far))
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
