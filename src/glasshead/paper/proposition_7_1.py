"""Proposition 7.1: different multi-head parameters that compute the same function."""

from __future__ import annotations

import numpy as np

from .._models import Attention, MultiHead
from .._types import ArrayLike, no_type_check
from .._validate import as_real, require_shape

SUM_ROUNDING = 1e-12  # of the sum of the weights, which the paper has equal to 1


@no_type_check
def proposition_7_1(model: Attention, weights: ArrayLike) -> MultiHead:
    """The paper's construction: every head has the W of `model`, head h has `v = weights[h]` times the v of `model`.

    >>> head = gh.Attention.random(4, seed=1)
    >>> two, three = gh.paper.proposition_7_1(head, [0.5, 0.5]), gh.paper.proposition_7_1(head, [0.2, 0.3, 0.5])
    >>> gh.equivalent(two, three)
    True

    `weights` are non-negative numbers that add up to 1, one per head. All choices give the function of `model`, so no
    query can tell which one it is: parameters are unique only after merging (`gh.canonical`).
    """
    if not isinstance(model, Attention):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"expected a gh.Attention, got {type(model).__name__}")
    if not np.any(model.v):
        raise ValueError("expected a head with v != 0, as in the proposition, got v = 0")
    weights = as_real(weights, "weights")
    require_shape(weights.ndim == 1 and weights.size > 0, "weights of shape (heads,)", weights.shape)
    if weights.min() < 0 or abs(weights.sum() - 1) > SUM_ROUNDING * len(weights):
        raise ValueError(f"expected non-negative weights that add up to 1, got {weights.tolist()}")
    return MultiHead([model.with_values(weight * model.v) for weight in weights], bias=model.bias)
