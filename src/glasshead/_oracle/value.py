"""Real-valued answers from any callable, checked one by one."""

from __future__ import annotations

import numpy as np

from .._errors import OracleError
from .._numbers import real
from .box import BoxOracle


class ValueOracle(BoxOracle):
    """An oracle that answers `f(X)`.

    >>> oracle = gh.ValueOracle(lambda X: X[:, -1].sum(axis=-1), dim=3)
    >>> oracle(np.ones((2, 5, 3))), oracle.queries
    (array([3., 3.]), 2)

    `f` takes a `(B, N, d)` array of `dtype` and returns `B` numbers, or `(B, k)`. Promised by the caller:
    `abs(answer - truth) <= tolerance + rtol * abs(truth)`. Tokens longer than `max_norm` are never sent.
    """

    def __init__(
        self,
        f,
        dim=None,
        *,
        tolerance=0.0,
        rtol=0.0,
        max_norm=None,
        device=None,
        dtype="float64",
    ):
        super().__init__(f, dim, max_norm=max_norm, device=device, dtype=dtype)
        self.tolerance = real(tolerance, "tolerance", "a finite number >= 0", lambda x: x >= 0)
        self.rtol = real(rtol, "rtol", "a number >= 0 and below 1", lambda x: 0 <= x < 1)

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        expected = (len(X), *self._outputs) if self._outputs is not None else None
        if answers.ndim not in (1, 2) or len(answers) != len(X) or (expected and answers.shape != expected):
            want = expected or f"({len(X)},) or ({len(X)}, k)"
            raise OracleError(f"expected answers of shape {want}, one per sequence, got {answers.shape}", X[0])
        if answers.dtype.kind not in "fiu":
            hint = "; for yes/no answers use gh.SignOracle" if answers.dtype.kind == "b" else ""
            raise OracleError(f"expected real numbers as answers, got dtype {answers.dtype}{hint}", X[0])
        if len(X):
            self._outputs = answers.shape[1:]
        self._check_finite(answers, X)
        self._precision.see(answers)
        return answers.astype(np.float64, copy=False)
