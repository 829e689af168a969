"""Columns of W: `W b` for the query directions b of a meter, from scores with all of its keys.

`full` reads them all; `low_rank` reads a few, and then asks less of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._errors import BudgetExceeded
from .._linalg import Frame, numerical_rank
from .._meters import Errors, Meter, Scores, one_after_the_other, side_by_side
from .._models import Attention

TUNED_AFTER = 4  # columns after which the scale is settled,
ENOUGH_KEYS = 8  # where a column has enough scores to tell
SCORES_AT_ONCE = 2**15  # scores asked for between two looks at what is known,
SCORES_IN_ROUNDS = 2**18  # and where the number of rounds counts more than what a budget that ends it makes known


@dataclass(frozen=True)
class Measured:
    """`W = left @ right` (or `left` alone), its rank, and `||W_hat - W||_F <= bound` with the given confidence.

    `inside` has the keys that the later columns were measured with, where these lie in the span of the first ones;
    `sure` says how a confidence below 1 was obtained.
    """

    left: np.ndarray
    right: np.ndarray | None
    rank: int
    bound: float
    confidence: float = 1.0
    inside: Frame | None = None
    sure: str = ""

    @property
    def W(self) -> np.ndarray:
        return self.left if self.right is None else self.left @ self.right

    def head(self, v, key_bias, bias) -> Attention:
        """The head as factors where these are the smaller description, else as one matrix."""
        if self.right is None or 2 * len(self.right) >= len(self.left):
            return Attention(self.W, v, key_bias=key_bias, bias=bias)
        tensors = {"Q": self.right, "K": self.left.T, "v": v, "bias": np.asarray(bias)}
        return Attention.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias})


def measured_matrix(W: np.ndarray, bound: float, rank: int) -> Measured:
    """A W none of whose entries can be told from zero is zero."""
    size = float(np.linalg.norm(W))
    if size <= bound:
        return Measured(np.zeros_like(W), None, 0, bound + size)
    return Measured(W, None, rank, bound)


class Columns:
    """The first columns that were read, and how far they may be off.

    Columns may be begun: then scores with the first few keys are known, and the others are asked for later.
    """

    def __init__(self, meter: Meter):
        d = meter.dim
        self.meter = meter
        self.scores, self.drift = np.empty((0, d)), np.empty(0)
        self.errors: list[Errors] = []
        self.roundings: list[tuple[Callable[[float], float], int]] = []  # with how many columns each: scales change
        self.Y = np.empty((d, 0))
        self._basis = np.empty((d, 0))
        self._keys_on_basis = np.empty((d, 0))

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def W_norm(self) -> float:
        """What the columns seen say about the size of W."""
        seen = max(1, len(self))
        return float(np.linalg.norm(self.Y)) * np.sqrt(len(self.meter.queries) / seen)

    @property
    def error(self) -> float:
        """A bound on the Frobenius error of the columns."""
        return self._error_through(None) + float(np.linalg.norm(self.drift))

    @property
    def whole_error(self) -> float:
        """A bound on the error of W, once all columns are there: a drift that they share lands along one direction."""
        queries = self.meter.queries
        drift = float(np.linalg.norm(queries.inverse @ self.drift)) if np.isfinite(self.drift).all() else np.inf
        return self._error_through(queries) + drift

    def _error_through(self, queries: Frame | None) -> float:
        """A bound on the error of the columns, or of W where they are all there and `queries` given, but for the drift.

        `Y = K^-1 T` and `W = Y B^-T`: errors of the scores T grow by the gains of the two frames.
        """
        each = [np.full(count, rounding(self.W_norm)) for rounding, count in self.roundings]
        rounding = np.sqrt(self.meter.dim) * np.linalg.norm(np.concatenate([*each, np.empty(0)]))
        keys, gain = self.meter.keys, 1.0 if queries is None else queries.gain
        errors = one_after_the_other(self.errors).through(keys, queries) if self.errors else 0.0
        return float(gain * keys.gain * rounding + errors)

    def tune(self) -> None:
        """Settle the scale of the meter by the scores that were read."""
        noise = np.concatenate([errors.own for errors in self.errors])
        self.meter = self.meter.tuned(self.scores, noise)

    def read(self, count: int, begun: Scores | None = None) -> None:
        """The next `count` columns, after those begun before, which are completed."""
        self._add(self.read_first(len(self.meter.keys), count, begun))

    def read_first(self, keys: int, count: int, begun: Scores | None = None) -> Scores:
        """Scores of the first `keys` with the next `count` columns, after those begun before, which are completed.

        All of it in one go: a meter that asks in rounds takes no more of them than for either.
        """
        meter, start = self.meter, len(self)
        K, B = meter.keys.vectors, meter.queries.vectors
        if begun is None:
            return meter.columns(B[start : start + count], K[:keys])
        ready, seen = start + len(begun), begun.t.shape[1]
        measured = meter.read_blocks([(B[start:ready], K[seen:]), (B[ready : ready + count], K[:keys])])
        self._add(begun, next(measured))
        return next(measured)

    def _add(self, *parts: Scores) -> None:
        """Columns of which all scores are known, part by part."""
        if len(parts[0]) == 0:
            return
        scores = np.concatenate([part.t for part in parts], axis=1)
        self.Y = np.c_[self.Y, self.meter.keys.inverse @ scores.T]
        self.scores = np.concatenate([self.scores, scores])
        self.errors.append(side_by_side([part.errors for part in parts]))
        worst = max((part.rounding for part in parts), key=lambda rounding: rounding(self.W_norm))
        self.roundings.append((worst, len(scores)))
        self.drift = np.append(self.drift, np.full(len(scores), max(part.drift for part in parts)))

    @property
    def keys_on_basis(self) -> np.ndarray:
        """What each key sees of an orthonormal basis of the columns, which is grown one by one."""
        known = self._basis.shape[1]
        for column in self.Y[:, known:].T:
            for _ in range(2):  # once is not enough to be orthogonal to the last digit
                column = column - self._basis @ (self._basis.T @ column)
                size = np.linalg.norm(column)
                column = column / size if size > 0 else column
            self._basis = np.c_[self._basis, column]
        self._keys_on_basis = np.c_[self._keys_on_basis, self.meter.keys.vectors @ self._basis[:, known:]]
        return self._keys_on_basis

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the columns and their singular values, down to their error."""
        U, s, _ = np.linalg.svd(self.Y, full_matrices=False)
        keep = s > self.error
        return U[:, keep], s[keep]

    def report(self, error: BudgetExceeded, needed: int) -> None:
        """Say what is known of W where a budget ends, and how many scores were still `needed` at least."""
        error.known |= {"b": self.meter.queries.vectors[: len(self)], "W_b": self.Y.T}
        error.needed = max(error.needed, needed)


def full(meter: Meter) -> Measured:
    """All of W, bounded by the meter's intervals."""
    columns, count = Columns(meter), len(meter.queries)
    step = max(1, (SCORES_IN_ROUNDS if meter.in_rounds else SCORES_AT_ONCE) // len(meter.keys))
    try:
        columns.read(min(TUNED_AFTER, count))
        if len(meter.keys) >= ENOUGH_KEYS:
            columns.tune()
        while len(columns) < count:
            columns.read(min(step, count - len(columns)))
    except BudgetExceeded as error:
        columns.report(error, (count - len(columns)) * len(meter.keys))
        raise
    W, bound = columns.Y @ meter.queries.inverse.T, columns.whole_error
    return measured_matrix(W, bound, numerical_rank(np.linalg.svd(W, compute_uv=False), len(W), bound))
