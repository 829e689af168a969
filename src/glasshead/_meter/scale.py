"""At which scale to ask: scores near 1, where a sigmoid keeps its digits.

For Gaussian scores of variance s^2 the relative error `E[1/sigma'^2]^(1/2) / s` is least at s = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .logit import Interval, beyond, visible

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
