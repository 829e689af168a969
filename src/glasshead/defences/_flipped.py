from __future__ import annotations

import numpy as np

from .._numbers import real, whole
from ._defence import Defence


class flipped(Defence):
    """Whether the answer is positive, and wrong about it with a fixed probability, afresh every time.

    >>> box = gh.defences.flipped(lambda X: X.sum(axis=(1, 2)), probability=0.1)
    >>> bool(abs(box(np.ones((10000, 2, 3))).mean() - 0.9) < 0.02), box.tolerance
    (True, None)

    `f` may answer yes and no, 0 and 1, or numbers; the answers are booleans. It promises only that each is wrong with
    `probability`, independently of the others: the majority of n answers to the same query is wrong exponentially
    rarely in n.
    """

    def __init__(self, f, probability, seed=0):
        self.probability = real(probability, "probability", "a number from 0 to 1", lambda x: 0 <= x <= 1)
        super().__init__(f, f"probability={probability}, seed={seed}", tolerance=None)
        self._rng = np.random.default_rng(whole(seed, "seed", least=0))

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        return (answers > 0) ^ (self._rng.random(answers.shape) < self.probability)
