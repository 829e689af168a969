"""Answers that are not quite right, made better: noise is averaged, votes are taken on signs, and a narrow format is
read as exact numbers that were rounded at the very end."""

from __future__ import annotations

import math

import numpy as np

from .._errors import OracleError
from .base import DOUBLE, HALF, HALF_REACH, Oracle, Wrapper

CERTAIN = 6.0  # standard deviations: Gaussian noise exceeds them once in 5e8 answers, more than any recovery asks for
COPIES_BYTES = 32 * 2**20  # copies of queries made at a time


class Averaged(Wrapper):
    """Asks every query `repeats` times and answers the mean.

    >>> quiet = Averaged(gh.ValueOracle(gh.defences.gaussian(lambda X: X.sum(axis=(1, 2)), 0.1), dim=3), 100, 0.1)
    >>> bool(abs(quiet(np.ones((1, 2, 3)))[0] - 6) < quiet.tolerance), round(quiet.tolerance, 4), quiet.queries
    (True, 0.06, 100)

    Of a single answer `noise` is the standard deviation, `relative` a part of it that is a share of the answer. The
    mean then promises `CERTAIN` of its own, which is no guarantee but lets a learner decide what it can see.
    """

    def __init__(self, inner: Oracle, repeats: int, noise: float, relative: float = 0.0):
        super().__init__(inner)
        self.repeats = repeats
        self.tolerance = inner.tolerance + CERTAIN * noise / math.sqrt(repeats)
        self.rtol = inner.rtol + CERTAIN * relative / math.sqrt(repeats)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = np.asarray(X)
        if len(X) == 0 or self.repeats == 1:
            return self.inner(X)
        copies = max(1, COPIES_BYTES // (8 * X.size))
        total, left = np.zeros(()), self.repeats
        while left:
            now = min(copies, left)
            answers = self.inner(np.tile(X, (now, 1, 1)))
            total = total + answers.reshape(now, *answers[: len(X)].shape).sum(axis=0)
            left -= now
        return total / self.repeats


DOUBT = 1e-9  # the largest probability that an answer is still wrong
# Times the square of the lead, votes on one query: a fair coin needs more only once in exp(16 pi^2 / 8) = 4e8 times.
MOST_VOTES = 16


class Voting(Wrapper):
    """Asks every query until yes or no is ahead by so many votes that flips do not explain it.

    With answers wrong with probability p at most, a lead of m comes about the wrong way round with probability at most
    `1 / (1 + ((1 - p) / p)^m)` (the gambler's ruin), after `m / (1 - 2p)` votes on average: 12.5 votes at p = 0.1.
    """

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.flips, self.decided = 0.0, 0
        self.odds = (1 - inner.flips) / inner.flips if inner.flips > 0 else math.inf
        self.lead = max(1, math.ceil(-math.log(DOUBT) / math.log(self.odds)))

    @property
    def doubt(self) -> float:
        """The probability that an answer is wrong, at most."""
        return 1 / (1 + self.odds**self.lead)

    @property
    def confidence(self) -> float:
        """That all answers given so far are right."""
        return (1 - self.doubt) ** self.decided

    def __call__(self, X: np.ndarray) -> np.ndarray:
        ahead, undecided, votes = np.zeros(len(X), int), np.arange(len(X)), 0
        while len(undecided):
            if votes > MOST_VOTES * self.lead**2:
                words = f"yes and no to one query in turn, {votes:,} times: no promise of flips= explains that"
                raise OracleError(words, X[undecided[0]])
            # No fewer votes than are missing can decide, so they go out together.
            missing = self.lead - np.abs(ahead[undecided])
            again = np.repeat(undecided, missing)
            votes += int(missing.min())
            np.add.at(ahead, again, np.where(self.inner(X[again]), 1, -1))
            undecided = undecided[np.abs(ahead[undecided]) < self.lead]
        self.decided += len(X)
        return ahead > 0


SMALLEST_HALF = 2.0**-25  # half the smallest float16


class Narrow(Wrapper):
    """What a box promises that computes in float64 and rounds its answers: `rtol` of one roundoff, and no more.

    One that computes in the narrow format as well breaks that promise.
    """

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        half = inner.roundoff == HALF
        self.name = "float16" if half else "bfloat16"
        self.rtol, self.tolerance = inner.roundoff, SMALLEST_HALF if half else 0.0
        if half:
            self.max_norm = HALF_REACH if inner.max_norm is None else min(inner.max_norm, HALF_REACH)

    @property
    def roundoff(self) -> float:
        return DOUBLE
