"""What a meter is, and what it hands to a scheme: scores, and how far they may be off, one by one and together; and the
scale that it reads at: how long tokens are for logits of about 1, which are read best."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from .._linalg import Frame, inside_frame, key_pairs, rms
from .._oracles import Oracle
from .._types import Float
from .reading import Interval, beyond, stands_out


@dataclass(frozen=True)
class Errors:
    """How far the n scores of each of m columns may be off together.

    The errors of column j are `x_j + y_j + sum_k theta_k shared[k, j]` with `||x_j|| <= own[j]`, `|theta_k| <= 1`, the
    same theta for every column, and `sum_j y_ji^2 <= across[i]^2 z_i^2` for some z with `||z|| <= 1`.
    """

    own: Float[np.ndarray, " m"]
    shared: Float[np.ndarray, "p m n"]
    across: Float[np.ndarray, " n"]

    def over(self, scale: float) -> Errors:
        return Errors(self.own / scale, self.shared / scale, self.across / scale)

    def through(self, keys: Frame, queries: Frame | None = None) -> float:
        """A bound on the Frobenius norm of what becomes of the errors when scores are turned into vectors."""
        gain = keys.gain if queries is None else keys.gain * queries.gain
        together = keys.inverse @ self.shared.transpose(0, 2, 1)
        if queries is not None:
            together = together @ queries.inverse.T
        apart = np.linalg.norm(self.own) + self.across.max(initial=0.0)
        return float(gain * apart + np.linalg.norm(together, axis=(1, 2)).sum())


def each_its_own(width: Float[np.ndarray, "m n"]) -> Errors:
    """Errors of which nothing is known to be shared."""
    return Errors(np.linalg.norm(width, axis=1), np.empty((0, *width.shape)), np.zeros(width.shape[1]))


def side_by_side(parts: list[Errors]) -> Errors:
    """The errors of the same columns, seen by different keys."""
    own, shared = np.sqrt(np.sum([part.own**2 for part in parts], axis=0)), [part.shared for part in parts]
    return Errors(own, np.concatenate(shared, axis=2), np.concatenate([part.across for part in parts]))


def one_after_the_other(parts: list[Errors]) -> Errors:
    """The errors of different columns, seen by the same keys."""
    own, shared = np.concatenate([part.own for part in parts]), [part.shared for part in parts]
    across = np.sqrt(np.sum([part.across**2 for part in parts], axis=0))
    return Errors(own, np.concatenate(shared, axis=1), across)


@dataclass(frozen=True)
class Scores:
    """Scores `a^T W b` of m columns with n keys, the interval each is known to lie in, and how far off they are
    together where that is known.

    The intervals leave out two things: `drift`, an error of `W b` that is the same for every b, and `rounding`, which
    says how far rounding inside the box can have moved a score of unit vectors, given the norm of W.
    """

    t: Float[np.ndarray, "m n"]
    lo: Float[np.ndarray, "m n"]
    hi: Float[np.ndarray, "m n"]
    joint: Errors | None = None
    drift: float = 0.0
    rounding: Callable[[float], float] = field(default=lambda W_norm: 0.0)

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, columns: slice) -> Scores:
        joint = self.joint
        joint = joint and replace(joint, own=joint.own[columns], shared=joint.shared[:, columns])
        return replace(self, t=self.t[columns], lo=self.lo[columns], hi=self.hi[columns], joint=joint)

    @property
    def halfwidth(self) -> np.ndarray:
        return np.maximum(self.hi - self.t, self.t - self.lo)

    @property
    def errors(self) -> Errors:
        return self.joint or each_its_own(self.halfwidth)


GROWTH = 8.0  # the most a scale changes at a time: scores that are all but zero say nothing about the ones to come
GOOD_ENOUGH = 0.8, 1.15  # of the logits wanted: an error of the key bias cancels better between columns of one scale


def tuning(scores: np.ndarray, noise: np.ndarray | float, scale: float) -> float:
    """The factor for a scale at which such scores have logits `scale` times as large: 1 where it is good enough, or
    where they are no larger than the noise."""
    typical = scale * rms(scores)
    if np.linalg.norm(scores) <= np.linalg.norm(noise):
        return 1.0
    if GOOD_ENOUGH[0] * TARGET_LOGIT <= typical <= GOOD_ENOUGH[1] * TARGET_LOGIT:
        return 1.0
    return GROWTH if GROWTH * typical < TARGET_LOGIT else TARGET_LOGIT / typical


def likely_sum(oracle: Oracle, noise: float) -> float:
    """How large a sum of d errors gets, bounded by `noise`: rounding errors, unlike a tolerance, are no adversaries."""
    return noise * min(1.0, 4 / np.sqrt(oracle.dim)) if oracle.exact else noise


Directions = tuple[np.ndarray, np.ndarray]  # query directions and key directions, as `Meter.columns` takes them


class Meter(ABC):
    """Turns answers into scores. Every scheme works on every meter.

    `keys` and `queries` span all directions, as keys and as queries that are measured best. `in_rounds` is for a meter
    that asks thousands of scores in as many rounds of questions as one.
    """

    keys: Frame
    queries: Frame
    in_rounds: ClassVar[bool] = False

    @property
    def dim(self) -> int:
        """How many coordinates a key direction has."""
        return len(self.keys)

    @property
    @abstractmethod
    def axis(self) -> Float[np.ndarray, " d"] | None:
        """Keys are seen by their part along this direction; None where all are seen alike."""

    @abstractmethod
    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""

    def read_blocks(self, blocks: list[Directions]) -> Iterator[Scores]:
        """The scores of several blocks, one after the other unless rounds can be saved."""
        return (self.columns(B, A) for B, A in blocks)

    @abstractmethod
    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> Meter:
        """The meter at the scale that suits scores like these, known up to `noise`."""

    def suited(self, keys: np.ndarray) -> Meter:
        """The meter at the scale that suits these keys."""
        return self

    def sharper(self) -> Meter:
        """The meter at its finest, for a few scores on which a bound on everything else hangs."""
        return self

    @abstractmethod
    def likely(self, noise: float) -> float:
        """How large a sum of many errors gets that is bounded by `noise`, where no adversary chooses them."""

    def expect(self, scores: int) -> None:  # noqa: B027
        """Say for progress bars that so many scores are left to read, if this meter knows what they take."""

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A few keys for each direction in `A`, to measure it by whatever it is, and how to combine their scores."""
        return (A[:, None], np.ones((len(A), 1))) if self.axis is None else key_pairs(self.axis, A, rng)

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        """The keys that measure best where `W b` lies in the span of the columns of `Q`, exactly or nearly so."""
        if self.axis is None:
            return Frame(np.ascontiguousarray(Q.T), Q, 1.0)
        return inside_frame(self.axis, Q, rng, exact)


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
        typical = rms(np.append(size / scale, looks))  # per unit of scale
        return min(cap, target / typical) if np.any(stands_out(interval)) else scale
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
