"""Scalar arguments: a number of the kind that was expected, or an error that says so."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable


def real(value, name: str, expected: str, fits: Callable[[float], bool]) -> float:
    """`value` as a float where it is a finite real number that `fits`."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not fits(float(value)):
        raise ValueError(f"expected {name} to be {expected}, got {value!r}")
    return float(value)


def positive(value, name: str) -> float:
    return real(value, name, "a positive number", lambda x: x > 0)


def whole(value, name: str, least: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or (least is not None and value < least):
        raise ValueError(
            f"expected {name} to be an integer{f' >= {least}' if least is not None else ''}, got {value!r}"
        )
    return int(value)
