from __future__ import annotations

import numpy as np

from .._numbers import real, whole
from ._defence import Defence, as_numbers


class gaussian(Defence):
    """Fresh Gaussian noise of standard deviation `sigma` on every answer, every time.

    >>> box = gh.defences.gaussian(lambda X: X.sum(axis=(1, 2)), sigma=0.1)
    >>> X = np.ones((10000, 2, 3))
    >>> bool(abs(box(X).mean() - 6) < 0.01), box.tolerance
    (True, None)

    It promises no tolerance: the mean of n answers to the same query is `sigma / sqrt(n)` off, typically. The same seed
    and the same order of questions give the same noise.
    """

    def __init__(self, f, sigma, seed=0):
        self.sigma = real(sigma, "sigma", "a number >= 0", lambda x: x >= 0)
        super().__init__(f, f"sigma={sigma}, seed={seed}", tolerance=None)
        self._rng = np.random.default_rng(whole(seed, "seed", least=0))

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        answers = as_numbers(answers)
        return (answers + self.sigma * self._rng.standard_normal(answers.shape)).astype(answers.dtype)
