"""Bisection side by side: every unknown asks one yes-or-no question per round, all of them in one batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._types import Float

# `above(which, thresholds)`: is each of the unknowns with these indices above its threshold?
Above = Callable[[np.ndarray, np.ndarray], np.ndarray]

PATIENCE = 6  # answers that all point one way before the end of the range itself is asked about
FARTHEST = 2.0**200  # times the range expected: what lies beyond that is no number


class Unbounded(Exception):
    """An unknown that is larger than whatever it is compared with; `which` is its index."""

    def __init__(self, which: int):
        super().__init__(f"unknown {which} lies beyond every range")
        self.which = which


def bisect(
    above: Above, reach: Float[np.ndarray, " n"], width: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """`lo < x <= hi` for n unknowns x, no further apart than `width`, with every end asked about.

    Each is taken to lie within `reach` of zero. One that always answers alike may not: then the end of its range is
    asked about as well, and the range doubled for as long as need be. The others ask as often as they are halved.
    """
    everyone = np.arange(len(reach))
    sign = np.where(above(everyone, np.zeros(len(reach))), 1.0, -1.0)
    near, far = np.zeros(len(reach)), reach.copy()  # near < |x| <= far, unless
    unseen = np.ones(len(reach), bool)  # nobody has asked about far
    asked = 1
    while True:
        middle = (near + far) / 2
        wide = (far - near > width) & (near < middle) & (middle < far)
        which = np.flatnonzero(wide | unseen)
        if len(which) == 0:
            return np.where(sign > 0, near, -far), np.where(sign > 0, far, -near)
        at_end = (unseen & (~wide | (asked >= PATIENCE)))[which]
        at = np.where(at_end, far[which], middle[which])
        farther = above(which, sign[which] * at) == (sign[which] > 0)
        near[which] = np.where(farther, at, near[which])
        far[which] = np.where(farther, np.where(at_end, 2 * at, far[which]), at)
        unseen[which] &= farther
        asked += 1
        if np.any(far > FARTHEST * reach):
            raise Unbounded(int(np.argmax(far / reach)))


def exponents(above: Above, count: int, lowest: int, highest: int) -> np.ndarray:
    """For each of `count` unknowns x the e from `lowest` to `highest` with `2^(e-1) < |x| <= 2^e`, else `highest`.

    `lowest` stands for everything smaller, zero too.
    """
    sign = np.where(above(np.arange(count), np.zeros(count)), 1.0, -1.0)
    below, least = np.full(count, lowest - 1), np.full(count, highest)
    while np.any(least - below > 1):
        which = np.flatnonzero(least - below > 1)
        middle = (below[which] + least[which]) // 2
        farther = above(which, sign[which] * 2.0**middle) == (sign[which] > 0)
        below[which] = np.where(farther, middle, below[which])
        least[which] = np.where(farther, least[which], middle)
    return least
