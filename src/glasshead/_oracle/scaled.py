"""The same box with another unit of length."""

from __future__ import annotations

from .base import Oracle, Wrapper


class Scaled(Wrapper):
    """Multiplies every token by `factor`, 1 at most. For a head that is a head again, with `factor**2 W`,
    `factor key_bias` and `factor v`: the same numbers, rounded elsewhere."""

    def __init__(self, inner: Oracle, factor: float):
        super().__init__(inner)
        self.factor = factor

    def __call__(self, X):
        return self.inner(self.factor * X)
