"""A bias-free Transformer as a plain head: half of it cancels."""

from __future__ import annotations

import numpy as np

from .base import Wrapper


class Antisymmetric(Wrapper):
    """Answers `f(X) - f(-X)`, with two queries.

    Without a key bias -X has the scores of X, and `ReLU(z) - ReLU(-z) = z`: for a Transformer without biases this is
    the plain head with `v = A w`, at twice the tolerance. A difference that is all rounding is 0.
    """

    tolerance = property(lambda self: 2 * self.inner.tolerance)  # type: ignore[assignment]

    def __call__(self, X):
        there, back = self.inner(X), self.inner(-X)
        rounding = 8 * self.dim * self.roundoff * (np.abs(there) + np.abs(back))
        return np.where(np.abs(there - back) <= rounding, 0.0, there - back)
