"""Interpolation through a few points, for many curves at once."""

from __future__ import annotations

import numpy as np

from ..._types import Float


def inverse(c: Float[np.ndarray, "n k"], f: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Where `f(c) = 0`: the polynomial c(f) through the points, at 0 (Neville). NaN where two values are equal."""
    table = c.copy()
    k = c.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in range(1, k):
            left, right = f[:, : k - order], f[:, order:]
            table = (right * table[:, :-1] - left * table[:, 1:]) / (right - left)
    return table[:, 0]


def slope(c: Float[np.ndarray, "n k"], f: Float[np.ndarray, "n k"], at: Float[np.ndarray, " n"]) -> np.ndarray:
    """`f'(at)` of the polynomial f(c) through the points, from its divided differences."""
    k = c.shape[1]
    differences = f.copy()
    total, product, derivative = np.zeros(len(at)), np.ones(len(at)), np.zeros(len(at))
    with np.errstate(divide="ignore", invalid="ignore"):
        for order in range(1, k):
            # The product of (at - c_j) over the points so far, and its derivative.
            derivative = derivative * (at - c[:, order - 1]) + product
            product = product * (at - c[:, order - 1])
            differences = (differences[:, 1:] - differences[:, :-1]) / (c[:, order:] - c[:, : k - order])
            total = total + differences[:, 0] * derivative
    return total
