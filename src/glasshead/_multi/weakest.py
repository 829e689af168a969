"""One more column where those measured say least.

A scheme takes the first columns as they come. Where they happen to be nearly dependent, some direction of the column
space is known badly, and all other columns inherit that: measure the query that shows this direction best.
"""

from __future__ import annotations

import numpy as np

from .._meter.frame import Frame
from .._types import Float
from .isolate import IsolatedHead

BADLY = 30.0  # times the error of a measured column: what the others may inherit
MOST = 3
FAINT = 1e6  # where singular values spread that far the last ones are hardly more than error, and no query shows them


def inherited(inner: Float[np.ndarray, "r m"], measured: Float[np.ndarray, "r k"]) -> float:
    """By how much the errors of measured columns grow in the others, combinations of them, in the root mean square."""
    mixed = np.linalg.lstsq(measured, inner, rcond=None)[0]
    return float(np.linalg.norm(mixed) / np.sqrt(inner.shape[1]))


def strengthened(
    meter: IsolatedHead, U: Float[np.ndarray, "m r"], inner: Float[np.ndarray, "r m"], frame: Frame
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of `U @ inner` with a better column space; `frame` has the keys that saw all but r columns."""
    r = U.shape[1]
    if np.linalg.cond(inner) > FAINT:
        return U, inner
    first = inner @ meter.queries.vectors[:r].T
    columns = U @ first
    for _ in range(MOST):
        if inherited(inner, U.T @ columns) <= BADLY:
            break
        weak = np.linalg.svd(U.T @ columns)[0][:, -1]
        b = np.linalg.lstsq(inner, weak, rcond=None)[0]
        b /= np.linalg.norm(b)
        # The first coordinate is the key bias: without any of it no token is long enough.
        b[0] += (-1 if b[0] < 0 else 1) * max(0.0, 1 / np.sqrt(len(b)) - abs(b[0]))
        scores = meter.tuned(meter.keys.vectors @ U @ (inner @ b)).columns(b[None], meter.keys.vectors)
        columns = np.c_[columns, meter.keys.inverse @ scores.t[0]]
    if columns.shape[1] == r:
        return U, inner
    better = np.linalg.svd(columns / np.linalg.norm(columns, axis=0))[0][:, :r]
    seen = frame.vectors @ U @ inner
    return better, np.linalg.solve(frame.vectors @ better, seen)
