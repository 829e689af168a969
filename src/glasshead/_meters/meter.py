"""What a meter is, and what it hands to a scheme: scores, and how far they may be off, one by one and together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit

from .._linalg import Frame, inside_frame, key_pairs, spectral_norm
from .._oracles import Oracle
from .._types import Float
from .one_row import Values
from .reading import TARGET_LOGIT


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
    """Nothing is known to be shared."""
    return Errors(np.linalg.norm(width, axis=1), np.empty((0, *width.shape)), np.zeros(width.shape[1]))


def side_by_side(parts: list[Errors]) -> Errors:
    """Of the same columns, seen by different keys."""
    own = np.sqrt(np.sum([part.own**2 for part in parts], axis=0))
    shared = np.concatenate([part.shared for part in parts], axis=2)
    return Errors(own, shared, np.concatenate([part.across for part in parts]))


def one_after_the_other(parts: list[Errors]) -> Errors:
    """Of different columns, seen by the same keys."""
    own = np.concatenate([part.own for part in parts])
    shared = np.concatenate([part.shared for part in parts], axis=1)
    return Errors(own, shared, np.sqrt(np.sum([part.across**2 for part in parts], axis=0)))


@dataclass(frozen=True)
class Readings:
    """Logits of query tokens and key tokens, each known within `width`, as read with keys shortened to `shrunk`."""

    q: Float[np.ndarray, "m d"]
    keys: Float[np.ndarray, "n d"]
    logits: Float[np.ndarray, "m n"]
    width: Float[np.ndarray, "m n"]
    shrunk: Float[np.ndarray, "m n"]


def split_errors(
    oracle: Oracle, values: Values, readings: Readings, alone: np.ndarray, of_signal: np.ndarray, of_swing: np.ndarray
) -> Errors:
    """Errors that many scores share, counted once: those of the bias and of v.

    Every logit is read against the same bias and the same v, so an adversary who spoils those spoils all logits in one
    way, not each in its own. To first order, with `signal = sigma(s) swing` and `rest = swing - signal`, one is off by

        (e - e_0 - q.dv) (1/signal + 1/rest) - key.dv / rest,

    where e is the error of its own answer, e_0 that of the bias and dv that of v. The entries of v were read one by
    one, and v once more along its own direction u, all against the same bias:

        step dv = P e_v + u e_1 - e_0 (P 1 + u),    P projecting across u.

    `alone` bounds what an answer itself adds to its signal, `of_signal` and `of_swing` all of their errors with nothing
    shared; where these say less than the width, that one counts.
    """
    q, keys, shrunk = readings.q, readings.keys, readings.shrunk
    swing, direction = shrunk * (keys @ values.v), values.v / np.linalg.norm(values.v)
    with np.errstate(divide="ignore", invalid="ignore"):
        signal, rest = swing * expit(readings.logits * shrunk), swing * expit(-readings.logits * shrunk)
        both = (1 / signal + 1 / rest) / shrunk
        per_unit = np.linalg.norm(q, axis=1)[:, None] * np.abs(both) + np.linalg.norm(keys, axis=1) / np.abs(rest)
        first = alone * np.abs(both) + values.rounding(oracle) * per_unit
        second = remainder(signal, of_signal) + remainder(rest, of_signal + of_swing)
        single = first + second / shrunk
        plain = single < readings.width
        both, per_rest = np.where(plain, both, 0.0), np.where(plain, 1 / rest, 0.0)
    single = np.where(plain, single, readings.width)

    def moved(error: np.ndarray) -> np.ndarray:
        """What an error of v does to the logits."""
        return -(q @ error)[:, None] * both - (keys @ error) * per_rest

    of_bias, along = values.bias_error(oracle), values.along_error(oracle) / values.step
    shared = np.stack([of_bias * (moved(values.per_bias) - both), along * moved(direction)])
    elsewhere = values.across_error(oracle) / values.step
    q, keys = (tokens - np.outer(tokens @ direction, direction) for tokens in (q, keys))
    own = np.linalg.norm(single, axis=1) + elsewhere * np.linalg.norm(q, axis=1) * np.linalg.norm(both, axis=1)
    return Errors(own, shared, elsewhere * spectral_norm(keys) * np.linalg.norm(per_rest, axis=0))


def remainder(part: np.ndarray, error: np.ndarray) -> np.ndarray:
    """What the logarithm of `part` may move beyond first order."""
    least = np.abs(part) - error
    with np.errstate(divide="ignore"):
        return np.where(least > 0, error**2 / (2 * np.square(least)), np.inf)


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
        if joint is not None:
            joint = replace(joint, own=joint.own[columns], shared=joint.shared[:, columns])
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
    rms = scale * float(np.sqrt(np.mean(scores**2)))
    if np.linalg.norm(scores) <= np.linalg.norm(noise):
        return 1.0
    if GOOD_ENOUGH[0] * TARGET_LOGIT <= rms <= GOOD_ENOUGH[1] * TARGET_LOGIT:
        return 1.0
    return GROWTH if GROWTH * rms < TARGET_LOGIT else TARGET_LOGIT / rms


def likely_sum(oracle: Oracle, noise: float) -> float:
    """How large a sum of d errors gets, bounded by `noise`: rounding errors, unlike a tolerance, are no adversaries."""
    return noise * min(1.0, 4 / np.sqrt(oracle.dim)) if oracle.exact else noise


Block = tuple[np.ndarray, np.ndarray]  # query directions and key directions, as `Meter.columns` takes them


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

    def blocks(self, blocks: list[Block]) -> Iterator[Scores]:
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

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A few keys for each direction in `A`, to measure it by whatever it is, and how to combine their scores."""
        return (A[:, None], np.ones((len(A), 1))) if self.axis is None else key_pairs(self.axis, A, rng)

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        """The keys that measure best where `W b` lies in the span of the columns of `Q`, exactly or nearly so."""
        if self.axis is None:
            return Frame(np.ascontiguousarray(Q.T), Q, 1.0)
        return inside_frame(self.axis, Q, rng, exact)
