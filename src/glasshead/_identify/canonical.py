"""The canonical form: what is left of the parameters when everything that no query can see is taken away."""

from __future__ import annotations

import numpy as np

from .._models import Attention, MultiHead
from .._models.values import with_values
from .alike import SAME, clusters
from .parts import Parts, heads_of, length, parts


def canonical(model, *, tol: float = SAME) -> MultiHead:
    """The model with heads of equal `(W, key_bias)` merged, heads with `v = 0` dropped, and the rest in order.

    >>> head = gh.Attention.random(4, seed=1)
    >>> split = gh.MultiHead([head, gh.Attention(head.W, [1.0, 0, 0, 0]), gh.Attention(head.W, [-1.0, 0, 0, 0])])
    >>> gh.canonical(split)
    MultiHead(dim=4, heads=1, float64)

    Two models compute the same function exactly when their canonical forms are equal (docs/identifiability.md). The
    order is the longest `v` first, then by W. Equal means within `tol`: W relative to the larger W, a key bias relative
    to the larger one or the root of W; `v = 0` means at most `tol` times the longest `v`, or times the lengths of what
    was added up. A merged head keeps the scores of its member with the longest `v`. A model without any head left is
    one head with `W = 0` and `v = 0`.
    """
    form = canonical_parts(parts(model), tol)
    shape = heads_of(model)[0].v.shape[1:]
    heads = form.heads or list(form.model.heads)
    return MultiHead([reshaped(head, shape, model.dtype) for head in heads], bias=form.bias.reshape(shape))


def canonical_parts(model: Parts, tol: float) -> Parts:
    heads = merged(model.heads, tol)
    longest = max((length(head.v) for head in heads), default=0.0)
    return Parts(model.dim, sorted(louder(heads, tol * longest), key=place), model.bias)


def merged(heads: list[Attention], tol: float) -> list[Attention]:
    """One head for each cluster, its v the sum of theirs, without those that cancel."""
    together = [sum_of([heads[i] for i in cluster], tol) for cluster in clusters(heads, tol)] if heads else []
    return louder(together, 0.0)


def sum_of(heads: list[Attention], tol: float) -> Attention:
    if len(heads) == 1:
        return heads[0]
    v = np.sum([head.v for head in heads], axis=0)
    cancelled = length(v) <= tol * sum(length(head.v) for head in heads)
    first = max(heads, key=lambda head: length(head.v))
    return with_values(first.score_tensors(), 0 * v if cancelled else v)


def louder(heads: list[Attention], threshold: float) -> list[Attention]:
    return [head for head in heads if length(head.v) > threshold]


def place(head: Attention) -> tuple:
    return -length(head.v), (head.W + 0.0).tobytes(), head.key_bias.tobytes()


def reshaped(head: Attention, shape: tuple[int, ...], dtype: np.dtype) -> Attention:
    scores = {name: tensor.astype(dtype) for name, tensor in head.score_tensors().items()}
    return with_values(scores, head.v.reshape(-1, *shape).astype(dtype))
