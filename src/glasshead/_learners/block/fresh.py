"""How far off every head of a block is, from fresh tokens read head by head: an estimate, and a bound.

Where W is off by E, scores of tokens D at last tokens that lie m apart are off by `D E m`. Both are drawn at random, so
whatever E is, it shows in some of them: of a direction's square, n rows of a random rotation in d dimensions hold the
share `Beta(n / 2, (d - n) / 2)`, and of all E of one norm those of rank one, a single direction on either side, are the
most likely to be missed. What such a share exceeds but for a small probability makes a bound of what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from ..._learned import FRESH_CAUTION, UNLUCKY
from ..._linalg import norms
from ..._oracles import Oracle
from ..._types import Float
from .columns import HeadColumns, last_tokens, read_scores, scored_blocks
from .geometry import Reference
from .values import Heads

FRESH_QUERIES, FRESH_KEYS = 8, 8  # last tokens, and tokens at least, read in the end


@dataclass(frozen=True)
class FreshError:
    """The worst head's error of scores, over what they change by, and a bound on that of every head's W, if any."""

    relative: float
    bound: float | None


def certain_share(rows: ArrayLike, dim: int, missed: float) -> Float[np.ndarray, "..."]:
    """What so many rows of a random rotation hold of a direction's square at least, but for that probability."""
    rows = np.asarray(rows)
    some = np.clip(rows, 1, dim - 1)
    share = beta.ppf(missed, some / 2, (dim - some) / 2)
    return np.where(rows < dim, np.where(rows > 0, share, 0.0), 1.0)


def norm_bounds_on_sphere(
    off: Float[np.ndarray, "j H n"], worth: Float[np.ndarray, "j H n"], apart: float, radius: float, dim: int
) -> np.ndarray:
    """A bound on the error of every head's W from tokens on a sphere, where W and a key bias are off together: for the
    first j of a random rotation of last tokens, of that radius, and n tokens in random directions from each, `apart`
    away. Less their mean, which hides nothing but what all tokens share, n rows are n - 1, and so are last tokens.
    Tokens count that are `worth` it, which is the inverse of the error they are read with: as many of the best as may
    make the smallest bound."""
    j, H, n = off.shape
    missed = UNLUCKY / (2 * H)
    best = np.argsort(-worth, axis=2)
    off, worth = np.take_along_axis(off, best, axis=2), np.take_along_axis(worth, best, axis=2)
    shares = certain_share(np.arange(n), dim - 1, missed / j)
    with np.errstate(divide="ignore"):
        noise = np.cumsum(worth**-2.0, axis=2)
    counted = 1 + np.argmax(shares / noise, axis=2)[..., None]
    seen = np.arange(n) < counted
    mean = np.sum(off, axis=2, where=seen, keepdims=True) / counted
    square = np.sum((off - mean) ** 2, axis=2, where=seen)
    share = shares[counted[..., 0] - 1]
    whole = np.sum(np.divide(square, share, out=np.full_like(square, np.inf), where=share > 0), axis=0)
    return np.sqrt(whole / certain_share(j - 1, dim, missed)) / (apart * radius)


def norm_bounds(off: Float[np.ndarray, "j H t"], D: Float[np.ndarray, "t d"], moves: np.ndarray) -> np.ndarray:
    """For every head, what the norm of E exceeds with the probability `UNLUCKY` at most, for all heads together.

    `off` is `D E m`, for tokens D of one length, rows of a random rotation, and for the first j of the `moves (d, d)`
    of the last token, a random rotation of some that are not all as long.
    """
    j, H, t = off.shape
    dim, missed = D.shape[1], UNLUCKY / (2 * H)
    seen = certain_share(t, dim, missed) * certain_share(j, dim, missed)
    length, shortest = float(np.median(norms(D))), float(np.linalg.svd(moves, compute_uv=False)[-1])
    return norms(off.transpose(1, 0, 2).reshape(H, -1)) / (np.sqrt(seen) * length * shortest)


def read_fresh_error(
    oracle: Oracle, at: Reference, heads: Heads, columns: HeadColumns, each: int, rng: np.random.Generator
) -> FreshError:
    """What fresh tokens at fresh last tokens say."""
    all_moves = columns.distance * last_tokens(at, rng)
    moves = np.concatenate([np.zeros_like(all_moves[:1]), all_moves[:FRESH_QUERIES]])
    blocks = scored_blocks(oracle, at, heads, each, max(each, FRESH_KEYS), rng)
    parts = [read_scores(oracle, at, heads.B, at.token + moves, D, heads.k)[0] for D in blocks]
    scores, D = np.concatenate(parts, axis=2), blocks.reshape(-1, oracle.dim)
    each_head = list(zip(columns.W, columns.key_bias, strict=True))
    off = scores - np.stack([((at.token + moves) @ W.T + c) @ D.T for W, c in each_head], axis=1)
    if not np.isfinite(off).all():
        return FreshError(np.inf, np.inf)
    changed = np.stack([(moves @ W.T) @ D.T for W in columns.W], axis=1)
    of_scores, size = (norms(x[1:].transpose(1, 0, 2).reshape(len(heads.B), -1)) for x in (off, changed))
    worst = float(np.max(of_scores / np.maximum(size, np.finfo(float).tiny)))
    bounds = norm_bounds(off[1:] - off[:1], D, all_moves)
    return FreshError(FRESH_CAUTION * max(worst, columns.misfit), float(bounds.max()))
