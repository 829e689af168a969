"""Yes or no: whether `f(X) > 0`."""

from __future__ import annotations

import numpy as np

from .._errors import OracleError
from .._numbers import real
from .box import BoxOracle

MOST_FLIPS = 0.25  # beyond this an answer has to be bought with some forty others


class SignOracle(BoxOracle):
    """An oracle that answers whether `f(X) > 0`, one bool per sequence.

    >>> oracle = gh.SignOracle(lambda X: X[:, -1].sum(axis=-1) - 1, dim=3)
    >>> oracle(np.stack([np.zeros((5, 3)), np.ones((5, 3))])), oracle.queries
    (array([False,  True]), 2)

    `f` takes a `(B, N, d)` array of `dtype` and returns `B` bools, zeros and ones, or numbers of which only the sign is
    looked at (for probabilities pass `lambda X: p(X) - 0.5`). Tokens longer than `max_norm` are never sent. `dtype` is
    also the promise of how precisely the box computes, since yes and no do not show it: say "float32" for a box that
    works in float32 inside. `flips` is the largest probability with which an answer may be wrong, each time anew.
    """

    answers = "sign"

    def __init__(self, f, dim=None, *, max_norm=None, flips=0.0, device=None, dtype="float64"):
        super().__init__(f, dim, max_norm=max_norm, device=device, dtype=dtype)
        self.flips = real(flips, "flips", f"a probability from 0 to {MOST_FLIPS}", lambda x: 0 <= x <= MOST_FLIPS)

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        if answers.shape == (len(X), 1):
            answers = answers[:, 0]
        if answers.ndim == 2 and len(answers) == len(X):
            raise OracleError(
                f"expected one yes or no per sequence, got {answers.shape[1]} answers to each: a sign oracle reads one "
                "output; pick it, as in gh.SignOracle(lambda X: f(X)[:, 0], dim=...)",
                X[0],
            )
        if answers.shape != (len(X),):
            raise OracleError(f"expected answers of shape {(len(X),)}, one per sequence, got {answers.shape}", X[0])
        if answers.dtype.kind not in "bfiu":
            raise OracleError(f"expected bools, 0 and 1, or real numbers as answers, got dtype {answers.dtype}", X[0])
        if answers.dtype.kind == "f":
            self._check_finite(answers, X)
            self._precision.see(answers[answers != np.rint(answers)])  # labels and counts say nothing about digits
        return answers > 0
