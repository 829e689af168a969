"""Every model here is a list of heads and a bias, in float64, with v of shape (d, k) even for one output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._models import Attention, MultiHead
from .._models.values import plain, with_values


@dataclass(frozen=True)
class Parts:
    dim: int
    heads: list[Attention]
    bias: np.ndarray

    @property
    def model(self) -> MultiHead:
        """No heads are one that answers nothing."""
        silent = Attention(np.zeros((self.dim, self.dim)), np.zeros((self.dim, len(self.bias))))
        return MultiHead(self.heads or [silent], bias=self.bias)


def parts(model) -> Parts:
    check_model(model)
    bias = np.atleast_1d(np.asarray(model.bias, np.float64))
    return Parts(model.dim, [in_columns(head) for head in heads_of(model)], bias)


def heads_of(model) -> tuple[Attention, ...]:
    return model.heads if isinstance(model, MultiHead) else (model,)


def check_model(model) -> None:
    if not isinstance(model, Attention | MultiHead):
        raise TypeError(f"expected a gh.Attention or a gh.MultiHead, got {type(model).__name__}")


def in_columns(head: Attention) -> Attention:
    head = plain(head, np.float64)
    return head if head.v.ndim == 2 else with_values(head.score_tensors(), head.v[:, None])


def comparable(a: Parts, b: Parts) -> bool:
    """One output is one output, as (d,) or as (d, 1)."""
    return a.dim == b.dim and a.bias.shape == b.bias.shape


def length(x: np.ndarray) -> float:
    """The Euclidean or Frobenius norm; entries are scaled first, so that no square overflows or vanishes."""
    largest = float(np.abs(x).max(initial=0.0))
    return 0.0 if largest == 0 else largest * float(np.linalg.norm(x / largest))
