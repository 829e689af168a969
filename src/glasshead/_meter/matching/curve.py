"""Two kinds of sequences that move the attention output along the same line, so that equal answers mean equal places.

All tokens lie on the line `q + c u`, and so does the attention output, `q + t u`. How far it goes depends on the
sequence and on one unknown number, the score `s = u . (W q + key_bias)`. Whatever lies behind the head, two sequences
that go equally far are answered alike: find the c for which they are, and `t` being the same says what s is.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import expit

from ..._types import Float

NEWTON = 60
LONGEST_STEP = 1.0
CLOSE = 2.0**-40  # a step of Newton's that short leaves an error of its square


@runtime_checkable
class Curve(Protocol):
    """A reference sequence, whose first tokens are `q + u`, and a movable one, with a single token `q + c u`."""

    start: float  # the c of a score of zero,
    range: tuple[float, float]  # and those of all scores
    limit: float  # within +- this: beyond it the answers say little, or two c fit
    typical: float  # the rms of scores to aim for

    def reference(self, q: np.ndarray, u: np.ndarray, c: np.ndarray) -> Float[np.ndarray, "n N d"]: ...

    def movable(self, q: np.ndarray, u: np.ndarray, c: np.ndarray) -> Float[np.ndarray, "n N d"]: ...

    def reference_t(self, c: np.ndarray, s: np.ndarray) -> np.ndarray: ...

    def movable_t(self, c: np.ndarray, s: np.ndarray) -> np.ndarray: ...

    def score(self, c: np.ndarray) -> np.ndarray:
        """The s for which the movable sequence at c goes as far as the reference at 1."""
        ...


class Copies:
    """Two copies of `q + u` against one of `q + c u`, before the last token q: for answers that also depend on q."""

    start = 4 / 3
    range = (1.05, 1.95)
    limit = 0.42

    def __init__(self, noisy: bool = False):
        self.typical = 0.16 if noisy else 0.1  # smaller scores take fewer queries, larger ones stand out of noise

    def reference(self, q, u, c):
        token = q + c[:, None] * u
        return np.stack([token, token, q], axis=1)

    def movable(self, q, u, c):
        return np.stack([q + c[:, None] * u, q], axis=1)

    def reference_t(self, c, s):
        return c * expit(c * s + np.log(2))

    def movable_t(self, c, s):
        return c * expit(c * s)

    def score(self, c):
        s = 9 / 4 * (self.start - c)
        for _ in range(NEWTON):
            moved, fixed = expit(c * s), expit(s + np.log(2))
            slope = c**2 * moved * (1 - moved) - fixed * (1 - fixed)
            step = np.clip((c * moved - fixed) / slope, -LONGEST_STEP, LONGEST_STEP)
            s = s - step
            if not np.any(np.abs(step) > CLOSE):
                break
        return s


class OneRow:
    """`[q + u ; q]` against the one-row `[q + c u]`, whose attention output is its token: for answers that depend on
    the attention output alone. Then c is the attention weight itself."""

    start = 0.5
    range = (0.002, 0.998)
    limit = 3.0

    def __init__(self, noisy: bool = False):
        self.typical = 0.8 if noisy else 0.2

    def reference(self, q, u, c):
        return np.stack([q + c[:, None] * u, q], axis=1)

    def movable(self, q, u, c):
        return (q + c[:, None] * u)[:, None]

    def reference_t(self, c, s):
        return c * expit(c * s)

    def movable_t(self, c, s):
        return c + 0 * s

    def score(self, c):
        return np.log(c) - np.log1p(-c)
