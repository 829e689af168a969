"""Answers with fresh noise, made quieter by asking again."""

from __future__ import annotations

import math

import numpy as np

from .base import Oracle, Wrapper

CERTAIN = 6.0  # standard deviations: Gaussian noise exceeds them once in 5e8 answers, more than any recovery asks for
CHUNK_BYTES = 32 * 2**20  # copies of queries made at a time


class Averaged(Wrapper):
    """Asks every query `repeats` times and answers the mean.

    >>> quiet = Averaged(gh.ValueOracle(gh.defences.gaussian(lambda X: X.sum(axis=(1, 2)), 0.1), dim=3), 100, 0.1)
    >>> bool(abs(quiet(np.ones((1, 2, 3)))[0] - 6) < quiet.tolerance), round(quiet.tolerance, 4), quiet.queries
    (True, 0.06, 100)

    Of a single answer `noise` is the standard deviation, `relative` a part of it that is a share of the answer. The
    mean then promises `CERTAIN` of its own, which is no guarantee but lets a learner decide what it can see.
    """

    tolerance = 0.0  # type: ignore[assignment]
    rtol = 0.0  # type: ignore[assignment]

    def __init__(self, inner: Oracle, repeats: int, noise: float, relative: float = 0.0):
        super().__init__(inner)
        self.repeats = repeats
        self.tolerance = inner.tolerance + CERTAIN * noise / math.sqrt(repeats)
        self.rtol = inner.rtol + CERTAIN * relative / math.sqrt(repeats)

    def __call__(self, X):
        X = np.asarray(X)
        if len(X) == 0 or self.repeats == 1:
            return self.inner(X)
        copies = max(1, CHUNK_BYTES // (8 * X.size))
        total, left = np.zeros(()), self.repeats
        while left:
            now = min(copies, left)
            answers = self.inner(np.tile(X, (now, 1, 1)))
            total = total + answers.reshape(now, *answers[: len(X)].shape).sum(axis=0)
            left -= now
        return total / self.repeats
