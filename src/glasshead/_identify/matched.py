"""How far apart two models are once their heads are matched."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._models import Attention
from .._models.values import with_values
from .alike import SAME
from .canonical import canonical_parts
from .parts import Parts, comparable, length, parts


def matched_distance(a, b, up_to_scale: bool) -> float:
    """Between canonical forms, heads paired so that their distances add up to the least."""
    first, second = (canonical_parts(parts(model), SAME) for model in (a, b))
    if not comparable(first, second) or len(first.heads) != len(second.heads):
        return float("inf")
    if up_to_scale:
        first, second = on_unit_scale(first), on_unit_scale(second)
    far = np.array([[apart(g, h) for h in second.heads] for g in first.heads]).reshape(len(first.heads), -1)
    rows, columns = linear_sum_assignment(far)
    values = relative(values_of(first, rows), values_of(second, columns))
    return max(values, float(far[rows, columns].max(initial=0.0)))


def apart(a: Attention, b: Attention) -> float:
    """The larger of the relative distances of v and of W, with the key bias as one more column."""
    return max(relative(a.v, b.v), relative(np.c_[a.W, a.key_bias], np.c_[b.W, b.key_bias]))


def values_of(model: Parts, order: np.ndarray) -> np.ndarray:
    """Every v in this order, and the bias."""
    return np.concatenate([*(model.heads[h].v.ravel() for h in order), model.bias])


def on_unit_scale(model: Parts) -> Parts:
    """Every v and the bias divided by the length of all v together, or of the bias where there is none."""
    size = length(np.array([length(head.v) for head in model.heads])) or length(model.bias) or 1.0
    heads = [with_values(head.score_tensors(), head.v / size) for head in model.heads]
    return Parts(model.dim, heads, model.bias / size)


def relative(x: np.ndarray, y: np.ndarray) -> float:
    size = max(length(x), length(y))
    return 0.0 if size == 0 else length(x - y) / size
