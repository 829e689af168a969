"""Real-valued answers from any callable, checked one by one."""

from __future__ import annotations

import math

import numpy as np

from .._errors import OracleError
from .._numbers import positive, real, whole
from .base import Oracle
from .precision import Precision

SMALL = 256  # sequences
CHUNK_BYTES = 32 * 2**20  # what is sent to the box at a time; memory stays bounded however much is asked


class ValueOracle(Oracle):
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
        if not callable(f):
            raise TypeError(f"expected a callable box, got {type(f).__name__}; wrap it as lambda X: ...")
        dim = getattr(f, "dim", None) if dim is None else dim
        if dim is None:
            raise ValueError(
                "expected dim=, the length of a token: this box does not say; call ValueOracle(f, dim=...)"
            )
        self.dim = whole(dim, "dim", least=1)
        if getattr(f, "dim", dim) != dim:
            raise ValueError(f"expected dim={f.dim}, which the box itself says, got dim={dim}")  # type: ignore[attr-defined]
        self.tolerance = real(tolerance, "tolerance", "a finite number >= 0", lambda x: x >= 0)
        self.rtol = real(rtol, "rtol", "a number >= 0 and below 1", lambda x: 0 <= x < 1)
        self.max_norm = None if max_norm is None else positive(max_norm, "max_norm")
        if device is not None:
            raise ValueError(f"expected device=None, got {device!r}: this version asks boxes through numpy only")
        self.dtype = np.dtype(dtype)
        if self.dtype.name not in ("float64", "float32", "float16"):
            raise ValueError(f"expected dtype to be 'float64', 'float32' or 'float16', got {dtype!r}")
        self.queries = 0
        self._f = f
        self._outputs: tuple[int, ...] | None = None
        self._precision = Precision(self.dtype)

    @property
    def roundoff(self) -> float:
        return self._precision.roundoff

    def __call__(self, X):
        X = np.asarray(X)
        if X.ndim != 3 or X.shape[2] != self.dim or X.shape[1] < 1:
            raise ValueError(f"expected queries of shape (B, N, {self.dim}) with N >= 1, got {X.shape}")
        self._check_tokens(X)
        rows = max(1, CHUNK_BYTES // (X.shape[1] * self.dim * self.dtype.itemsize))
        if len(X) == 0:
            return np.empty((0, *(self._outputs or ())))
        parts = [self._ask(X[start : start + rows]) for start in range(0, len(X), rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _check_tokens(self, X: np.ndarray) -> None:
        if self.max_norm is None:
            return
        largest = float(np.abs(X).max(initial=0.0)) or 1.0  # divided out, so that squares do not overflow
        longest = largest * math.sqrt(np.einsum("bnd,bnd->bn", X / largest, X / largest).max(initial=0.0))
        if longest > self.max_norm * (1 + 1e-12):
            raise ValueError(
                f"expected tokens no longer than max_norm = {self.max_norm:g}, got one of norm {longest:g}"
            )

    def _ask(self, X: np.ndarray) -> np.ndarray:
        # A box may work in place: small requests, which their sender may want to keep, are copied; large ones are built
        # for the box alone.
        sent = X.astype(self.dtype, copy=len(X) <= SMALL)
        self.queries += len(X)
        try:
            answers = np.array(self._f(sent))  # a copy: the box may answer in the same array again
        except Exception as error:
            what = f"{len(X)} sequences of {X.shape[1]} tokens in dimension {self.dim}"
            raise OracleError(f"the box raised {type(error).__name__}: {error} (asked: {what})", X[0]) from error
        answers = self._checked(answers, X)
        self._precision.see(answers)
        return answers.astype(np.float64, copy=False)

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        expected = (len(X), *self._outputs) if self._outputs is not None else None
        if answers.ndim not in (1, 2) or len(answers) != len(X) or (expected and answers.shape != expected):
            want = expected or f"({len(X)},) or ({len(X)}, k)"
            raise OracleError(f"expected answers of shape {want}, one per sequence, got {answers.shape}", X[0])
        if answers.dtype.kind not in "fiu":
            hint = "; for yes/no answers use gh.SignOracle" if answers.dtype.kind == "b" else ""
            raise OracleError(f"expected real numbers as answers, got dtype {answers.dtype}{hint}", X[0])
        self._outputs = answers.shape[1:]
        if not np.isfinite(answers).all():
            bad = np.flatnonzero(~np.isfinite(answers.reshape(len(X), -1)).all(axis=1))[0]
            raise OracleError(
                f"expected finite answers, got {answers[bad]} for query {self.queries - len(X) + bad} "
                f"({X.shape[1]} tokens, largest entry {np.abs(X[bad]).max():.3g}); if it overflows, give max_norm=",
                X[bad],
            )
        return answers
