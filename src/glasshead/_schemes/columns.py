"""Columns of W, measured a few at a time; some are only begun: scores with the first few keys are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._meters import Errors, Frame, Meter, Scores, one_after_the_other, side_by_side


class Columns:
    """`W b` for the first query directions of a meter, as scores against all of its keys."""

    def __init__(self, meter: Meter):
        d = meter.dim
        self.meter = meter
        self.scores, self.drift = np.empty((0, d)), np.empty(0)
        self.errors: list[Errors] = []
        self.roundings: list[tuple[Callable[[float], float], int]] = []  # with how many columns each: scales change
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
        each = [np.full(count, rounding(self.W_norm)) for rounding, count in self.roundings]
        rounding = np.sqrt(self.meter.dim) * np.linalg.norm(np.concatenate([*each, np.empty(0)]))
        keys, gain = self.meter.keys, 1.0 if queries is None else queries.gain
        errors = one_after_the_other(self.errors).through(keys, queries) if self.errors else 0.0
        return float(gain * keys.gain * rounding + errors)

    def measure(self, count: int, begun: Scores | None = None) -> None:
        """The next `count` columns, after those begun before, which are completed."""
        self._add(self.begin(count, len(self.meter.keys), begun))

    def begin(self, count: int, keys: int, begun: Scores | None = None) -> Scores:
        """Scores of the first few keys with the next `count` columns, after those begun before, which are completed.

        All of it in one go: a meter that asks in rounds takes no more of them than for either.
        """
        meter, start = self.meter, len(self)
        K, B = meter.keys.vectors, meter.queries.vectors
        if begun is None:
            return meter.columns(B[start : start + count], K[:keys])
        ready, seen = start + len(begun), begun.t.shape[1]
        measured = meter.blocks([(B[start:ready], K[seen:]), (B[ready : ready + count], K[:keys])])
        self._add(begun, next(measured))
        return next(measured)

    def _add(self, *parts: Scores) -> None:
        """Columns of which all scores are known, part by part."""
        if len(parts[0]) == 0:
            return
        scores = np.concatenate([part.t for part in parts], axis=1)
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
        self.errors.append(side_by_side([part.errors for part in parts]))
        worst = max((part.rounding for part in parts), key=lambda rounding: rounding(self.W_norm))
        self.roundings.append((worst, len(scores)))
        self.drift = np.append(self.drift, np.full(len(scores), max(part.drift for part in parts)))

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the columns and their singular values, down to their error."""
        U, s, _ = np.linalg.svd(self.Y, full_matrices=False)
        keep = s > self.error
        return U[:, keep], s[keep]
