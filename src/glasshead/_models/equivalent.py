"""Shorter sequences with the same attention output.

Without a residual that is the output alone. Otherwise the last token x stays, and before it come p copies of
`x + c u`, where `x + u` is the output: their weight is `sigma(c s + log p)` with `s = u . (W x + key_bias)`, so c
solves `c sigma(c s + log p) = 1`. There is such a c, and not a long one, if only p is large enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from .front_head import FrontHead

MOST_COPIES = 64
LONGEST = 3.0  # times the way to the attention output
STEPS = 256
HALVINGS = 60
INSIDE = 1 - 1e-6  # of the ball that normalised tokens fill


def shorter(head: FrontHead, X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Groups of sequences of equal length: their indices in `X (B, N, d)`, and what to ask instead of them."""
    outputs, last = head.attend(X), head.seen(X[:, -1])
    if not head.residual:
        yield np.arange(len(X)), (outputs if head.norm is None else head.norm.token(outputs))[:, None]
        return
    u = outputs - last
    s = np.einsum("bd,bd->b", u, head.keys_against(last))
    todo, copies = np.arange(len(X)), 1
    while len(todo) and copies <= MOST_COPIES:
        c = shortest(s[todo], copies)
        tokens = last[todo] + c[:, None] * u[todo]
        fits = np.isfinite(c) & inside(head, tokens)
        if fits.any():
            yield todo[fits], sequences(head, tokens[fits], X[todo[fits], -1], copies)
        todo, copies = todo[~fits], 2 * copies
    if len(todo):
        raise ValueError(
            f"expected sequences whose attention output {MOST_COPIES} copies of one token and the last one can have, "
            f"got one with a score of {s[todo[0]]:.3g} towards it; ask about shorter tokens"
        )


def inside(head: FrontHead, tokens: np.ndarray) -> np.ndarray:
    """Which tokens are a normalisation of some token, if that matters, and of one that may be sent."""
    longest, fits = getattr(head.behind, "max_norm", None) or np.inf, np.ones(len(tokens), bool)
    if head.norm is not None:
        fits = np.mean(tokens**2, axis=1) < INSIDE
        tokens = head.norm.token(np.where(fits[:, None], tokens, 0.0))
    return fits & (np.linalg.norm(tokens, axis=1) <= longest)


def sequences(head: FrontHead, tokens: np.ndarray, last: np.ndarray, copies: int) -> np.ndarray:
    tokens = tokens if head.norm is None else head.norm.token(tokens)
    return np.stack([tokens] * copies + [last], axis=1)


def shortest(s: np.ndarray, copies: int) -> np.ndarray:
    """The least c from 1 to `LONGEST` with `c sigma(c s + log copies) = 1`, NaN where there is none."""

    def excess(c):
        return c * expit(c * s + np.log(copies)) - 1

    grid = np.linspace(1.0, LONGEST, STEPS)[:, None] + 0 * s
    above = excess(grid) >= 0
    first = above.argmax(axis=0)
    high = np.where(above.any(axis=0), np.take_along_axis(grid, first[None], axis=0)[0], np.nan)
    low = high - (LONGEST - 1) / (STEPS - 1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = excess(middle) >= 0
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    return high
