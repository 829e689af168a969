"""Is there anything of W outside a span? One number per look, and what a few looks prove."""

from __future__ import annotations

import numpy as np

from .._meter import Meter
from .begun import Begun
from .columns import Columns

LOOKS = 8
CONFIDENCE = 0.999
# A part R of W outside the span shows in a random look as |R| g h / sqrt(d (d - r)), with g, h standard Gaussian if R
# has rank one, and rarely less if it has more. The rms of 8 such products is below 1/7 with probability below 0.001.
HIDES = 7.0


def spread(dim: int, rank: int) -> float:
    """How much larger than a typical look outside a span of that rank the whole of what is there can be."""
    return float(HIDES * np.sqrt(dim * (dim - rank)))


def news(columns: Columns, begun: Begun) -> tuple[np.ndarray, float]:
    """How much of m new columns leaves the span of the k columns before them, given k + m scores of each.

    Some m combinations of k + m keys are orthogonal to that span. Returns the singular values of what they see, per
    unit length, and the noise: as many columns are new as there are singular values above it.
    """
    meter, k, n = begun.meter, len(columns), begun.keys
    keys, seen = meter.keys.vectors[:n], columns.keys_on_basis[:n]
    mix = np.c_[-solved(seen[:k].T, seen[k:].T).T, np.eye(n - k)]
    mix /= np.linalg.norm(mix @ keys, axis=1, keepdims=True)
    each = (begun.scores.halfwidth + meter.rounding(columns.W_norm)) @ np.abs(mix).T
    values = np.linalg.svd(begun.scores.t @ mix.T, compute_uv=False)
    # Errors of m columns do not line up: together they look like sqrt(m) of them, not like m.
    return values, meter.likely(float(np.linalg.norm(each)) / np.sqrt(n - k))


def solved(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Where keys do not tell the columns apart, as only those of another box, nothing is orthogonal to all of them."""
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(A, B, rcond=None)[0]


def look(columns: Columns, U: np.ndarray, rng: np.random.Generator, enough: float = 0.0) -> tuple[float, float, float]:
    """Random looks outside the columns of `U`: the rms of what they see, its noise, and a bound on all of it.

    One look first: where it sees more than noise, and more than `enough`, the others are not needed.
    """
    d = len(U)
    g, b = rng.standard_normal((2, LOOKS, d))
    a = g - (g @ U) @ U.T
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    keys, mix = columns.meter.pairs(a, rng)
    meter = columns.meter.suited(keys).sharper()
    seen, noise = one_by_one(meter, columns.W_norm, b[:1], keys[:1], mix[:1])
    if seen[0] > max(meter.likely(float(noise[0])), enough):
        return float(seen[0]), meter.likely(float(noise[0])), np.inf
    rest = one_by_one(meter, columns.W_norm, b[1:], keys[1:], mix[1:])
    rms, bound = (float(np.sqrt(np.mean(np.append(*both) ** 2))) for both in zip((seen, noise), rest, strict=True))
    return rms, meter.likely(bound), spread(d, U.shape[1]) * (rms + bound)


def one_by_one(meter: Meter, W_norm: float, b: np.ndarray, keys: np.ndarray, mix: np.ndarray):
    """`|a . W b|` for each a that `mix` combines from two keys, and its error."""
    scores = meter.columns(b, keys)
    seen = np.abs(np.einsum("nk,nk->n", mix, scores.t))
    return seen, np.einsum("nk,nk->n", np.abs(mix), scores.halfwidth + meter.rounding(W_norm) + meter.drift)
