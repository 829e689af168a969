"""Intervals of many unknowns from yes and no: all are bisected side by side, with one question for each per round.

Every end is one that was asked about. After a wrong answer all that follow point one way, so ends that stayed are asked
about again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._errors import ASKED_AGAIN, Evidence, TargetMismatch
from .._types import Float

# `read_above(which, thresholds)`: is each of the unknowns with these indices above its threshold?
Above = Callable[[np.ndarray, np.ndarray], np.ndarray]
Asking = Callable[[np.ndarray, np.ndarray], np.ndarray]  # the sequences that ask it

ALIKE_ANSWERS = 6  # answers that all point one way before the end of the range itself is asked about
STAYED = 3  # answers that all point one way: one unknown in four has as many in the end
OR_FLIPPED = "or its answers are less accurate than promised (then say so with dtype= or flips=)"
FINE = 2.0**10  # how much smaller than the range intervals are that something hangs on; others only say where to look
FAR_APART = 2.0**6  # intervals: rounding, which may go another way in another batch, does not move one as far
OUT_OF_RANGE = 2.0**200  # times the range expected: what lies beyond that is no number


class Unbounded(Exception):
    """An unknown that is larger than whatever it is compared with; `which` is its index."""

    def __init__(self, which: int):
        super().__init__(f"unknown {which} lies beyond every range")
        self.which = which


def find_intervals(
    read_above: Above, reach: Float[np.ndarray, " n"], width: Float[np.ndarray, " n"], sequence: Asking
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """`lo < x <= hi` for n unknowns x, no further apart than `width`, with every end asked about.

    Each is taken to lie within `reach` of zero. One that always answers alike may not: then the end of its range is
    asked about as well, and the range doubled for as long as need be. The others ask as often as they are halved. Where
    the last answers are all alike the end that stayed is asked about once more: one wrong answer has that effect. If it
    was wrong by more than its last digits, the box is refused with the `sequence` that asked about it.
    """
    lo, hi, stayed = find_by_bisection(read_above, np.arange(len(reach)), reach, width)
    which = np.flatnonzero(~np.isnan(stayed) & (reach >= FINE * width))
    if len(which) and len(wrong := which[read_above(which, stayed[which]) != (stayed[which] == lo[which])]):
        before = lo[wrong] + hi[wrong]
        lo[wrong], hi[wrong], _ = find_by_bisection(read_above, wrong, reach[wrong], width[wrong])
        far = wrong[np.abs(lo[wrong] + hi[wrong] - before) / 2 > FAR_APART * width[wrong]]
        if len(far):
            evidence = Evidence(ASKED_AGAIN, sequence(far[:1], stayed[far[:1]])[0], "expected one answer", "yes and no")
            raise TargetMismatch(f"the box is not a single attention head, {OR_FLIPPED}", evidence)
    return lo, hi


def find_by_bisection(
    read_above: Above, names: np.ndarray, reach: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intervals of the unknowns of these names, and the end of each that stayed where it was for `STAYED` answers."""
    sign = np.where(read_above(names, np.zeros(len(reach))), 1.0, -1.0)
    near, far = np.zeros(len(reach)), reach.copy()  # near < |x| <= far, unless
    unseen = np.ones(len(reach), bool)  # nobody has asked about far
    asked, alike, last = 1, np.zeros(len(reach), int), np.zeros(len(reach), bool)
    while True:
        middle = (near + far) / 2
        wide = (far - near > width) & (near < middle) & (middle < far)
        which = np.flatnonzero(wide | unseen)
        if len(which) == 0:
            stayed = np.where(alike >= STAYED, sign * np.where(last, far, near), np.nan)
            return np.where(sign > 0, near, -far), np.where(sign > 0, far, -near), stayed
        at_end = (unseen & (~wide | (asked >= ALIKE_ANSWERS)))[which]
        at = np.where(at_end, far[which], middle[which])
        farther = read_above(names[which], sign[which] * at) == (sign[which] > 0)
        near[which] = np.where(farther, at, near[which])
        far[which] = np.where(farther, np.where(at_end, 2 * at, far[which]), at)
        alike[which] = np.where(farther == last[which], alike[which] + 1, 1)
        last[which] = farther
        unseen[which] &= farther
        asked += 1
        if np.any(far > OUT_OF_RANGE * reach):
            raise Unbounded(int(names[np.argmax(far / reach)]))


def find_exponents(read_above: Above, count: int, lowest: int, highest: int) -> np.ndarray:
    """For each of `count` unknowns x the e from `lowest` to `highest` with `2^(e-1) < |x| <= 2^e`, else `highest`.

    `lowest` stands for everything smaller, zero too.
    """
    sign = np.where(read_above(np.arange(count), np.zeros(count)), 1.0, -1.0)
    below, least = np.full(count, lowest - 1), np.full(count, highest)
    while np.any(least - below > 1):
        which = np.flatnonzero(least - below > 1)
        middle = (below[which] + least[which]) // 2
        farther = read_above(which, sign[which] * 2.0**middle) == (sign[which] > 0)
        below[which] = np.where(farther, middle, below[which])
        least[which] = np.where(farther, least[which], middle)
    return least
