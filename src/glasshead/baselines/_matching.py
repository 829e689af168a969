"""Which pair of one probe belongs to the same head as which pair of another."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment


def by_sums(one, other, together) -> np.ndarray:
    """For each pair of `one` its partner in `other`, so that the half sums lie in `together`; all are (H, 2)."""
    sums = (one[:, None] + other) / np.sqrt(2)
    cost = np.sum((sums[:, :, None] - together) ** 2, axis=-1).min(axis=-1)
    return linear_sum_assignment(cost)[1]


def by_vectors(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each row of `one` the row of `other` that is the same vector."""
    return linear_sum_assignment(np.sum((one[:, None] - other) ** 2, axis=-1))[1]
