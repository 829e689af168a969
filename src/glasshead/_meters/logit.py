"""Undoing the softmax of two tokens, with the interval that an error of the answer leaves."""

from __future__ import annotations

from collections.abc import Callable

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


TARGET = 1.0
LOOKS = 2  # pilot scores per step while the order of magnitude is unknown
PILOTS = 4  # pilot scores once it is known; the first columns then settle it
SHORTEST = 2.0**-200  # of the first scale tried: no head saturates at tokens that short
STEPS = 64

Pilot = Callable[[float, int], Interval]


class AlwaysSaturated(Exception):
    """The scores do not get smaller however small the scale: whatever this is, its weights are no softmax."""


def find_scale(
    pilot: Pilot,
    start: float,
    cap: float,
    roundoff: float,
    saturated: float,
    target: float = TARGET,
    pilots: int = PILOTS,
) -> float:
    """The scale c <= cap at which the logits `pilot(c, count)` have rms `target`.

    Where nothing shows at any scale that is the scale which bounds the scores best; where scores go from invisible to
    saturated at once, because the answers say too little, the one between the two.
    """
    scale, looks = coarse_scale(pilot, min(start, cap), cap, roundoff**-0.3, saturated, target)
    for _ in range(STEPS):
        interval = pilot(scale, min(pilots, PILOTS))
        size = np.minimum(np.abs(interval[0]).ravel(), saturated)
        if np.mean(size**2) >= (saturated / 2) ** 2:
            scale /= saturated
            continue
        if pilots > PILOTS:
            size = np.append(size, np.minimum(np.abs(pilot(scale, pilots - PILOTS)[0]), saturated))
        rms = float(np.sqrt(np.mean(np.append(size / scale, looks) ** 2)))  # per unit of scale
        return min(cap, target / rms) if np.any(visible(interval)) else scale
    return scale


def coarse_scale(
    pilot: Pilot, scale: float, cap: float, stride: float, saturated: float, target: float
) -> tuple[float, np.ndarray]:
    """Strides up or down, well inside the range that a sigmoid shows at once, then halving between too much and too
    little. Also returns the scores that showed, per unit of scale."""
    shortest, too_small, too_large = SHORTEST * scale, 0.0, np.inf
    best, best_scale = np.inf, scale
    for _ in range(STEPS):
        interval = pilot(scale, LOOKS)
        unsure = float((interval[2] - interval[1]).max()) / scale
        if unsure < best:
            best, best_scale = unsure, scale
        if np.any(beyond(interval, saturated)):
            too_large = min(too_large, scale)
        elif np.any(visible(interval)):
            size = np.abs(interval[0]).ravel()
            return min(cap, scale * target / float(size.max())), size / scale
        elif scale >= cap:
            return best_scale, np.empty(0)
        else:
            too_small = max(too_small, scale)
        if too_large < 4 * too_small:
            break
        if too_small == 0:
            scale = too_large / stride
        elif too_large == np.inf:
            scale = min(cap, too_small * stride)
        else:
            scale = float(np.sqrt(too_small * too_large))
        if scale < shortest:
            raise AlwaysSaturated
    return scale, np.empty(0)
