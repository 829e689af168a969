"""The arithmetic that a box computes with: which of its numbers are rounded, and to what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Rounding = Callable[[np.ndarray], np.ndarray]
LARGEST_HALF = 65504.0


def same(x):
    return x


def bits(count: int) -> Rounding:
    """To so many significant bits, ties to even, in the dtype that came in."""

    def rounded(x):
        x = np.asarray(x)
        mantissa, exponent = np.frexp(x.astype(np.float64))
        return np.ldexp(np.rint(mantissa * 2.0**count) / 2.0**count, exponent).astype(x.dtype)

    return rounded


bfloat16 = bits(8)


def float16(x):
    """The nearest float16; what is too large becomes the largest one, as saturating hardware has it."""
    x = np.asarray(x)
    return np.clip(x, -LARGEST_HALF, LARGEST_HALF).astype(np.float16).astype(x.dtype)


def float32(x):
    x = np.asarray(x)
    return x.astype(np.float32).astype(x.dtype)


def digits(count: int) -> Rounding:
    """To so many significant decimal digits."""

    def rounded(x):
        x = np.asarray(x)
        unit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(x), 1e-300))) - count + 1)
        return np.round(x / unit) * unit

    return rounded


def grid(step: float) -> Rounding:
    """To multiples of a step."""
    return lambda x: np.round(x / step) * step


def table(step: float) -> Rounding:
    """The exponential from a table of its values at multiples of a step, nothing in between."""
    return lambda s: np.exp(np.round(s / step) * step)


def interpolated(step: float) -> Rounding:
    """The exponential from such a table, on a straight line between two of its values."""

    def exp(s):
        low = np.floor(s / step) * step
        return np.exp(low) * (1 + (s - low) / step * np.expm1(step))

    return exp


@dataclass(frozen=True)
class Format:
    """Where a box rounds: parameters and tokens as they come, scores, attention weights, what follows, its answers.

    `level` says how much of a head such answers can show: 3 all, 2 as float32 does, 1 enough for a plain head, 0
    perhaps nothing. `rtol` is what can truly be promised of answers that are rounded at the very end, and `promised`
    the level once it is.
    """

    name: str
    level: int
    dtype: type = np.float64
    parameter: Rounding = same
    token: Rounding = same
    score: Rounding = same
    weight: Rounding = same
    value: Rounding = same
    answer: Rounding = same
    exp: Rounding = np.exp
    rtol: float | None = None
    promised: int = 0

    @property
    def unit(self) -> float:
        """The largest relative error of any one of its roundings."""
        x = np.linspace(0.5, 1.0, 1001).astype(self.dtype)
        steps = (self.token, self.score, self.weight, self.value, self.answer)
        errors = [float(np.abs(step(x) - x).max()) for step in steps]
        return max(*errors, float(np.abs(self.exp(x) / np.exp(x) - 1).max()), float(np.finfo(self.dtype).eps) / 2)

    def tokens(self, X) -> np.ndarray:
        return self.token(np.asarray(X).astype(self.dtype))

    def parameters(self, x) -> np.ndarray:
        return self.parameter(np.asarray(x, np.float64)).astype(self.dtype)

    def softmax(self, scores) -> np.ndarray:
        scores = self.score(scores)
        raised = self.exp(scores - scores.max(axis=-1, keepdims=True)).astype(self.dtype)
        return self.weight(raised / raised.sum(axis=-1, keepdims=True))

    def attend(self, x, scores) -> np.ndarray:
        return self.value(np.einsum("bn,bnd->bd", self.softmax(scores), x))


def throughout(name: str, rounding: Rounding) -> Format:
    """A layer cast to that format: every number is rounded."""
    parts = dict.fromkeys(("parameter", "token", "score", "weight", "value", "answer"), rounding)
    return Format(name, 0, np.float32, **parts)


def mixed(name: str, **parts: Rounding) -> Format:
    """float32 but for one step."""
    return Format(name, 0, np.float32, **parts)


FORMATS = {
    form.name: form
    for form in (
        Format("float64", 3),
        Format("float32", 2, np.float32),
        Format("float32-answers", 2, answer=float32, rtol=2.0**-23, promised=2),
        Format("float16-answers", 1, answer=float16, rtol=2.0**-10, promised=1),
        Format("bfloat16-answers", 1, answer=bfloat16, rtol=2.0**-8, promised=1),
        Format("18-bits", 0, answer=bits(18), rtol=2.0**-18, promised=1),
        Format("11-digits", 0, answer=digits(11), rtol=5.1e-11, promised=2),
        throughout("float16", float16),
        throughout("bfloat16", bfloat16),
        mixed("bfloat16-scores", score=bfloat16),
        mixed("float16-scores", score=float16),
        mixed("bfloat16-weights", weight=bfloat16),
        mixed("float16-weights", weight=float16),
        mixed("8-bit-weights", weight=grid(1 / 255)),
        mixed("exp-table", exp=table(1 / 64)),
        mixed("exp-lines", exp=interpolated(1 / 16)),
    )
}
