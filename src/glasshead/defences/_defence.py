"""A box behind a defence, and what it still promises: the base class of all defences, and the one on tokens."""

from __future__ import annotations

import numpy as np

from .._types import Answering, ArrayLike, no_type_check
from .._validate import positive, require_callable


class Defence:
    """A box around the box `f`, with f's `dim` if it has one. Subclass it and override `asked` or `answered`.

    >>> class steps(gh.defences.Defence):
    ...     def __init__(self, f, step):
    ...         super().__init__(f, f"step={step}", tolerance=step / 2)
    ...         self.step = step
    ...
    ...     def answered(self, answers, X):
    ...         return self.step * np.round(answers / self.step)
    >>> box = steps(gh.Attention([[1.0]], [1.0]), step=0.5)
    >>> box(np.full((1, 1, 1), 0.7)), box.tolerance
    (array([0.5]), 0.25)

    The promise: to tokens no longer than `max_norm` it answers within `tolerance + rtol * |truth|` of the truth, which
    is what the innermost box answers, up to the rounding of its own numbers. So an honest oracle on it is
    `gh.ValueOracle(box, tolerance=box.tolerance, rtol=box.rtol, max_norm=box.max_norm)`. Promises of defences around
    defences add up. `tolerance` and `rtol` are None where nothing is promised, as with Gaussian noise.
    """

    def __init__(self, f: Answering, setting: str = "", *, tolerance: float | None = 0.0, rtol: float = 0.0) -> None:
        """`setting` is for the repr; `tolerance` and `rtol` are what this defence alone keeps, None for nothing."""
        require_callable(f)
        self._f, self._setting = f, setting
        if hasattr(f, "dim"):
            self.dim: int = getattr(f, "dim")  # noqa: B009, only where it has one
        inner = (f.tolerance, f.rtol) if isinstance(f, Defence) else (0.0, 0.0)
        self.max_norm: float | None = f.max_norm if isinstance(f, Defence) else None
        self.tolerance: float | None = None
        self.rtol: float | None = None
        if tolerance is not None and inner[0] is not None and inner[1] is not None:
            # The outer error is relative to the inner answer, which is up to (1 + rtol) |truth| + tolerance.
            self.tolerance = inner[0] + tolerance + rtol * inner[0]
            self.rtol = inner[1] + rtol + rtol * inner[1]

    def asked(self, X: np.ndarray) -> np.ndarray:
        """What the box inside gets to see."""
        return X

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        """What becomes of its answers."""
        return answers

    def __call__(self, X: ArrayLike) -> np.ndarray:
        queries = np.asarray(X)
        if queries.ndim != 3:
            raise ValueError(f"expected queries of shape (B, N, d), got {queries.shape}; one sequence is X[None]")
        return self.answered(np.asarray(self._f(self.asked(queries))), queries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._f!r}{', ' * bool(self._setting)}{self._setting})"


def as_numbers(answers: np.ndarray) -> np.ndarray:
    """Answers to calculate with: float32 stays float32, the rest becomes float64."""
    return answers if answers.dtype == np.float32 else answers.astype(np.float64, copy=False)


class clipped(Defence):
    """Tokens longer than `max_norm` are scaled back to that length before the box sees them.

    >>> box = gh.defences.clipped(lambda X: X.sum(axis=(1, 2)), max_norm=5)
    >>> box(np.array([[[30.0, 40.0]], [[3.0, 0.0]]])), box.max_norm
    (array([7., 3.]), 5.0)

    Shorter tokens pass unchanged, so it answers exactly to tokens no longer than `max_norm`, and of longer ones tells
    only the direction.
    """

    @no_type_check
    def __init__(self, f: Answering, max_norm: float) -> None:
        super().__init__(f, f"max_norm={max_norm}")
        limit = positive(max_norm, "max_norm")
        self._limit = limit
        self.max_norm: float | None = limit if self.max_norm is None else min(limit, self.max_norm)

    def asked(self, X: np.ndarray) -> np.ndarray:
        # Relative to its largest entry, so that no square overflows.
        largest = np.maximum(np.abs(X).max(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        with np.errstate(over="ignore"):
            length = largest * np.linalg.norm(X / largest, axis=-1, keepdims=True)
        return np.where(length > self._limit, X * (self._limit / np.maximum(length, self._limit)), X)
