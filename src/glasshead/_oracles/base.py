"""The black box as a learner sees it: a dimension, a promise, and a way to ask."""

from __future__ import annotations

import numpy as np

from .._types import Float

REACH = 2.0**40  # the longest token sent to a box that names no max_norm
HALF, HALF_REACH = 2.0**-11, 2.0**8  # float16 overflows at 65504


class Oracle:
    """All that a learner may see of a box. Subclass it and implement `__call__` to plug in a new kind of box.

    `dim` is the token dimension, `queries` counts every sequence asked. The promise: an answer is within
    `tolerance + rtol * |truth|` of the truth, and tokens longer than `max_norm` are never sent. `answers` is "value",
    or "sign" for a box that says only whether its value is positive; then `__call__` gives bools, each wrong with
    probability `flips` at most, and the tolerances mean nothing.
    """

    dim: int
    queries: int = 0
    answers: str = "value"
    tolerance: float = 0.0
    rtol: float = 0.0
    flips: float = 0.0
    max_norm: float | None = None
    shortest: float = 0.0  # keys at least this long are answered best
    stage: str = ""  # what the learner is doing, for progress bars

    @property
    def exact(self) -> bool:
        """Whether answers are promised to be right up to rounding."""
        return self.tolerance == self.rtol == 0

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the box's numbers, 2^-53 for float64."""
        return 2.0**-53

    @property
    def reach(self) -> float:
        """The longest token to send: what the box allows, and no longer than its numbers bear."""
        reach = HALF_REACH if self.roundoff == HALF else REACH
        return reach if self.max_norm is None else min(reach, self.max_norm * (1 - 2.0**-20))

    def __call__(self, X: Float[np.ndarray, "B N d"]) -> Float[np.ndarray, " B"] | Float[np.ndarray, "B k"]:
        raise NotImplementedError


class Wrapper(Oracle):
    """An oracle around another one: counting, promise and dimension are those of the inner oracle."""

    def __init__(self, inner: Oracle):
        self.inner = inner

    answers = property(lambda self: self.inner.answers)  # type: ignore[assignment]
    dim = property(lambda self: self.inner.dim)  # type: ignore[assignment]
    queries = property(lambda self: self.inner.queries)  # type: ignore[assignment]
    tolerance = property(lambda self: self.inner.tolerance)  # type: ignore[assignment]
    rtol = property(lambda self: self.inner.rtol)  # type: ignore[assignment]
    flips = property(lambda self: self.inner.flips)  # type: ignore[assignment]
    max_norm = property(lambda self: self.inner.max_norm)  # type: ignore[assignment]
    roundoff = property(lambda self: self.inner.roundoff)  # type: ignore[assignment]
    stage = property(lambda self: self.inner.stage, lambda self, what: setattr(self.inner, "stage", what))  # type: ignore

    def __call__(self, X):
        return self.inner(X)
