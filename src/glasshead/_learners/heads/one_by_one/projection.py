"""One head's matrix, projected on the keys that only it answers to.

With E an orthonormal basis of these m keys, `E^T [kappa W, key_bias]` is an m x (d + 1) matrix, and any scheme reads a
square piece of it. The other query directions take as many keys as that piece has rank, if their columns stay in its
column space, which one random mixture of them tells. Where the columns that a scheme took as they came are nearly
dependent, some direction of the column space is known badly and all other columns inherit that: then the query that
shows this direction best is measured as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._linalg import Frame
from ...._meters import IsolatedHead
from ...._schemes import Measured, full, low_rank
from ...._types import Float

FULL_UP_TO = 2  # up to this many keys no rank could save a query


@dataclass(frozen=True)
class ProjectedHead:
    """`E^T [kappa W, key_bias] = U R` for the keys E that only this head answers to; R in d + 1 coordinates."""

    meter: IsolatedHead
    U: Float[np.ndarray, "m r"]
    R: Float[np.ndarray, "r e"]
    confidence: float

    def key_at(self, q: Float[np.ndarray, " d"]) -> Float[np.ndarray, " m"]:
        """`E^T (W q + key_bias)`: the head's key for a query token, as far as E sees it."""
        return self.U @ (self.R @ np.append(q / self.meter.kappa, 1.0))


def read_projected(
    meter: IsolatedHead, rng: np.random.Generator, rank: int | None, accuracy: float | None
) -> ProjectedHead:
    """A square piece by a scheme, then the other query directions with as few keys as its rank allows."""
    found = read_square(meter, rng, rank, accuracy)
    U, inner = in_factors(found)
    if found.inside is not None:
        U, inner = read_more_columns(meter, U, inner, found.inside)
    meter = meter.tuned(found.W @ meter.queries.vectors.T) if found.rank else meter
    x = meter.asked.rest
    if find_columns_outside(meter, U, found, x, rng):
        seen = meter.keys.inverse @ meter.read_against(x, meter.keys.vectors).t.T
        U, inner, seen = extended(U, inner, seen)
    else:
        seen = read_in_span(meter, U, x, rng)
    return ProjectedHead(meter, U, inner @ meter.asked.lift.T + less_key_bias(seen, inner[:, 0], x), found.confidence)


def less_key_bias(seen: np.ndarray, bias: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The other directions were asked with some of the key bias, which is known: what they say of W alone."""
    beta = x[:, -1]
    alone = np.sqrt(1 - beta**2)
    tokens = x / alone[:, None]
    tokens[:, -1] = 0
    return ((seen - np.outer(bias, beta)) / alone) @ tokens


def find_columns_outside(
    meter: IsolatedHead, U: np.ndarray, found: Measured, x: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether the other columns leave the span of `U`: a random mixture of them does if any does."""
    m = len(U)
    if U.shape[1] >= m:
        return False
    a, mixed = rng.standard_normal(m), rng.standard_normal(len(x)) @ x
    a -= U @ (U.T @ a)
    keys, mix = meter.pairs((a / np.linalg.norm(a))[None], rng)
    scores = meter.read_against((mixed / np.linalg.norm(mixed))[None], keys[0])
    size = float(np.linalg.norm(found.W))
    noise = np.abs(mix[0]) @ (scores.halfwidth[0] + meter.rounding(size)) + found.bound
    return bool(abs(mix[0] @ scores.t[0]) > noise)


def extended(U: np.ndarray, inner: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The basis with what `seen` has outside of it, and everything in its coordinates."""
    outside = seen - U @ (U.T @ seen)
    more, s, _ = np.linalg.svd(outside, full_matrices=False)
    more = more[:, s > np.sqrt(np.finfo(float).eps) * s[0]]
    more = np.linalg.qr(more - U @ (U.T @ more))[0]  # once is not enough to be orthogonal where little lies outside
    wide = np.c_[U, more][:, : len(U)]
    return wide, np.pad(inner, ((0, wide.shape[1] - len(inner)), (0, 0))), wide.T @ seen


def read_square(meter: IsolatedHead, rng: np.random.Generator, rank: int | None, accuracy: float | None) -> Measured:
    m = meter.dim
    # The key bias may lie outside the columns of W: one more.
    columns = None if rank is None else rank + 1
    if m <= FULL_UP_TO or (columns is not None and columns >= m):
        return full(meter)
    return low_rank(meter, rng, columns, None if accuracy is None else accuracy * meter.kappa)


def in_factors(found: Measured) -> tuple[np.ndarray, np.ndarray]:
    if found.right is not None:
        return found.left, found.right
    U, s, Vt = np.linalg.svd(found.left)
    return U[:, : found.rank], s[: found.rank, None] * Vt[: found.rank]


def read_in_span(meter: IsolatedHead, U: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What lies in the span of `U` for query directions `x`."""
    if U.shape[1] == 0:
        return np.zeros((0, len(x)))
    frame = meter.frame(U, rng)
    return U.T @ frame.inverse @ meter.read_against(x, frame.vectors).t.T


AMPLIFIED = 30.0  # times the error of a measured column: what the others may inherit
MOST_EXTRA = 3  # columns read beside those, at most
# The condition number past which no query is sought: the last singular values are hardly more than error then.
ILL_CONDITIONED = 1e6


def amplification(inner: Float[np.ndarray, "r m"], measured: Float[np.ndarray, "r k"]) -> float:
    """By how much the errors of measured columns grow in the others, combinations of them, in the root mean square."""
    mixed = np.linalg.lstsq(measured, inner, rcond=None)[0]
    return float(np.linalg.norm(mixed) / np.sqrt(inner.shape[1]))


def read_more_columns(
    meter: IsolatedHead, U: Float[np.ndarray, "m r"], inner: Float[np.ndarray, "r m"], frame: Frame
) -> tuple[np.ndarray, np.ndarray]:
    """The factors of `U @ inner` with a better column space; `frame` has the keys that saw all but r columns."""
    r = U.shape[1]
    if np.linalg.cond(inner) > ILL_CONDITIONED:
        return U, inner
    first = inner @ meter.queries.vectors[:r].T
    columns = U @ first
    for _ in range(MOST_EXTRA):
        if amplification(inner, U.T @ columns) <= AMPLIFIED:
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
