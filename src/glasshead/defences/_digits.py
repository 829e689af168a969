"""Answers with fewer digits: rounded to decimals, or to a narrow floating-point format."""

from __future__ import annotations

import numpy as np

from .._validate import whole
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


class half(Defence):
    """Answers rounded to float16, to nearest, ties to even.

    >>> box = gh.defences.half(lambda X: X.sum(axis=(1, 2)))
    >>> box(np.full((1, 1, 1), 0.1)), box.rtol == 2**-11
    (array([0.09997559]), True)

    It keeps `rtol = 2**-11`, and `tolerance = 2**-25` since tiny numbers have fewer digits. From 65520 on it overflows.
    """

    def __init__(self, f):
        super().__init__(f, tolerance=2.0**-25, rtol=2.0**-11)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return answers.astype(np.float16).astype(np.float64)


class bfloat16(Defence):
    """Answers rounded to bfloat16, float32 with 8 significant bits: to nearest, ties to even.

    >>> box = gh.defences.bfloat16(lambda X: X.sum(axis=(1, 2)))
    >>> box(np.full((1, 1, 1), 0.1)), box.rtol == 2**-8
    (array([0.10009766]), True)

    It keeps `rtol = 2**-8`, and `tolerance = 2**-134` for tiny numbers. Just below 2**128 it overflows.
    """

    BITS, SMALLEST = 8, -133  # significant bits, and the exponent of the smallest positive number

    def __init__(self, f):
        super().__init__(f, tolerance=2.0**-134, rtol=2.0**-self.BITS)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        # Straight from float64: by way of float32 a number next to a tie would be rounded twice.
        answers = answers.astype(np.float64)
        unit = np.maximum(np.frexp(answers)[1] - self.BITS, self.SMALLEST)
        nearest = np.ldexp(np.rint(np.ldexp(answers, -unit)), unit)
        return np.where(np.abs(nearest) < 2.0**128, nearest, np.copysign(np.inf, nearest))
