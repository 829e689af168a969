"""The canonical form of a sum of heads: equal scores merged, silent heads dropped, the rest in order.

Here every model is a `HeadSum`: heads and a bias in float64, with v of shape (d, k) even for one output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.linalg import norm  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from scipy.sparse.csgraph import connected_components  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from .._models import Attention, MultiHead, without_bias
from .._types import no_type_check


@dataclass(frozen=True)
class HeadSum:
    dim: int
    heads: list[Attention]
    bias: np.ndarray

    @property
    def model(self) -> MultiHead:
        """No heads are one that answers nothing."""
        silent = Attention(np.zeros((self.dim, self.dim)), np.zeros((self.dim, len(self.bias))))
        return MultiHead(self.heads or [silent], bias=self.bias)


def as_head_sum(model: Any) -> HeadSum:
    require_model(model)
    bias = np.atleast_1d(np.asarray(model.bias, np.float64))
    return HeadSum(model.dim, [with_value_columns(head) for head in model.heads], bias)


def require_model(model: Any) -> None:
    if not isinstance(model, Attention | MultiHead):
        raise TypeError(f"expected a gh.Attention or a gh.MultiHead, got {type(model).__name__}")


def with_value_columns(head: Attention) -> Attention:
    head = without_bias(head, np.float64)
    return head if head.v.ndim == 2 else head.with_values(head.v[:, None])


def comparable(a: HeadSum, b: HeadSum) -> bool:
    """One output is one output, as (d,) or as (d, 1)."""
    return a.dim == b.dim and a.bias.shape == b.bias.shape


def length(x: np.ndarray) -> float:
    """The Euclidean or Frobenius norm, by the BLAS routine in which no square overflows or vanishes."""
    return float(cast("Any", norm(x.ravel())))


DEFAULT_TOL = 1e-9  # relative, see docs/identifiability.md: what is asked of a recovery from float64 answers
# With a token q long enough for W q to matter beside a key bias k, scores reach |q| |k| = k^2 / W and are rounded in
# proportion: answers in float64 do not clearly show a part of W smaller than this part of k^2.
LOST_BESIDE_KEY_BIAS = 2.0**-40


def clusters(heads: list[Attention], tol: float) -> list[list[int]]:
    """Indices of heads that score alike, directly or through others."""
    labels: np.ndarray = cast("Any", connected_components(alike(heads, tol), directed=False))[1]
    return [np.flatnonzero(labels == label).tolist() for label in dict.fromkeys(labels)]


def alike(heads: list[Attention], tol: float) -> np.ndarray:
    matrices, biases = [head.W for head in heads], [head.key_bias for head in heads]
    W, key = np.array([length(M) for M in matrices]), np.array([length(k) for k in biases])
    answer = np.eye(len(heads), dtype=bool)
    for i, j in zip(*np.triu_indices(len(heads), 1), strict=True):
        larger, longer = max(W[i], W[j]), max(key[i], key[j])
        answer[i, j] = (
            abs(W[i] - W[j]) <= (allowed := tol * larger + LOST_BESIDE_KEY_BIAS * longer**2)
            and length(biases[i] - biases[j]) <= tol * max(longer, np.sqrt(larger))
            and length(matrices[i] - matrices[j]) <= allowed
        )
    return answer


@no_type_check
def canonical(model: Attention | MultiHead, *, tol: float = DEFAULT_TOL) -> MultiHead:
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
    form = canonical_sum(as_head_sum(model), tol)
    shape = model.heads[0].v.shape[1:]
    heads = form.heads or list(form.model.heads)
    return MultiHead([reshaped(head, shape, model.dtype) for head in heads], bias=form.bias.reshape(shape))


def canonical_sum(model: HeadSum, tol: float) -> HeadSum:
    heads = merged(model.heads, tol)
    longest = max((length(head.v) for head in heads), default=0.0)
    return HeadSum(model.dim, sorted(louder(heads, tol * longest), key=sort_key), model.bias)


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
    return first.with_values(0 * v if cancelled else v)


def louder(heads: list[Attention], threshold: float) -> list[Attention]:
    return [head for head in heads if length(head.v) > threshold]


def sort_key(head: Attention) -> tuple[float, bytes, bytes]:
    return -length(head.v), (head.W + 0.0).tobytes(), head.key_bias.tobytes()


def reshaped(head: Attention, shape: tuple[int, ...], dtype: np.dtype) -> Attention:
    head = without_bias(head, dtype)
    return head.with_values(head.v.reshape(-1, *shape))
