"""Answers that may be wrong, each time anew, made right by asking again."""

from __future__ import annotations

import math

import numpy as np

from .base import Oracle, Wrapper

DOUBT = 1e-9  # the largest probability that an answer is still wrong


class Voting(Wrapper):
    """Asks every query until yes or no is ahead by so many votes that flips do not explain it.

    With answers wrong with probability p at most, a lead of m comes about the wrong way round with probability at most
    `1 / (1 + ((1 - p) / p)^m)` (the gambler's ruin), after `m / (1 - 2p)` votes on average: 12.5 votes at p = 0.1.
    """

    flips = 0.0  # type: ignore[assignment]

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.decided = 0
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

    def __call__(self, X):
        ahead, undecided = np.zeros(len(X), int), np.arange(len(X))
        while len(undecided):
            # No fewer votes than are missing can decide, so they go out together.
            again = np.repeat(undecided, self.lead - np.abs(ahead[undecided]))
            np.add.at(ahead, again, np.where(self.inner(X[again]), 1, -1))
            undecided = undecided[np.abs(ahead[undecided]) < self.lead]
        self.decided += len(X)
        return ahead > 0
