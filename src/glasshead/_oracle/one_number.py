"""Answers of one number, whether in a row of their own or not."""

from __future__ import annotations

import numpy as np

from .base import Wrapper


class OneNumber(Wrapper):
    """A box whose answers hold one number each, without the row; `shape` is what an answer came in."""

    shape: tuple[int, ...] = ()

    def __call__(self, X):
        answers = self.inner(X)
        self.shape = np.shape(answers)[1:]
        return np.reshape(answers, len(X))
