"""What a scheme hands back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._errors import BudgetExceeded
from .._linalg import numerical_rank
from .._meters import Frame, Meter, one_after_the_other
from .._models import Attention


@dataclass(frozen=True)
class Measured:
    """`W = left @ right` (or `left` alone), its rank, and `||W_hat - W||_F <= bound` with the given confidence.

    `inside` has the keys that the later columns were measured with, where these lie in the span of the first ones.
    """

    left: np.ndarray
    right: np.ndarray | None
    rank: int
    bound: float
    confidence: float = 1.0
    inside: Frame | None = None

    @property
    def W(self) -> np.ndarray:
        return self.left if self.right is None else self.left @ self.right

    def head(self, v, key_bias, bias) -> Attention:
        """As factors where these are the smaller description, else as one matrix."""
        if self.right is None or 2 * len(self.right) >= len(self.left):
            return Attention(self.W, v, key_bias=key_bias, bias=bias)
        tensors = {"Q": self.right, "K": self.left.T, "v": v, "bias": np.asarray(bias)}
        return Attention.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias})


def from_matrix(W: np.ndarray, bound: float, rank: int) -> Measured:
    """A W none of whose entries can be told from zero is zero."""
    size = float(np.linalg.norm(W))
    if size <= bound:
        return Measured(np.zeros_like(W), None, 0, bound + size)
    return Measured(W, None, rank, bound)


TUNING = 4  # columns after which the scale is settled, where a column has enough scores to tell
ENOUGH = 8
BATCH = 2**15  # scores asked for between two looks at what is known,
BATCH_IN_ROUNDS = 2**18  # and where the number of rounds counts more than what a budget that ends it makes known


def full(meter: Meter) -> Measured:
    """All of W, bounded by the meter's intervals."""
    keys, queries = meter.keys, meter.queries
    scores = np.empty((len(queries), len(keys)))
    drift = np.empty(len(queries))
    errors = []
    roundings = []
    for part in blocks(len(queries), max(1, (BATCH_IN_ROUNDS if meter.in_rounds else BATCH) // len(keys))):
        try:
            block = meter.columns(queries.vectors[part], keys.vectors)
        except BudgetExceeded as error:
            error.known |= {"b": queries.vectors[: part.start], "W_b": scores[: part.start] @ keys.inverse.T}
            error.needed = (len(queries) - part.start) * len(keys)
            raise
        scores[part], drift[part] = block.t, block.drift
        roundings.append(block.rounding)
        errors.append(block.errors)
        if part.start == 0 and len(keys) >= ENOUGH:
            meter = meter.tuned(block.t, block.halfwidth)
    W = keys.inverse @ scores.T @ queries.inverse.T
    # W = K^-1 T B^-T: errors of the scores grow by the two gains; one that all columns share lands along B^-1 1.
    rounding = max(rounding(float(np.linalg.norm(W))) for rounding in roundings) * np.sqrt(scores.size)
    shared = float(np.linalg.norm(queries.inverse @ drift)) if np.isfinite(drift).all() else np.inf
    bound = one_after_the_other(errors).through(keys, queries) + keys.gain * queries.gain * rounding + shared
    return from_matrix(W, float(bound), numerical_rank(np.linalg.svd(W, compute_uv=False), len(W), bound))


def blocks(columns: int, step: int) -> Iterator[slice]:
    yield slice(0, min(TUNING, columns))
    for start in range(TUNING, columns, step):
        yield slice(start, min(start + step, columns))
