"""Columns of W that were begun: scores with the first few keys are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._meters import Errors, Frame, Meter, Scores, measured_together, one_after_the_other, side_by_side


@dataclass(frozen=True)
class Begun:
    """Scores of some columns with the first `keys` keys, and the meter that measured them."""

    scores: Scores
    meter: Meter

    def __len__(self) -> int:
        return len(self.scores.t)

    @property
    def keys(self) -> int:
        return self.scores.t.shape[1]

    def __getitem__(self, columns: slice) -> Begun:
        t, lo, hi, joint = self.scores.t, self.scores.lo, self.scores.hi, self.scores.joint
        if joint is not None:
            joint = replace(joint, own=joint.own[columns], shared=joint.shared[:, columns])
        return Begun(Scores(t[columns], lo[columns], hi[columns], joint), self.meter)


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

    def measure(self, count: int, begun: Begun | None = None) -> None:
        """The next `count` columns, after those begun before, which are completed."""
        self._add(self.begin(count, len(self.meter.keys), begun))

    def begin(self, count: int, keys: int, begun: Begun | None = None) -> Begun:
        """Scores of the first few keys with the next `count` columns, after those begun before, which are completed.

        All of it in one go: a meter that asks in rounds takes no more of them than for either.
        """
        meter, start = self.meter, len(self)
        K, B = meter.keys.vectors, meter.queries.vectors
        if begun is None:
            return Begun(meter.columns(B[start : start + count], K[:keys]), meter)
        ready = start + len(begun)
        blocks = [(B[start:ready], K[begun.keys :]), (B[ready : ready + count], K[:keys])]
        measured = measured_together(meter, blocks)
        self._add(begun, Begun(next(measured), meter))
        return Begun(next(measured), meter)

    def _add(self, *parts: Begun) -> None:
        """Columns of which all scores are known, part by part."""
        if len(parts[0]) == 0:
            return
        scores = np.concatenate([part.scores.t for part in parts], axis=1)
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
        self.errors.append(side_by_side([part.scores.errors for part in parts]))
        worst = max((part.meter for part in parts), key=lambda meter: meter.rounding(self.W_norm))
        self.measured_by += [worst] * len(scores)
        self.drift = np.append(self.drift, np.full(len(scores), max(part.meter.drift for part in parts)))

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """An orthonormal basis of the columns and their singular values, down to their error."""
        U, s, _ = np.linalg.svd(self.Y, full_matrices=False)
        keep = s > self.error
        return U[:, keep], s[keep]
