"""Answers in float16 or bfloat16, taken for exact numbers that were rounded at the very end."""

from __future__ import annotations

from .base import Oracle, Wrapper
from .precision import ROUNDOFF

REACH = 2.0**8  # float16 overflows at 65504
TINY = 2.0**-25  # half the smallest float16


class Narrow(Wrapper):
    """What a box promises that computes in float64 and rounds its answers: `rtol` of one roundoff, and no more.

    One that computes in the narrow format as well breaks that promise.
    """

    tolerance = 0.0  # type: ignore[assignment]
    rtol = 0.0  # type: ignore[assignment]
    roundoff = 2.0**-53  # type: ignore[assignment]

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.half = inner.roundoff == ROUNDOFF["float16"]
        self.name = "float16" if self.half else "bfloat16"
        self.rtol, self.tolerance = inner.roundoff, TINY if self.half else 0.0

    @property
    def max_norm(self) -> float | None:  # type: ignore[override]
        inner = self.inner.max_norm
        if not self.half:
            return inner
        return REACH if inner is None else min(inner, REACH)


def is_narrow(oracle: Oracle) -> bool:
    return oracle.roundoff >= ROUNDOFF["float16"]
