"""Samples along a circle, in order, and what the gaps between them are known to hold."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .scale import AnswerNoise

COMPANION_SHARE = 0.35  # two samples make a line for a gap that is at least this much wider than they are apart
LONGEST_LINE = 2.0  # radians between the two ends of a line


class Samples:
    """Gap i lies between samples i and i + 1: flat, a pinned kink, the space beside a companion, or still open."""

    def __init__(self, noise: AnswerNoise):
        self.noise = noise
        self.t, self.y = np.empty(0), np.empty(0)
        self.flat, self.kink, self.blurred, self.pair = (np.zeros(0, bool) for _ in range(4))

    @property
    def slack(self) -> float:
        """How far off a single answer may be."""
        return self.noise.sigmas * self.noise.level

    def add(self, t: np.ndarray, y: np.ndarray, pair: np.ndarray | bool = False) -> None:
        """Insert samples; a `pair` one marks the gap to its nearer neighbour."""
        self.noise = self.noise.with_answers(y)
        old, inserted = self.t, np.r_[self.t, t]
        order = np.argsort(inserted, kind="stable")
        from_old = order < len(old)
        gaps = (self._unsplit(flag, order, from_old) for flag in (self.flat, self.kink, self.blurred, self.pair))
        self.t, self.y = inserted[order], np.r_[self.y, y][order]
        self.flat, self.kink, self.blurred, self.pair = gaps
        companion = np.r_[np.zeros(len(old), bool), np.broadcast_to(pair, len(t))][order]
        width = np.diff(self.t, prepend=-np.inf, append=np.inf)
        for i in np.flatnonzero(companion):
            self.pair[i if width[i + 1] < width[i] else i - 1] = True

    @staticmethod
    def _unsplit(flag: np.ndarray, order: np.ndarray, from_old: np.ndarray) -> np.ndarray:
        """Flags of gaps that no new sample has split; the rest start anew."""
        whole = from_old[:-1] & from_old[1:]
        old_gap = np.where(whole, order[:-1], 0)
        return whole & flag[old_gap] if len(flag) else np.zeros(len(order) - 1, bool)

    def join(self) -> None:
        """Close every gap across which the lines on its sides predict each other, until none is left.

        Never two neighbouring gaps at once: a sample on the crossing of two lines agrees with both.
        """
        while len(gaps := np.flatnonzero(~(self.flat | self.kink))):
            first, last = self.line_before(gaps), self.line_after(gaps)
            agree = self._agree(gaps, first, gaps + 1) & self._agree(gaps + 1, last, gaps)
            agree &= (first < gaps) | (last > gaps + 1)
            agree &= np.diff(np.where(agree, gaps, -1), prepend=-2) != 1
            if not agree.any():
                return
            self.flat[gaps[agree]] = True
            self.flat[gaps[agree & (first < gaps)] - 1] = True  # a companion's gap that served as a line is proved now
            self.flat[gaps[agree & (last > gaps + 1)] + 1] = True

    def _agree(self, near: np.ndarray, far: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Whether the line through samples near and far predicts the other one; True where there is no such line."""
        lone = near == far
        span = np.where(lone, 1.0, np.sin(self.t[far] - self.t[near]))
        to_near, to_far = (np.sin(self.t[end] - self.t[other]) / span for end in (near, far))
        predicted = self.y[near] * to_far - self.y[far] * to_near
        return lone | (np.abs(predicted - self.y[other]) <= self.slack * (1 + 2 * np.abs(to_near)))

    def line_before(self, gaps: np.ndarray) -> np.ndarray:
        """For each gap, the far end of the line that ends at its left sample (that sample itself if there is none)."""
        return self._line(gaps, self.t, self.flat, self.pair)

    def line_after(self, gaps: np.ndarray) -> np.ndarray:
        last = len(self.t) - 1
        return last - self._line(last - 1 - gaps, -self.t[::-1], self.flat[::-1], self.pair[::-1])

    @staticmethod
    def _line(gaps, t, flat, pair) -> np.ndarray:
        starts = np.r_[True, ~flat]  # starts[i]: nothing flat ends at sample i
        start = np.maximum.accumulate(np.where(starts, np.arange(len(t)), 0))[gaps]
        # samples half a turn apart say next to nothing about what lies between
        start = np.where(start < gaps, np.clip(np.searchsorted(t, t[gaps] - LONGEST_LINE), start, gaps - 1), start)
        before = np.maximum(gaps - 1, 0)
        width = np.diff(t)
        beside = (gaps > 0) & pair[before] & (width[before] <= COMPANION_SHARE * width[gaps])
        return np.where((start == gaps) & beside, gaps - 1, start)

    def slope(self, i: int, j: int) -> float:
        """The derivative at sample i of the line through samples i and j."""
        h = self.t[j] - self.t[i]
        return (self.y[j] - self.y[i] * np.cos(h)) / np.sin(h)

    def error(self, i: int, j: int, t: float) -> float:
        """How far off the line through samples i and j may be at t."""
        return self.slack * (1 + 2 * abs(np.sin(t - self.t[i]) / np.sin(self.t[j] - self.t[i])))

    def meet(self, gap: int, first: int, last: int) -> tuple[float, float]:
        """Where the lines on both sides of a gap cross, and by how much they differ."""
        t, h = self.t[gap], self.t[gap + 1] - self.t[gap]
        y, slope = self.y[gap + 1], self.slope(gap + 1, last)
        value = self.y[gap] - (y * np.cos(h) - slope * np.sin(h))
        turn = self.slope(gap, first) - (y * np.sin(h) + slope * np.cos(h))
        ahead = np.mod(np.arctan2(-value, turn), np.pi)
        if ahead > (np.pi + h) / 2:
            ahead -= np.pi
        return t + ahead, float(np.hypot(value, turn))

    def proved(self, gap: int) -> bool:
        """Whether the lines on both sides of a gap have been checked by a third sample."""
        return (gap == 0 or bool(self.flat[gap - 1])) and (gap + 1 == len(self.flat) or bool(self.flat[gap + 1]))

    def reach(self, gap: int, first: int, last: int) -> float:
        """The shorter of the two lines beside a gap: what limits how well their crossing is known."""
        return float(min(self.t[gap] - self.t[first], self.t[last] - self.t[gap + 1]))

    def pin(self, gap: int, blurred: bool) -> None:
        self.kink[gap], self.blurred[gap] = True, blurred

    def arcs(self) -> list[slice]:
        """The samples between one pinned kink and the next."""
        cuts = np.r_[0, np.flatnonzero(self.kink) + 1, len(self.t)]
        return [slice(a, b) for a, b in pairwise(cuts)]

    def bent_arcs(self) -> np.ndarray:
        """Where a kink too small for single gaps may hide: the widest gap of each arc that is not flat as a whole."""
        middle = []
        for arc in self.arcs():
            t, y = self.t[arc], self.y[arc]
            if len(t) < 3:
                continue
            centre = t - (t[0] + t[-1]) / 2
            basis = np.column_stack([np.cos(centre), np.sin(centre)])
            off = y - basis @ np.linalg.lstsq(basis, y, rcond=None)[0]
            if np.abs(off).max() > 2 * self.slack:
                widest = np.argmax(np.diff(t))
                middle.append((t[widest] + t[widest + 1]) / 2)
        return np.array(middle)

    def crossings(self) -> np.ndarray:
        """The pinned kinks, each where the lines beside it cross."""
        gaps = np.flatnonzero(self.kink).tolist()
        ends = [0, *(gap + 1 for gap in gaps), len(self.t)]
        out = []
        for k, gap in enumerate(gaps):
            low, high = self.t[gap], self.t[gap + 1]
            first, last = ends[k], ends[k + 2] - 1
            at = self.meet(gap, first, last)[0] if first < gap and last > gap + 1 else (low + high) / 2
            out.append(min(max(at, low), high))
        return np.array(out)

    def sharpest_bend(self) -> tuple[float, float, float]:
        """The sample its two neighbours predict worst: its angle, the prediction, the answer."""
        t, y = self.t, self.y
        line = (y[:-2] * np.sin(t[2:] - t[1:-1]) + y[2:] * np.sin(t[1:-1] - t[:-2])) / np.sin(t[2:] - t[:-2])
        worst = int(np.argmax(np.abs(y[1:-1] - line))) + 1
        return float(t[worst]), float(line[worst - 1]), float(y[worst])
