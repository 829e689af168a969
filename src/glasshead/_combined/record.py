"""Every answer holds k numbers, of which a combination uses one: the others are kept for later."""

from __future__ import annotations

import numpy as np

from .._oracle import Oracle, Wrapper

ROOM = 2**23  # numbers, 64 MiB: what is asked first, very long tokens, is what says most about values
ROWS = 2  # a sum of heads is learned from one and two tokens


class Recorded(Wrapper):
    """Keeps queries and answers, the first ones, as far as there is room. One token alone counts as two copies."""

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.room = ROOM
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []

    def __call__(self, X):
        answers = np.asarray(self.inner(X))
        size = X[:, :1].size * ROWS + answers.size
        if X.shape[1] <= ROWS and size <= self.room and len(X):
            self.room -= size
            two = np.broadcast_to(X, (len(X), 1, self.dim)).repeat(ROWS, axis=1) if X.shape[1] == 1 else X.copy()
            self._kept.append((two, answers))
        return answers

    def kept(self) -> tuple[np.ndarray, np.ndarray]:
        """Queries `(n, 2, d)` and answers `(n, k)`."""
        if not self._kept:
            return np.empty((0, ROWS, self.dim)), np.empty((0, 0))
        queries, answers = zip(*self._kept, strict=True)
        return np.concatenate(queries), np.concatenate(answers)
