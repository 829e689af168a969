"""The same box seen from another origin."""

from __future__ import annotations

import numpy as np

from .base import Oracle, Wrapper


class Translated(Wrapper):
    """Adds `origin` to every token. For a head that is a head again: same W and v, with
    `key_bias + W origin` and `bias + origin.v`."""

    def __init__(self, inner: Oracle, origin: np.ndarray):
        super().__init__(inner)
        self.origin = origin

    @property
    def max_norm(self) -> float | None:  # type: ignore[override]
        inner = self.inner.max_norm
        return None if inner is None else inner - float(np.linalg.norm(self.origin))

    def __call__(self, X):
        return self.inner(X + self.origin)
