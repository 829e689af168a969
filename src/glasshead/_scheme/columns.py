"""Whole columns of W, measured one after the other."""

from __future__ import annotations

import numpy as np

from .._meter import Meter, Scores
from .._meter.frame import Frame
from .._meter.shared import Errors, one_after_the_other, side_by_side


class Columns:
    """`W b` for the first query directions of a meter, as scores against all of its keys."""

    def __init__(self, meter: Meter):
        d = meter.oracle.dim
        self.meter = meter
        self.scores, self.drift = np.empty((0, d)), np.empty(0)
        self.errors: list[Errors] = []
        self.measured_by: list[Meter] = []  # one per column: the scale changes on the way
        self.Y = np.empty((d, 0))  # the columns themselves,
        self.basis = np.empty((d, 0))  # an orthonormal basis of them, grown one by one,
        self.keys_on_basis = np.empty((d, 0))  # and what each key sees of it

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
        return self.error_through(None) + float(np.linalg.norm(self.drift))

    @property
    def whole_error(self) -> float:
        """A bound on the error of W, once all columns are there: a drift that they share lands along one direction."""
        queries = self.meter.queries
        drift = float(np.linalg.norm(queries.inverse @ self.drift)) if np.isfinite(self.drift).all() else np.inf
        return self.error_through(queries) + drift

    @property
    def noise(self) -> np.ndarray:
        return np.concatenate([errors.own for errors in self.errors])

    def error_through(self, queries: Frame | None) -> float:
        """The same without the drift; of W itself once all columns are there and `queries` are given."""
        each = {id(meter): meter.rounding(self.W_norm) for meter in self.measured_by}
        rounding = np.sqrt(self.meter.oracle.dim) * np.linalg.norm([each[id(meter)] for meter in self.measured_by])
        keys, gain = self.meter.keys, 1.0 if queries is None else queries.gain
        errors = one_after_the_other(self.errors).through(keys, queries) if self.errors else 0.0
        return float(gain * keys.gain * rounding + errors)

    def measure(self, count: int, first: Scores | None = None) -> None:
        """The next `count` columns; `first` holds what is already known of the first of them, key by key."""
        start, keys = len(self), self.meter.keys.vectors
        B = self.meter.queries.vectors[start : start + count]
        if first is not None:
            rest = self.meter.columns(B[:1], keys[first.t.shape[1] :])
            self._add(np.c_[first.t, rest.t], side_by_side([first.errors, rest.errors]))
            B = B[1:]
        if len(B):
            block = self.meter.columns(B, keys)
            self._add(block.t, block.errors)

    def _add(self, scores: np.ndarray, errors: Errors) -> None:
        new = self.meter.keys.inverse @ scores.T
        self.Y = np.c_[self.Y, new]
        for column in new.T:
            for _ in range(2):  # once is not enough to be orthogonal to the last digit
                column = column - self.basis @ (self.basis.T @ column)
                size = np.linalg.norm(column)
                column = column / size if size > 0 else column
            self.basis = np.c_[self.basis, column]
        fresh = self.basis[:, self.keys_on_basis.shape[1] :]
        self.keys_on_basis = np.c_[self.keys_on_basis, self.meter.keys.vectors @ fresh]
        self.scores = np.concatenate([self.scores, scores])
        self.errors.append(errors)
        self.measured_by += [self.meter] * len(scores)
        self.drift = np.append(self.drift, np.full(len(scores), self.meter.drift))

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the columns and their singular values, down to their error."""
        U, s, _ = np.linalg.svd(self.Y, full_matrices=False)
        keep = s > self.error
        return U[:, keep], s[keep]
