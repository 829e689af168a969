"""Undoing the softmax of two tokens, with the interval that an error of the answer leaves."""

from __future__ import annotations

import numpy as np

Interval = tuple[np.ndarray, np.ndarray, np.ndarray]
LARGEST = 750.0  # beyond this a weight is 0 or 1 in any format


def logit(signal: np.ndarray, swing: np.ndarray, answer: np.ndarray, spread: np.ndarray) -> tuple[Interval, np.ndarray]:
    """The logit s of `signal = sigma(s) swing`, its lowest and highest value, and where no weight in [0, 1] fits.

    `swing` is positive; the signal is known within `answer`, the swing within `spread`.
    """
    rest = swing - signal
    impossible = (signal < -answer) | (rest < -(answer + spread))
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.log(np.maximum(signal, 0)) - np.log(np.maximum(rest, 0))
        lo = np.log(np.maximum(signal - answer, 0)) - np.log(np.maximum(rest + answer + spread, 0))
        hi = np.log(np.maximum(signal + answer, 0)) - np.log(np.maximum(rest - answer - spread, 0))
    lo, hi = np.minimum(lo, LARGEST), np.maximum(hi, -LARGEST)
    return (within(np.clip(s, -LARGEST, LARGEST), lo, hi), lo, hi), impossible


def within(s: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """The estimate, or the finite end of an interval that is open on the side where the estimate ran away to."""
    s = np.where(np.isinf(lo) & np.isfinite(hi) & (s <= -LARGEST), hi, s)
    return np.where(np.isinf(hi) & np.isfinite(lo) & (s >= LARGEST), lo, s)


def beyond(interval: Interval, limit: float) -> np.ndarray:
    """Where a logit is certainly too large to be read well: past `limit`, or too large for the error of the answer."""
    _, lo, hi = interval
    open_ended = np.isinf(lo) | np.isinf(hi)
    return (lo > limit) | (hi < -limit) | open_ended & ((lo > 0) | (hi < 0))


def visible(interval: Interval) -> np.ndarray:
    """Where a logit stands out of its error."""
    s, lo, hi = interval
    return np.isfinite(lo) & np.isfinite(hi) & (np.abs(s) > 4 * np.maximum(hi - s, s - lo))
