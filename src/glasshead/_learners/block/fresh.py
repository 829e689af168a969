"""How far off every head of a block is, from fresh tokens read head by head: an estimate, and a bound.

Where W is off by E, scores of tokens D at last tokens that lie m apart are off by `D E m`. Both are drawn at random, so
whatever E is, it shows in some of them: of a direction's square, n rows of a random rotation in d dimensions hold the
share `Beta(n / 2, (d - n) / 2)`, and of all E of one norm those of rank one, a single direction on either side, are the
most likely to be missed. What such a share exceeds but for a small probability makes a bound of what was seen.

On a sphere log-odds of a token n against the last one q are read, which are off by `(n - q) E q`, with what a key bias
is off by. Tokens lie around q at one angle there, so that most of E shows in how these differ from token to token, as
off the sphere. What all tokens share shows in their mean: for a multiple of the identity that is all there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from ..._errors import NotConverged
from ..._learned import FRESH_CAUTION, UNLUCKY
from ..._linalg import norms
from ..._oracles import Oracle
from ..._types import Float
from .columns import HeadColumns, last_tokens, read_scores, scored_blocks
from .geometry import Reference
from .values import Heads

FRESH_QUERIES, FRESH_KEYS = 8, 8  # last tokens, and tokens at least, read in the end
SHARED_TIMES = 2.0  # times what the mean says of a multiple of the identity


@dataclass(frozen=True)
class FreshError:
    """The worst head's error of scores, over what they change by, and a bound on that of every head's W, if any."""

    relative: float
    bound: float | None


def refuse_scores(error: float, most: float, explained: float) -> None:
    """Refuses errors of scores that are too large, or larger than the digits of answers explain: then heads are of
    another kind, however well their predictions fit."""
    if not error <= most:
        seen = f"errors of {error:.0%} of the scores" if np.isfinite(error) else "scores that are no numbers"
        raise NotConverged(f"fresh tokens, read head by head, show {seen}")
    if error > explained:
        raise NotConverged(
            f"fresh tokens, read head by head, show errors of {error:.0e} of the scores, where answers have digits for "
            f"{explained:.0e}: they are no products of two tokens; are they capped, or is there more to them?"
        )


def certain_share(rows: ArrayLike, dim: int, missed: float) -> Float[np.ndarray, "..."]:
    """What so many rows of a random rotation hold of a direction's square at least, but for that probability."""
    rows = np.asarray(rows)
    some = np.clip(rows, 1, dim - 1)
    share = beta.ppf(missed, some / 2, (dim - some) / 2)
    return np.where(rows < dim, np.where(rows > 0, share, 0.0), 1.0)


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


def norm_bounds_on_sphere(
    off: Float[np.ndarray, "j H n"],
    worth: Float[np.ndarray, "j H n"],
    radius: float,
    angle: float,
    dim: int,
    promised: float = 0.0,
) -> np.ndarray:
    """For every head, what the norm of E exceeds with the probability `UNLUCKY` at most, for all heads together.

    `off` is what log-odds of n tokens are off by, in random directions from each last token and that `angle` away, for
    the first j of a random rotation of last tokens, of that radius. Less their mean n rows are n - 1, and so are last
    tokens. Tokens count that are `worth` it, which is the inverse of the error they are read with: as many of the best
    as may make the smallest bound. An adversary may be off by all that is `promised` of an answer, which shows nowhere.
    """
    j, H, n = off.shape
    missed = UNLUCKY / (2 * H)
    best = np.argsort(-worth, axis=2)
    off, worth = np.take_along_axis(off, best, axis=2), np.take_along_axis(worth, best, axis=2)
    shares = certain_share(np.arange(n), dim - 1, missed / j)
    with np.errstate(divide="ignore"):
        noise = np.cumsum(worth**-2.0, axis=2)
        hidden = promised / worth if promised else np.zeros_like(worth)
    counted = 1 + np.argmax(shares / noise, axis=2)[..., None]
    seen = np.arange(n) < counted
    mean, more = (np.sum(x, axis=2, where=seen, keepdims=True) / counted for x in (off, hidden))
    square = np.sum((np.abs(off - mean) + hidden + more) ** 2, axis=2, where=seen)
    share = shares[counted[..., 0] - 1]
    whole = np.sum(np.divide(square, share, out=np.full_like(square, np.inf), where=share > 0), axis=0)
    differing = np.sqrt(whole / certain_share(j - 1, dim, missed)) / (np.sin(angle) * radius**2)
    shared = (np.abs(mean.mean(axis=0)) + more.mean(axis=0))[:, 0] / ((1 - np.cos(angle)) * radius**2)
    return np.hypot(differing, SHARED_TIMES * np.sqrt(dim) * shared)


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
