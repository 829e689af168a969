"""How far off every head of a decoder is, from fresh tokens on the sphere read head by head: an estimate, and a bound.

Where W is off by E, and a key bias with it, log-odds of a token n against the last one q are off by `(n - q) E q`.
Tokens lie around q at one angle, so that most of E shows in how these differ from token to token, as off the sphere
(`block/fresh.py`). What all tokens share shows in their mean: for a multiple of the identity that is all there is.
"""

from __future__ import annotations

import numpy as np

from ...._learned import FRESH_CAUTION, UNLUCKY
from ...._linalg import random_rotation
from ...._models import Block
from ...._oracles import LongToken, Rounded, extrapolation
from ...._types import Float
from ..fresh import FreshError, certain_share
from .heads import Readings
from .scores import read_log_odds

FRESH_DRAWS = 8  # of a last token, read in the end
FRESH_ANGLE = np.pi / 4  # between it and the tokens that are read there
SHARED_TIMES = 2.0  # times what the mean says of a multiple of the identity


def norm_bounds_on_sphere(
    off: Float[np.ndarray, "j H n"], worth: Float[np.ndarray, "j H n"], radius: float, dim: int, promised: float = 0.0
) -> np.ndarray:
    """For every head, what the norm of E exceeds with the probability `UNLUCKY` at most, for all heads together, for
    the first j of a random rotation of last tokens, of that radius, and n tokens in random directions from each,
    `FRESH_ANGLE` away. Less their mean n rows are n - 1, and so are last tokens. Tokens count that are `worth` it,
    which is the inverse of the error they are read with: as many of the best as may make the smallest bound. An
    adversary may be off by all that is `promised` of an answer, which shows nowhere."""
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
    differing = np.sqrt(whole / certain_share(j - 1, dim, missed)) / (np.sin(FRESH_ANGLE) * radius**2)
    shared = (np.abs(mean.mean(axis=0)) + more.mean(axis=0))[:, 0] / ((1 - np.cos(FRESH_ANGLE)) * radius**2)
    return np.hypot(differing, SHARED_TIMES * np.sqrt(dim) * shared)


def read_error_of_scores(view: LongToken, heads: Readings, model: Block, rng: np.random.Generator) -> FreshError:
    """What fresh tokens at fresh last ones say, several at once. There is a bound where places do not matter, and
    where a promise does not leave all of a W open."""
    each, sphere = max(2, heads.room // 2), view.sphere
    off, size, all_off, all_worth = [], [], [], []
    for q in sphere.radius * random_rotation(sphere.size, rng)[:FRESH_DRAWS]:
        keys = sphere.around(q, 2 * each, FRESH_ANGLE, rng).reshape(2, each, -1)
        s, worth = read_log_odds(view, heads, keys, q)
        tokens = np.concatenate([keys, np.broadcast_to(q, (2, 1, len(q)))], axis=1) @ sphere.basis
        scores = model.scores(tokens)
        expected = scores[..., :-1] - scores[..., -1:]
        weight = worth / np.linalg.norm(worth)
        off.append(by_head(weight * (s - expected)))
        size.append(by_head(weight * expected))
        all_off.append(by_head(s - expected))
        all_worth.append(by_head(worth))
    worst = float(np.max(np.linalg.norm(off, axis=(0, 2)) / np.linalg.norm(size, axis=(0, 2))))
    if not np.isfinite(worst):
        return FreshError(np.inf, np.inf)
    promised = promised_of_limits(view)
    if model.rotary is not None or model.slopes is not None or promised is None:
        return FreshError(FRESH_CAUTION * worst, None)
    bounds = norm_bounds_on_sphere(np.array(all_off), np.array(all_worth), sphere.radius, sphere.size, promised)
    bound, least = float(bounds.max()), min(head.W_norm for head in model.heads)
    return FreshError(FRESH_CAUTION * worst, None if promised and bound > least else bound)


def promised_of_limits(view: LongToken) -> float | None:
    """How far off a limit of answers may be, in norm, by what is promised of each answer, both of keys and of the last
    token alone; a long token is answered nearly by itself. None behind an unembedding, which may make more of it."""
    if not isinstance(view.oracle, Rounded):
        return 0.0
    if view.back is not None or view.normed:
        return None
    each = [view.oracle.promised(length * view.sphere.radius) for length in view.lengths]
    asked = 4 if view.matched else 2  # of tokens that are answered alike, twice
    return asked * float(np.sqrt(view.oracle.dim) * np.abs(extrapolation(view.lengths)) @ each)


def by_head(x: Float[np.ndarray, "b H n"]) -> Float[np.ndarray, "H m"]:
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)
