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
    with np.errstate(divide="ignore"):
        s = np.log(np.maximum(signal, 0)) - np.log(np.maximum(rest, 0))
        lo = np.log(np.maximum(signal - answer, 0)) - np.log(np.maximum(rest + answer + spread, 0))
        hi = np.log(np.maximum(signal + answer, 0)) - np.log(np.maximum(rest - answer - spread, 0))
    return (np.clip(s, -LARGEST, LARGEST), lo, hi), impossible
