"""A callable as an oracle: asked in chunks, counted, its failures named; a subclass says what an answer must be."""

from __future__ import annotations

import math

import numpy as np

from .._errors import OracleError
from .._numbers import positive, whole
from .base import Oracle
from .precision import Precision

SMALL = 256  # sequences
CHUNK_BYTES = 32 * 2**20  # what is sent to the box at a time; memory stays bounded however much is asked


class BoxOracle(Oracle):
    """What oracles around a callable share. A subclass says with `_checked` which answers it accepts."""

    def __init__(self, f, dim=None, *, max_norm=None, device=None, dtype="float64"):
        if not callable(f):
            raise TypeError(f"expected a callable box, got {type(f).__name__}; wrap it as lambda X: ...")
        dim = getattr(f, "dim", None) if dim is None else dim
        if dim is None:
            call = f"{type(self).__name__}(f, dim=...)"
            raise ValueError(f"expected dim=, the length of a token: this box does not say; call {call}")
        self.dim = whole(dim, "dim", least=1)
        if getattr(f, "dim", dim) != dim:
            raise ValueError(f"expected dim={f.dim}, which the box itself says, got dim={dim}")  # type: ignore[attr-defined]
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

    def _checked(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        """The answers to `X` as this oracle hands them on, or an `OracleError`."""
        raise NotImplementedError

    def __call__(self, X):
        X = np.asarray(X)
        if X.ndim != 3 or X.shape[2] != self.dim or X.shape[1] < 1:
            raise ValueError(f"expected queries of shape (B, N, {self.dim}) with N >= 1, got {X.shape}")
        self._check_tokens(X)
        if len(X) == 0:
            return self._checked(np.empty((0, *(self._outputs or ()))), X)
        rows = max(1, CHUNK_BYTES // (X.shape[1] * self.dim * self.dtype.itemsize))
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
        return self._checked(answers, X)

    def _check_finite(self, answers: np.ndarray, X: np.ndarray) -> None:
        if np.isfinite(answers).all():
            return
        bad = np.flatnonzero(~np.isfinite(answers.reshape(len(X), -1)).all(axis=1))[0]
        raise OracleError(
            f"expected finite answers, got {answers[bad]} for query {self.queries - len(X) + bad} "
            f"({X.shape[1]} tokens, largest entry {np.abs(X[bad]).max():.3g}); if it overflows, give max_norm=",
            X[bad],
        )
