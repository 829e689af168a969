"""A batch in as many requests as a server takes: fewer sequences after one that was too large, more after a while."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .transport import Reply

GROW_AFTER = 32  # requests that fit until twice as many sequences are tried; after a vain try, twice as many requests
SIZE = re.compile(
    r"batch.?size|list length|too many (prompts|sequences)|too large|(request|body|payload|message)( body)? size"
)


class Parts:
    """Asks batches of up to `most` sequences. `refused` counts those that were sent in a request that was too large."""

    def __init__(self, most: int):
        self.refused = 0
        self._size = self._most = most
        self._fitted, self._patience, self._trying = 0, GROW_AFTER, False

    def ask(self, X: np.ndarray, ask: Callable[[np.ndarray], np.ndarray | None]) -> np.ndarray:
        """What `ask` answers to all parts of `X`; None from it means that a part was too large."""
        found, start = [], 0
        while start < len(X):
            part = X[start : start + self._size]
            answers = ask(part)
            if answers is None:
                self._shrink(len(part))
                continue
            found.append(answers)
            start += len(part)
            self._grow(len(part))
        return np.concatenate(found)

    def _shrink(self, refused: int) -> None:
        self.refused += refused
        self._size, self._fitted = max(1, refused // 2), 0
        if self._trying:
            self._patience, self._trying = 2 * self._patience, False

    def _grow(self, fitted: int) -> None:
        if fitted < self._size:
            return
        self._fitted += 1
        if self._trying:
            self._patience, self._trying = GROW_AFTER, False
        if self._fitted >= self._patience and self._size < self._most:
            self._size, self._fitted, self._trying = min(2 * self._size, self._most), 0, True


def wants_fewer(reply: Reply) -> bool:
    """Does the server want fewer sequences in a request? Some say so with 400 and words instead of 413."""
    return reply.status == 413 or (reply.status in (400, 422, 500) and SIZE.search(reply.said.lower()) is not None)
