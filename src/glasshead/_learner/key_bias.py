"""The key bias, read with the zero token as query: `[rho a ; 0]` has the logit `rho a . key_bias`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._meter import ValueMeter
from .._meter.lever import longest
from .._meter.scale import PILOTS as LATER
from .._meter.scale import TARGET, AlwaysSaturated, Pilot, find_scale

DETECTIONS = 2
PILOTS, FEW = 16, 16  # few keys: few pilots, so as not to spend a second bias on finding the first
SCORE = 1.2  # rms of the logits: best where the answer's error does not shrink with the signal


def has_key_bias(meter: ValueMeter) -> bool:
    """The longest keys show even the smallest bias. Random keys, so missing it by chance has probability zero."""
    long = longest(meter.oracle) * meter.keys.vectors[:DETECTIONS]
    _, lo, hi = meter.read(np.zeros((1, meter.oracle.dim)), long[None])
    return bool(np.any((lo > 0) | (hi < 0)))


def find_key_bias(meter: ValueMeter, rng: np.random.Generator) -> ValueMeter:
    """The meter with its key bias filled in, at the scale where all d logits are near `SCORE`."""
    zero, keys, oracle = np.zeros((1, meter.oracle.dim)), meter.keys, meter.oracle

    def pilot(rho: float, count: int):
        chosen = keys.vectors[rng.permutation(len(keys))[:count]]
        s, lo, hi = meter.read(zero, rho * chosen[None])
        return s[0], np.maximum(hi - s, s - lo)[0]

    pilots = PILOTS if len(keys) > FEW else min(5, len(keys))
    rho = scale_or_refuse(meter, pilot, longest(oracle), SCORE, pilots)
    return read_key_bias(meter, rho)


def scale_or_refuse(meter: ValueMeter, pilot: Pilot, cap: float, target: float = TARGET, pilots: int = LATER) -> float:
    try:
        return find_scale(pilot, 1.0, cap, meter.oracle.roundoff, meter.saturated, target, pilots)
    except AlwaysSaturated:
        meter.refuse_saturation(np.zeros(meter.oracle.dim), meter.keys.vectors[0])


def read_key_bias(meter: ValueMeter, rho: float) -> ValueMeter:
    keys = meter.keys
    s, lo, hi = meter.logits(np.zeros((1, meter.oracle.dim)), rho * keys.vectors[None])
    key_bias = keys.inverse @ s[0] / rho
    width = np.linalg.norm(np.maximum(hi - s, s - lo)) / rho
    size = meter.clutter + float(np.linalg.norm(key_bias))
    rounding = 4 * (meter.oracle.dim + 4) * meter.oracle.roundoff * size * np.sqrt(len(keys))
    return replace(meter, key_bias=key_bias, key_bias_error=float(keys.gain * (width + rounding)))
