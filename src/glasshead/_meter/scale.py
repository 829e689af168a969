"""At which scale to ask: scores near 1, where a sigmoid keeps its digits.

For Gaussian scores of variance s^2 the relative error `E[1/sigma'^2]^(1/2) / s` is least at s = 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

TARGET = 1.0
LOOKS = 2  # pilot scores per step while the order of magnitude is unknown
PILOTS = 4  # pilot scores once it is known; the first columns then settle it
SHORTEST = 2.0**-200  # of the first scale tried: no head saturates at tokens that short

Pilot = Callable[[float, int], tuple[np.ndarray, np.ndarray]]


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
    """The scale c <= cap at which `pilot(c, count) -> scores, halfwidths` has scores of rms `target`.

    Returns `cap` where nothing shows at any scale.
    """
    stride = roundoff**-0.3  # well inside the range a sigmoid shows at once: no scale is jumped over
    scale = min(start, cap)
    while True:
        s, halfwidth = pilot(scale, LOOKS)
        largest = np.abs(s).max()
        if largest > saturated:
            scale /= stride if largest > 2 * saturated else largest
        elif np.any(np.abs(s) > 4 * halfwidth):
            scale = min(cap, scale * target / largest)
            break
        elif scale >= cap:
            return cap
        else:
            scale = min(cap, scale * stride)
        if scale < SHORTEST * start:
            raise AlwaysSaturated
    while True:
        s, _ = pilot(scale, pilots)
        rms = float(np.sqrt(np.mean(np.minimum(np.abs(s), saturated) ** 2)))
        if rms < saturated / 2:
            return min(cap, scale * target / rms) if rms > 0 else scale
        scale /= saturated
        if scale < SHORTEST * start:
            raise AlwaysSaturated
