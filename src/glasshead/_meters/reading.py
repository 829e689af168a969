"""How a logit is read from two tokens, and how long they should be.

Of `[k + q ; q]` the attention weight of the first token is `sigma(s)` with `s = k . (W q + key_bias)`, and the answer
`f([q]) + sigma(s) k.v`: with v known that is an equation for the logit s. It is read best where it is about 1, which is
a matter of how long the tokens are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from .._types import Float

Interval = tuple[np.ndarray, np.ndarray, np.ndarray]
LARGEST_LOGIT = 750.0  # beyond this a weight is 0 or 1 in any format


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
    lo, hi = np.minimum(lo, LARGEST_LOGIT), np.maximum(hi, -LARGEST_LOGIT)
    return (finite_end(np.clip(s, -LARGEST_LOGIT, LARGEST_LOGIT), lo, hi), lo, hi), impossible


def finite_end(s: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """The estimate, or the finite end of an interval that is open on the side where the estimate ran away to."""
    s = np.where(np.isfinite(hi) & (s <= -LARGEST_LOGIT), hi, s)
    return np.where(np.isfinite(lo) & (s >= LARGEST_LOGIT), lo, s)


def beyond(interval: Interval, limit: float) -> np.ndarray:
    """Where a logit is certainly too large to be read well: past `limit`, or too large for the error of the answer."""
    _, lo, hi = interval
    open_ended = np.isinf(lo) | np.isinf(hi)
    return (lo > limit) | (hi < -limit) | open_ended & ((lo > 0) | (hi < 0))


def stands_out(interval: Interval) -> np.ndarray:
    """Where a logit stands out of its error."""
    s, lo, hi = interval
    return np.abs(s) > 4 * np.maximum(hi - s, s - lo)


MAX_REASKS = 20  # rounds of asking saturated logits again, each at a fraction of the scale
OUTLIER = 2.5  # times sqrt(n): a logit that much less certain than its n neighbours would spoil them, so is asked again

Read = Callable[[np.ndarray, np.ndarray], Interval]  # of query tokens `(m, d)` and key tokens `(m, n, d)`
Refuse = Callable[[np.ndarray, np.ndarray], NoReturn]  # a query token and a key that saturates however short it is


def read_logits(
    read: Read,
    refuse: Refuse,
    q: Float[np.ndarray, "m d"],
    keys: Float[np.ndarray, "m n d"],
    saturated: float,
    guaranteed: bool,
) -> tuple[Interval, Float[np.ndarray, "m n"]]:
    """The logits that `read` finds; those beyond `saturated` are asked again with the key shortened, and scaled back.

    Logits are linear in the key, so `s(c k) / c = s(k)`. Where intervals are `guaranteed` every reading holds: a logit
    lies in all of them, and one much less certain than others is worth another. Also says how much shorter the key was,
    or 0 where the logit comes from more than one reading.
    """
    s, lo, hi = interval = read(q, keys)
    again = beyond(interval, saturated)
    if guaranteed:
        width = hi - lo
        again |= (width > OUTLIER * np.sqrt(max(16, s.shape[1])) * np.median(width)) & (np.abs(s) > 3)
    row, col = np.nonzero(again)
    shrunk, shrink, seen = np.ones_like(s), np.ones(len(row)), s[row, col]
    for _ in range(MAX_REASKS):
        if len(row) == 0:
            return (s, lo, hi), shrunk
        shrink *= 1.5 / np.clip(np.abs(seen), 3.0, 20 * saturated)
        reading = read(q[row], (shrink[:, None] * keys[row, col])[:, None])
        seen, low, high = (end[:, 0] / shrink for end in reading)
        if guaranteed:
            low, high = np.maximum(lo[row, col], low), np.minimum(hi[row, col], high)
        s[row, col], lo[row, col], hi[row, col] = np.clip(seen, low, high), low, high
        shrunk[row, col] = np.where(s[row, col] == seen, shrink, 0.0)
        still = beyond(reading, saturated)[:, 0]
        row, col, shrink, seen = row[still], col[still], shrink[still], reading[0][still, 0]
    return refuse(q[row[0]], keys[row[0], col[0]])


TARGET_LOGIT = 1.0
COARSE_PILOTS = 2  # pilot scores per step while the order of magnitude is unknown
FINE_PILOTS = 4  # pilot scores once it is known; the first columns then settle it
SHORTEST_SCALE = 2.0**-200  # of the first scale tried: no head saturates at tokens that short
SCALE_STEPS = 64

Pilot = Callable[[float, int], Interval]


class AlwaysSaturated(Exception):
    """The scores do not get smaller however small the scale: whatever this is, its weights are no softmax."""


def find_logit_scale(
    read_pilot: Pilot,
    start: float,
    cap: float,
    roundoff: float,
    saturated: float,
    target: float = TARGET_LOGIT,
    pilots: int = FINE_PILOTS,
) -> float:
    """The scale c <= cap at which the logits `read_pilot(c, count)` have rms `target`.

    Where nothing shows at any scale that is the scale which bounds the scores best; where scores go from invisible to
    saturated at once, because the answers say too little, the one between the two.
    """
    scale, looks = find_coarse_scale(read_pilot, min(start, cap), cap, roundoff**-0.3, saturated, target)
    for _ in range(SCALE_STEPS):
        interval = read_pilot(scale, min(pilots, FINE_PILOTS))
        size = np.minimum(np.abs(interval[0]).ravel(), saturated)
        if np.mean(size**2) >= (saturated / 2) ** 2:
            scale /= saturated
            continue
        if pilots > FINE_PILOTS:
            size = np.append(size, np.minimum(np.abs(read_pilot(scale, pilots - FINE_PILOTS)[0]), saturated))
        rms = float(np.sqrt(np.mean(np.append(size / scale, looks) ** 2)))  # per unit of scale
        return min(cap, target / rms) if np.any(stands_out(interval)) else scale
    return scale


def find_coarse_scale(
    read_pilot: Pilot, scale: float, cap: float, stride: float, saturated: float, target: float
) -> tuple[float, np.ndarray]:
    """Strides up or down, well inside the range that a sigmoid shows at once, then halving between too much and too
    little. Also returns the scores that showed, per unit of scale."""
    shortest, too_small, too_large = SHORTEST_SCALE * scale, 0.0, np.inf
    best, best_scale = np.inf, scale
    for _ in range(SCALE_STEPS):
        interval = read_pilot(scale, COARSE_PILOTS)
        unsure = float((interval[2] - interval[1]).max()) / scale
        if unsure < best:
            best, best_scale = unsure, scale
        if np.any(beyond(interval, saturated)):
            too_large = min(too_large, scale)
        elif np.any(stands_out(interval)):
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
