"""A head with the same scores and other values."""

from __future__ import annotations

import numpy as np

from .attention import Attention


def with_values(scores: dict[str, np.ndarray], v: np.ndarray) -> Attention:
    """The head with these `score_tensors`, this v and no bias."""
    return Attention.from_tensors(scores | {"v": v, "bias": np.zeros(v.shape[1:], v.dtype)})


def plain(head: Attention, dtype) -> Attention:
    """The head in this dtype, without its bias."""
    if head.dtype == dtype and not np.any(head.bias):
        return head
    scores = {name: a.astype(dtype) for name, a in head.score_tensors().items()}
    return with_values(scores, head.v.astype(dtype))
