"""Yes and no: the oracle around a callable that says them, and votes on answers that may be wrong."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from .._errors import OracleError
from .._types import no_type_check
from .._validate import real
from .base import Oracle, Wrapper
from .box import Answering, BoxOracle

MOST_FLIPS = 0.25  # beyond this an answer has to be bought with some forty others


class SignOracle(BoxOracle):
    """An oracle that answers whether `f(X) > 0`, one bool per sequence.

    >>> oracle = gh.SignOracle(lambda X: X[:, -1].sum(axis=-1) - 1, dim=3)
    >>> oracle(np.stack([np.zeros((5, 3)), np.ones((5, 3))])), oracle.queries
    (array([False,  True]), 2)

    `f` takes a `(B, N, d)` array of `dtype` and returns `B` bools, zeros and ones, or numbers of which only the sign is
    looked at (for probabilities pass `lambda X: p(X) - 0.5`). Tokens longer than `max_norm` are never sent. `dtype` is
    also the promise of how precisely the box computes, since yes and no do not show it: say "float32" for a box that
    works in float32 inside. `flips` is the largest probability with which an answer may be wrong, each time anew.
    """

    answers = "sign"

    @no_type_check
    def __init__(
        self,
        f: Answering,
        dim: int | None = None,
        *,
        max_norm: float | None = None,
        flips: float = 0.0,
        device: str | None = None,
        dtype: DTypeLike = "float64",
    ):
        super().__init__(f, dim, max_norm=max_norm, device=device, dtype=dtype)
        wanted = f"a probability from 0 to {MOST_FLIPS}"
        self.flips: float = real(flips, "flips", wanted, lambda x: 0 <= x <= MOST_FLIPS)

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        if answers.shape == (len(X), 1):
            answers = answers[:, 0]
        if answers.ndim == 2 and len(answers) == len(X):
            raise OracleError(
                f"expected one yes or no per sequence, got {answers.shape[1]} answers to each: a sign oracle reads one "
                "output; pick it, as in gh.SignOracle(lambda X: f(X)[:, 0], dim=...)",
                X[0],
            )
        if answers.shape != (len(X),):
            raise OracleError(f"expected answers of shape {(len(X),)}, one per sequence, got {answers.shape}", X[0])
        if answers.dtype.kind not in "bfiu":
            raise OracleError(f"expected bools, 0 and 1, or real numbers as answers, got dtype {answers.dtype}", X[0])
        if answers.dtype.kind == "f":
            self._require_finite(answers, X)
            self._precision.see(answers[answers != np.rint(answers)])  # labels and counts say nothing about digits
        return answers > 0


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
        """The probability that all answers given so far are right."""
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
