"""The key bias, read with the zero token as query: `[rho a ; 0]` has the logit `rho a . key_bias`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._meter import ValueMeter
from .._meter.frame import Frame
from .._meter.lever import longest
from .._meter.scale import find_scale

DETECTIONS = 2
PILOTS = 16
SCORE = 1.2  # rms of the logits: best where the answer's error does not shrink with the signal


def has_key_bias(meter: ValueMeter, keys: Frame) -> bool:
    """The longest keys show even the smallest bias. Random keys, so missing it by chance has probability zero."""
    long = longest(meter.oracle) * keys.vectors[:DETECTIONS]
    _, lo, hi = meter.read(np.zeros((1, meter.oracle.dim)), long[None])
    return bool(np.any((lo > 0) | (hi < 0)))


def find_key_bias(meter: ValueMeter, keys: Frame, rng: np.random.Generator) -> ValueMeter:
    """The meter with its key bias filled in, at the scale where all d logits are near `SCORE`."""
    zero = np.zeros((1, meter.oracle.dim))

    def pilot(rho: float, count: int):
        chosen = keys.vectors[rng.permutation(len(keys))[:count]]
        s, lo, hi = meter.read(zero, rho * chosen[None])
        return s[0], np.maximum(hi - s, s - lo)[0]

    oracle = meter.oracle
    rho = find_scale(pilot, 1.0, longest(oracle), oracle.roundoff, meter.saturated, SCORE, min(PILOTS, len(keys) // 2))
    return read_key_bias(meter, keys, rho)


def read_key_bias(meter: ValueMeter, keys: Frame, rho: float) -> ValueMeter:
    s, lo, hi = meter.logits(np.zeros((1, meter.oracle.dim)), rho * keys.vectors[None])
    key_bias = keys.inverse @ s[0] / rho
    width = np.linalg.norm(np.maximum(hi - s, s - lo)) / rho
    size = meter.clutter + float(np.linalg.norm(key_bias))
    rounding = 4 * (meter.oracle.dim + 4) * meter.oracle.roundoff * size * np.sqrt(len(keys))
    return replace(meter, key_bias=key_bias, key_bias_error=float(keys.gain * (width + rounding)))
