"""Arguments become real floating-point arrays, or an error that says what was expected."""

from __future__ import annotations

import numpy as np


def as_real(value, name: str) -> np.ndarray:
    """`value` as a finite float array: float32 stays float32, integers become float64, the rest is refused."""
    array = np.asarray(value)
    if np.iscomplexobj(array) or array.dtype.kind not in "fiu":
        raise TypeError(
            f"expected {name} to hold real numbers, got dtype {array.dtype}; convert it with .astype(float)"
        )
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise ValueError(f"expected {name} to be finite, got {np.sum(~np.isfinite(array))} NaN or infinite entries")
    return array


def check_shape(fits: bool, expected: str, got: tuple[int, ...]) -> None:
    if not fits:
        raise ValueError(f"expected {expected}, got shape {tuple(got)}")
