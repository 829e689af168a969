from __future__ import annotations

import numpy as np

from .._numbers import whole
from ._defence import Defence, as_numbers


class rounded(Defence):
    """Answers rounded to so many decimals.

    >>> box = gh.defences.rounded(lambda X: X.sum(axis=(1, 2)), decimals=2)
    >>> box(np.full((1, 1, 1), 0.1249)), box.tolerance
    (array([0.12]), 0.005)

    It keeps `tolerance = 0.5 * 10**-decimals`. Negative decimals round to tens, hundreds and so on.
    """

    def __init__(self, f, decimals):
        self.decimals = whole(decimals, "decimals")
        super().__init__(f, f"decimals={decimals}", tolerance=0.5 * 10.0**-self.decimals)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        answers = as_numbers(answers)
        with np.errstate(over="ignore", invalid="ignore"):
            nearest = np.round(answers, self.decimals)
        # Where scaling up overflows there are no decimals left to round.
        return np.where(np.isfinite(nearest), nearest, answers)
