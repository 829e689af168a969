"""How far apart two models are, up to what no query can see."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._models import Attention, FrontHead, Head, Transformer, with_values
from .canonical import SAME, Parts, canonical_parts, comparable, length, parts


def distance(a, b, *, up_to_scale: bool = False) -> float:
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
    bias to compare.
    """
    kinds = {type(a), type(b)}
    if FrontHead in kinds or kinds == {Transformer}:
        return behind_heads(a, b)
    if not isinstance(a, Attention) or not isinstance(b, Attention):
        return matched_distance(a, b, up_to_scale)
    if a.dim != b.dim or a.v.size != b.v.size:  # one output is one output, as (d,) or as (d, 1)
        return float("inf")
    values = relative(*(on_unit_scale(model) if up_to_scale else values_of(model) for model in (a, b)))
    if not np.any(a.v) and not np.any(b.v):
        return values
    return max(values, relative(np.c_[a.W, a.key_bias], np.c_[b.W, b.key_bias]))


def behind_heads(a, b) -> float:
    """Of two heads with something behind them, or one of them."""
    for model in (a, b):
        if not isinstance(model, Head):
            raise TypeError(f"expected two models with one head each, got {type(model).__name__}")
    if a.dim != b.dim:
        return float("inf")
    scores = relative(np.c_[a.W, a.key_bias], np.c_[b.W, b.key_bias])
    return max(scores, networks_apart(a, b)) if isinstance(a, Transformer) and isinstance(b, Transformer) else scores


def networks_apart(a: Transformer, b: Transformer) -> float:
    x = np.random.default_rng(0).standard_normal((1000, a.dim)) * np.resize([0.1, 1.0, 10.0, 100.0], 1000)[:, None]
    one, other = a.network(x), b.network(x)
    largest = max(float(np.abs(one).max()), float(np.abs(other).max()))
    return 0.0 if largest == 0 else float(np.abs(one - other).max()) / largest


def values_of(model: Attention) -> np.ndarray:
    return np.append(model.v, model.bias).astype(np.float64)


def on_unit_scale(model: Attention) -> np.ndarray:
    """v and bias divided by the norm of v, or by that of the bias where v = 0."""
    values = values_of(model)
    values = values / (np.abs(values).max() or 1.0)  # first, so that squares neither overflow nor vanish
    v, bias = np.split(values, [model.v.size])
    return values / (np.linalg.norm(v) or np.linalg.norm(bias) or 1.0)


def relative(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    largest = max(np.abs(x).max(), np.abs(y).max()) or 1.0  # divided out for the same reason
    x, y = x / largest, y / largest
    size = max(np.linalg.norm(x), np.linalg.norm(y))
    return 0.0 if size == 0 else float(np.linalg.norm(x - y) / size)


def matched_distance(a, b, up_to_scale: bool) -> float:
    """Between canonical forms, heads paired so that their distances add up to the least."""
    first, second = (canonical_parts(parts(model), SAME) for model in (a, b))
    if not comparable(first, second) or len(first.heads) != len(second.heads):
        return float("inf")
    if up_to_scale:
        first, second = parts_on_unit_scale(first), parts_on_unit_scale(second)
    far = np.array([[apart(g, h) for h in second.heads] for g in first.heads]).reshape(len(first.heads), -1)
    rows, columns = linear_sum_assignment(far)
    values = relative_parts(parts_values(first, rows), parts_values(second, columns))
    return max(values, float(far[rows, columns].max(initial=0.0)))


def apart(a: Attention, b: Attention) -> float:
    """The larger of the relative distances of v and of W, with the key bias as one more column."""
    return max(relative_parts(a.v, b.v), relative_parts(np.c_[a.W, a.key_bias], np.c_[b.W, b.key_bias]))


def parts_values(model: Parts, order: np.ndarray) -> np.ndarray:
    """Every v in this order, and the bias."""
    return np.concatenate([*(model.heads[h].v.ravel() for h in order), model.bias])


def parts_on_unit_scale(model: Parts) -> Parts:
    """Every v and the bias divided by the length of all v together, or of the bias where there is none."""
    size = length(np.array([length(head.v) for head in model.heads])) or length(model.bias) or 1.0
    heads = [with_values(head.score_tensors(), head.v / size) for head in model.heads]
    return Parts(model.dim, heads, model.bias / size)


def relative_parts(x: np.ndarray, y: np.ndarray) -> float:
    size = max(length(x), length(y))
    return 0.0 if size == 0 else length(x - y) / size
