"""Which roots to believe: at a true one both sequences move the answer alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._types import Float
from . import interpolate

if TYPE_CHECKING:
    from .match import Matching

ALIKE = 0.01  # relative difference of the slopes of the two sequences at a true root
CLEARLY = 256.0  # times the noise: what the values of two points must differ by to show a slope
CONVERGED = 1e-6
ACROSS = 0.1  # of the last step: how far a vector answer may miss the reference sideways


@dataclass(frozen=True)
class Matched:
    """Per probe: the score, its error, and whether to believe it; `far` where the score is too large to be read."""

    s: Float[np.ndarray, "*n"]
    error: Float[np.ndarray, "*n"]
    good: np.ndarray
    far: np.ndarray
    noise: float


def judged(matching: Matching, c, f, across, root, error, used) -> Matched:
    """Slopes of both sequences at the root must agree: a false one, where the answer comes back, has another."""
    curve, noise, everyone, final = matching.curve, matching.noise, np.arange(len(root)), used - 1
    s = curve.score(root)
    fixed, moved = matching.rates(root, s)
    with np.errstate(divide="ignore", invalid="ignore"):
        here = slope_at_root(matching, c, f, root, used) / moved
        there = matching.pace / fixed
        blur = noise / (matching.step * matching.pace)
        alike = np.abs(here - there) <= (ALIKE + 4 * blur) * np.abs(there)
        converged = error <= CONVERGED + 16 * noise / matching.pace
        s_error = score_per_c(matching, root) * (error + 2 * noise / np.abs(here * moved))
    sideways = across[everyone, final] > ACROSS * np.abs(f[everyone, final]) + 64 * noise
    far = (np.abs(s) > curve.limit) | (root <= curve.range[0]) | (root >= curve.range[1])
    good = alike & converged & ~sideways & ~far & np.isfinite(s) & np.isfinite(s_error)
    return Matched(s, s_error, good, far, noise)


def slope_at_root(matching: Matching, c, f, root, used) -> np.ndarray:
    """Of the movable sequence's answer, from the last three points; without the very last if it shows only noise."""
    everyone, final = np.arange(len(root)), used - 1
    near = np.abs(f[everyone, final] - f[everyone, final - 1]) < CLEARLY * matching.noise
    last = np.stack([np.maximum(final - near - back, 0) for back in (2, 1, 0)], axis=1)
    points, values = np.take_along_axis(c, last, axis=1), np.take_along_axis(f, last, axis=1)
    curved = interpolate.slope(points, values, root)
    pair = interpolate.slope(points[:, 1:], values[:, 1:], root)
    return np.where((used - near > 2) & np.isfinite(curved), curved, pair)


def score_per_c(matching: Matching, c: np.ndarray) -> np.ndarray:
    h = 1e-6
    return np.abs(matching.curve.score(c + h) - matching.curve.score(c - h)) / (2 * h)
