"""How an answer is read: v and bias from one token, a logit from two.

One token alone is answered by `f([x]) = x . v + bias`. Of two, `[k + q ; q]`, the attention weight of the first is
`sigma(s)` with `s = k . (W q + key_bias)`, and the answer `f([q]) + sigma(s) k.v`: with v known that is an equation for
the logit s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from .._oracles import Oracle
from .._types import Float


@dataclass(frozen=True)
class Values:
    """`v` and `bias` as read with tokens of length `step`.

    Of k outputs `readout` makes the one that is measured, and `outputs` has v and the bias of each: what cancels in the
    one was answered, and is off, by as much as it was before.
    """

    v: np.ndarray
    bias: float
    step: float
    readout: np.ndarray | None = None
    outputs: tuple[Float[np.ndarray, "d k"], Float[np.ndarray, " k"]] | None = None
    ground: float = 0.0  # the largest term that cancels inside the box, where that is more than the bias,
    unsure: float = 0.0  # and by how much the bias may be off for being one at another origin
    along: bool = False  # whether v was read once more along its own direction

    @cached_property
    def _each(self) -> tuple[Float[np.ndarray, "d k"], Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """v and the bias of every output, and how much of an error there reaches the one that is measured."""
        if self.readout is None or self.outputs is None:
            return self.v[:, None], np.full(1, self.bias), np.ones(1)
        return *self.outputs, np.abs(self.readout)

    @property
    def backdrop(self) -> float:
        """The largest term that is there without a token: rounding and promises are relative to it."""
        _, bias, weights = self._each
        return max(float(np.abs(bias) @ weights), self.ground)

    @property
    def entries(self) -> Float[np.ndarray, " d"]:
        """How large the part of an answer may be that an entry of a token adds, outputs taken one by one."""
        v, _, weights = self._each
        return np.abs(v) @ weights

    @property
    def length(self) -> float:
        """How large an answer to a token of length 1 may be, outputs taken one by one and the bias left aside."""
        v, _, weights = self._each
        return float(np.linalg.norm(v, axis=0) @ weights)

    def sizes(self, q: Float[np.ndarray, "m d"], keys: Float[np.ndarray, "n d"], weight: np.ndarray) -> np.ndarray:
        """How large answers to `[k + q ; q]` are, the first token attended to with that `weight (m, n)`."""
        v, bias, weights = self._each
        parts = zip((bias + q @ v).T, (keys @ v).T, weights, strict=True)
        return sum(share * np.abs(at[:, None] + weight * full) for at, full, share in parts)  # type: ignore[return-value]

    def of(self, answers: np.ndarray) -> np.ndarray:
        return answers if self.readout is None else answers @ self.readout

    def size(self, answers: np.ndarray) -> np.ndarray:
        return np.abs(answers) if self.readout is None else np.abs(answers) @ np.abs(self.readout)

    def promise(self, oracle: Oracle, size: float | np.ndarray) -> float | np.ndarray:
        """How far a read-out answer of magnitude `size` may lie from the truth, rounding left aside."""
        spread = 1.0 if self.readout is None else float(np.abs(self.readout).sum())
        # The promise is relative to the truth, which may be larger than the answer.
        return (spread * oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol)

    def bias_error(self, oracle: Oracle) -> float:
        return float(self.promise(oracle, self.backdrop) + 2 * oracle.roundoff * self.backdrop) + self.unsure

    def entry_error(self, oracle: Oracle) -> float:
        """The largest error of an entry of v; that of all of v is at most `sqrt(d)` times as large."""
        largest, d = float(self.entries.max()), len(self.v)
        each = float(self.promise(oracle, largest * self.step + self.backdrop))
        entry = (
            each + self.bias_error(oracle) + one_row_rounding(oracle, largest, self.backdrop, self.step)
        ) / self.step
        if not self.along:
            return entry
        length = (self.along_error(oracle) + self.bias_error(oracle)) / self.step + self.rounding(oracle)
        return float(np.hypot(entry, length / np.sqrt(d)))

    def along_error(self, oracle: Oracle) -> float:
        """`step` times the error of v along itself, without that of the bias and rounding: for a v that was read once
        more along itself."""
        v, _, weights = self._each
        direction = self.v / np.linalg.norm(self.v)
        return float(self.promise(oracle, float(np.abs(direction @ v) @ weights) * self.step + self.backdrop))

    def across_error(self, oracle: Oracle) -> float:
        """`step` times the error of v across itself, without that of the bias and rounding."""
        return float(np.linalg.norm(self.promise(oracle, self.entries * self.step + self.backdrop)))

    @property
    def per_bias(self) -> np.ndarray:
        """How v moves with the bias it is read against."""
        u = self.v / np.linalg.norm(self.v)
        return -(1 - u.sum() * u + u) / self.step

    def rounding(self, oracle: Oracle) -> float:
        """A bound on what rounding does to v."""
        each = one_row_rounding(oracle, self.length, self.backdrop, self.step)
        return float(np.sqrt(len(self.v) + 1) * each / self.step)


def one_row_rounding(oracle: Oracle, largest: float, backdrop: float, step: float) -> float:
    """A dot product of length d errs by at most about d ulp of its terms."""
    return oracle.roundoff * ((oracle.dim + 8) * largest * step + 2 * backdrop)


def outputs_error(oracle: Oracle, v: np.ndarray, bias: np.ndarray, step: float) -> tuple[float, float]:
    """Bounds on `||v_hat - v||` and on the largest error of the bias, over all outputs."""
    largest, backdrop = float(np.abs(v).max()), float(np.abs(bias).max())
    whole = Values(np.full(1, largest), backdrop, step)
    return float(np.sqrt(v.size) * whole.entry_error(oracle)), whole.bias_error(oracle)


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
            break
        shrink *= 1.5 / np.clip(np.abs(seen), 3.0, 20 * saturated)
        reading = read(q[row], (shrink[:, None] * keys[row, col])[:, None])
        seen, low, high = (end[:, 0] / shrink for end in reading)
        if guaranteed:
            low, high = np.maximum(lo[row, col], low), np.minimum(hi[row, col], high)
        s[row, col], lo[row, col], hi[row, col] = np.clip(seen, low, high), low, high
        shrunk[row, col] = np.where(s[row, col] == seen, shrink, 0.0)
        still = beyond(reading, saturated)[:, 0]
        row, col, shrink, seen = row[still], col[still], shrink[still], reading[0][still, 0]
    return ((s, lo, hi), shrunk) if len(row) == 0 else refuse(q[row[0]], keys[row[0], col[0]])
