"""Oracles around a callable: what is sent and answered is checked and counted, and its digits are looked at.

`InputOracle` is around one that takes inputs instead of sequences, which networks without a head do.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._errors import GlassheadError, OracleError
from .._types import Answering, no_type_check
from .._validate import box_dim, positive, real, require_callable
from .base import Oracle
from .precision import Precision, as_array

SMALL_REQUEST = 256  # sequences
ROUNDED_NORM = 1e-12  # of max_norm: what a token of just that length may exceed it by, rounded once here and once there
CHUNK_BYTES = 32 * 2**20  # what is sent to the box at a time; memory stays bounded however much is asked


class BoxOracle(Oracle):
    """What oracles around a callable share. A subclass says with `_checked` which answers it accepts.

    The callable of an adapter may have `batch` and `resent`, how many sequences it has sent again.
    """

    @no_type_check
    def __init__(
        self,
        f: Answering,
        dim: int | None = None,
        *,
        max_norm: float | None = None,
        device: str | None = None,
        dtype: DTypeLike = "float64",
    ):
        require_callable(f)
        self.dim: int = box_dim(f, dim, "a token", f"{type(self).__name__}(f, dim=...)")
        self.max_norm: float | None = None if max_norm is None else positive(max_norm, "max_norm")
        if device is not None:
            raise ValueError(f"expected device=None, got {device!r}: this version asks boxes through numpy only")
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype.name not in ("float64", "float32", "float16"):
            raise ValueError(f"expected dtype to be 'float64', 'float32' or 'float16', got {dtype!r}")
        self.queries: int = 0
        self._f = f
        self._outputs: tuple[int, ...] | None = None
        self._precision = Precision(self.dtype)

    @property
    def roundoff(self) -> float:
        return self._precision.roundoff

    @property
    def format_known(self) -> bool:
        return self._precision.known

    @property
    def batch(self) -> int | None:
        """The most sequences that are sent at a time, where the box says that."""
        return getattr(self._f, "batch", None)

    @property
    def resent(self) -> int:  # type: ignore[override]
        return getattr(self._f, "resent", 0)

    @contextmanager
    def through(self, around: Callable[[Answering], Answering]) -> Generator[None]:
        """Ask `around(f)` instead of `f` for a while."""
        f, self._f = self._f, around(self._f)
        try:
            yield
        finally:
            self._f = f

    def close(self) -> None:
        """Let go of what the box holds, such as processes that were started for it; it cannot be asked after that."""
        getattr(self._f, "close", lambda: None)()

    def rounds_tokens(self, roundoff: float) -> None:
        self._precision.take_tokens(roundoff)

    def _said(self, X: np.ndarray) -> str:
        return f"{len(X)} sequences of {X.shape[1]} tokens in dimension {self.dim}"

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        """The answers to `X` as this oracle hands them on, or an `OracleError`."""
        raise NotImplementedError

    @no_type_check
    def __call__(self, X: ArrayLike) -> np.ndarray:
        X = np.asarray(X)
        if X.ndim != 3 or X.shape[2] != self.dim or X.shape[1] < 1:
            raise ValueError(f"expected queries of shape (B, N, {self.dim}) with N >= 1, got {X.shape}")
        self._require_lengths(X)
        if len(X) == 0:
            return self._checked(np.empty((0, *(self._outputs or ()))), X)
        rows = max(1, CHUNK_BYTES // (X.shape[1] * self.dim * self.dtype.itemsize))
        rows = min(rows, self.batch or rows)
        parts = [self._ask(X[start : start + rows]) for start in range(0, len(X), rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _require_lengths(self, X: np.ndarray) -> None:
        if self.max_norm is None:
            return
        largest = float(np.abs(X).max(initial=0.0)) or 1.0  # divided out, so that squares do not overflow
        longest = largest * math.sqrt(np.einsum("bnd,bnd->bn", X / largest, X / largest).max(initial=0.0))
        if longest > self.max_norm * (1 + ROUNDED_NORM):
            most = f"max_norm = {self.max_norm:g}"
            raise ValueError(f"expected tokens no longer than {most}, got one of norm {longest:g}")

    def _ask(self, X: np.ndarray) -> np.ndarray:
        # A box may work in place: small requests, which their sender may want to keep, are copied; large ones are built
        # for the box alone.
        sent = X.astype(self.dtype, copy=len(X) <= SMALL_REQUEST)
        resent = self.resent
        self.queries += len(X)
        try:
            answers = np.array(as_array(self._f(sent)))  # a copy: the box may answer in the same array again
        except GlassheadError:
            raise
        except Exception as error:
            asked = self._said(X)
            raise OracleError(f"the box raised {type(error).__name__}: {error} (asked: {asked})", X[0]) from error
        finally:
            self.queries += self.resent - resent
        return self._checked(answers, X)

    def _require_finite(self, answers: np.ndarray, X: np.ndarray) -> None:
        if np.isfinite(answers).all():
            return
        bad = np.flatnonzero(~np.isfinite(answers.reshape(len(X), -1)).all(axis=1))[0]
        raise OracleError(
            f"expected finite answers, got {answers[bad]} for query {self.queries - len(X) + bad} "
            f"({X.shape[1]} tokens, largest entry {np.abs(X[bad]).max():.3g}); if it overflows, give max_norm=",
            X[bad],
        )


class ValueOracle(BoxOracle):
    """An oracle that answers `f(X)`.

    >>> oracle = gh.ValueOracle(lambda X: X[:, -1].sum(axis=-1), dim=3)
    >>> oracle(np.ones((2, 5, 3))), oracle.queries
    (array([3., 3.]), 2)

    `f` takes a `(B, N, d)` array of `dtype` and returns `B` numbers, or `(B, k)`. Promised by the caller:
    `abs(answer - truth) <= tolerance + rtol * abs(truth)`. Tokens longer than `max_norm` are never sent.
    """

    @no_type_check
    def __init__(
        self,
        f: Answering,
        dim: int | None = None,
        *,
        tolerance: float = 0.0,
        rtol: float = 0.0,
        max_norm: float | None = None,
        device: str | None = None,
        dtype: DTypeLike = "float64",
    ):
        super().__init__(f, dim, max_norm=max_norm, device=device, dtype=dtype)
        self.tolerance: float = real(tolerance, "tolerance", "a finite number >= 0", lambda x: x >= 0)
        self.rtol: float = real(rtol, "rtol", "a number >= 0 and below 1", lambda x: 0 <= x < 1)

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        expected = (len(X), *self._outputs) if self._outputs is not None else None
        wrong = answers.ndim not in (1, 2) or len(answers) != len(X) or answers.shape[1:] == (0,)
        if wrong or (expected and answers.shape != expected):
            want = expected or f"({len(X)},) or ({len(X)}, k) with k >= 1"
            raise OracleError(f"expected answers of shape {want}, one per sequence, got {answers.shape}", X[0])
        if answers.dtype.kind not in "fiu":
            hint = "; for yes/no answers use gh.SignOracle" if answers.dtype.kind == "b" else ""
            raise OracleError(f"expected real numbers as answers, got dtype {answers.dtype}{hint}", X[0])
        if len(X):
            self._outputs = answers.shape[1:]
        with np.errstate(over="ignore"):  # of wider formats than float64
            numbers = answers.astype(np.float64, copy=False)
        self._require_finite(numbers, X)
        self._precision.see(answers)
        return numbers


class InputOracle(ValueOracle):
    """An oracle that answers `f(x)` to inputs `(B, d)`, each of them asked about as a sequence of one token.

    With `scalar` every answer has to be one number, without an axis of its own; `single` says whether the last ones
    were. `call` is how to say the dimension.
    """

    @no_type_check
    def __init__(
        self, f: Answering, dim: int | None, call: str, *, max_norm: float | None = None, scalar: bool = False
    ):
        require_callable(f, "x")
        dim = box_dim(f, dim, "an input", call)
        super().__init__(lambda X: f(X[:, 0].copy()), dim, max_norm=max_norm)  # a copy: f may work in place
        self.scalar, self.single = scalar, False

    def _said(self, X: np.ndarray) -> str:
        return f"{len(X)} inputs of dimension {self.dim}"

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        self.single = answers.ndim == 1
        if not self.scalar:
            return super()._checked(answers, X)
        x = X[:, 0]
        if answers.shape != (len(x),):
            raise OracleError(f"expected answers of shape ({len(x)},), one for each input, got {answers.shape}", x[:1])
        if answers.dtype.kind not in "fiub":
            raise OracleError(f"expected real answers, got dtype {answers.dtype}", x[:1])
        bad = np.flatnonzero(~np.isfinite(answers))
        if len(bad):
            raise OracleError(f"expected finite answers, got {answers[bad[0]]}", x[bad[:1]])
        return answers.astype(np.float64)


@no_type_check
def as_oracle(oracle: Oracle | Answering) -> Oracle:
    """The oracle itself, or one around a `gh` model."""
    if isinstance(oracle, Oracle):
        return oracle
    if hasattr(oracle, "dim") and callable(oracle):
        return ValueOracle(oracle)
    hint = "wrap a callable as gh.ValueOracle(f, dim=...)"
    raise TypeError(f"expected a gh.Oracle or a gh model, got {type(oracle).__name__}; {hint}")
