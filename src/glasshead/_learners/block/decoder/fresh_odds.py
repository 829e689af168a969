"""How far off every head of a decoder is, from log-odds of fresh tokens on the sphere at fresh last ones.

What such errors say about each W is in `block/fresh.py`. Here they are read, behind a norm: at one angle from each last
token, each with an error of its own, and no better than what is promised of answers.
"""

from __future__ import annotations

import numpy as np

from ...._learned import FRESH_CAUTION
from ...._linalg import random_rotation
from ...._models import Block
from ...._oracles import LongToken, Rounded, extrapolation
from ...._types import Float
from ..fresh import FreshError, norm_bounds_on_sphere
from .heads import Readings
from .scores import read_log_odds

FRESH_DRAWS = 8  # of a last token, read in the end
FRESH_ANGLE = np.pi / 4  # between it and the tokens that are read there


def read_error_of_scores(view: LongToken, heads: Readings, model: Block, rng: np.random.Generator) -> FreshError:
    """What fresh tokens at fresh last ones say, several at once. There is a bound where places do not matter, and
    where a promise does not leave all of a W open."""
    each, sphere = max(2, heads.capacity // 2), view.sphere
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
    off, worth = np.array(all_off), np.array(all_worth)
    bounds = norm_bounds_on_sphere(off, worth, sphere.radius, FRESH_ANGLE, sphere.size, promised)
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
