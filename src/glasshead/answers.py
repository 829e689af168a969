"""Endpoints whose answers are not numbers to learn from as they are, but become such.

>>> box = gh.answers.log_odds(lambda X: np.full((len(X), 2), 0.5), 0, 1)
>>> box(np.zeros((3, 1, 4)))
array([0., 0., 0.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._types import no_type_check
from ._validate import whole


class log_odds:
    """Class probabilities as a value: `log p_i - log p_j`, which a softmax at the end leaves of two logits.

    >>> box = gh.answers.log_odds(lambda X: np.tile([0.8, 0.1, 0.1], (len(X), 1)), 0, 1)
    >>> float(box(np.zeros((1, 2, 4)))[0].round(6))
    2.079442

    `f` takes `(B, N, d)` and returns `(B, classes)` probabilities, not logarithms of them. A probability that was
    rounded to zero says nothing about its logit, and is an error.
    """

    @no_type_check
    def __init__(self, f: Any, i: int, j: int) -> None:
        if not callable(f):
            raise TypeError(f"expected a callable that answers class probabilities, got {type(f).__name__}")
        self._f, self._i, self._j = f, whole(i, "i", least=0), whole(j, "j", least=0)
        if i == j:
            raise ValueError(f"expected two different classes, got {i} twice")
        if hasattr(f, "dim"):
            self.dim: int = f.dim  # pyright: ignore[reportFunctionMemberAccess]

    def __call__(self, X: Any) -> np.ndarray:
        p = np.asarray(self._f(X))
        if p.ndim != 2 or p.shape[1] <= max(self._i, self._j):
            wanted = f"({len(X)}, classes) with classes {self._i} and {self._j}"
            raise ValueError(f"expected probabilities of shape {wanted}, got {p.shape}")
        pair = p[:, [self._i, self._j]]
        if not np.all((pair > 0) & (pair <= 1)):
            raise ValueError(f"expected probabilities above 0 and up to 1, got {pair[~((pair > 0) & (pair <= 1))][0]}")
        return np.log(pair[:, 0]) - np.log(pair[:, 1])

    def __repr__(self) -> str:
        return f"log_odds({self._f!r}, {self._i}, {self._j})"
