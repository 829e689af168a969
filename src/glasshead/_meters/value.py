"""How a real-valued answer becomes a score.

Send `[rho a + kappa b ; kappa b]`. The softmax over two tokens is a sigmoid, so the answer is
`bias + kappa b.v + sigma(s) rho a.v` with `s = rho a.(kappa W b + key_bias)`: everything but s is known, and
`a^T W b = (s - rho a.key_bias) / (rho kappa)`. An error of the answer costs `1/(rho a.v)`, so long keys are a lever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from scipy.special import expit

from .._errors import WEIGHT_RANGE, Evidence, TargetMismatch
from .._oracles import Oracle
from .._types import Float
from .frame import NOTHING, Frame, inside, pairs
from .logit import TARGET, Interval, beyond, logit
from .meter import Errors, Readings, Scores, one_after_the_other, split_errors
from .reading import Values

BLOCK_BYTES = 16 * 2**20  # tokens built at a time
BATCH = 2**15  # scores asked for between two looks at what is known
CAREFUL = 64  # columns up to which each is tested for adding anything to those before it
MAX_REASKS = 20  # rounds of asking saturated scores again, each at a fraction of the scale
GOOD_ENOUGH = 0.8, 1.15
OUTLIER = 2.5  # times sqrt(n): a score that much less certain than its n neighbours would spoil them, so is asked again


@dataclass(frozen=True)
class ValueMeter:
    """Measures scores of one head through value answers, with key tokens of length `rho` and query tokens of `kappa`.

    `keys` and `queries` are the frames in which it measures best; `frame(Q)` is one for a subspace.
    """

    oracle: Oracle
    values: Values
    keys: Frame
    queries: Frame = NOTHING
    rho: float = 1.0
    kappa: float = 1.0
    key_bias: np.ndarray | None = None
    key_bias_error: float = 0.0
    shift: float = 0.0  # how far the origin was moved,
    clutter: float = 0.0  # and how large the terms are that cancel there

    def at(self, rho: float, kappa: float) -> ValueMeter:
        return replace(self, rho=rho, kappa=kappa)

    @property
    def saturated(self) -> float:
        """Beyond this score a sigmoid has lost three tenths of its digits: ask again with a shorter key."""
        return max(6.5, -0.3 * np.log(self.oracle.roundoff))

    @property
    def drift(self) -> float:
        """The error of `W b` that is the same for every b: that of the key bias, seen at this scale."""
        return self.key_bias_error / self.kappa

    @property
    def careful(self) -> int:
        return CAREFUL

    @property
    def batch(self) -> int:
        return BATCH

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0, growth: float = 8.0) -> ValueMeter:
        """The meter with query tokens rescaled so that these scores would have had logits of rms `TARGET`.

        They grow by `growth` at most: scores that are all but zero say nothing about the ones to come. A scale that is
        good enough stays: an error of the key bias cancels better between columns of the same scale.
        """
        rms = self.rho * self.kappa * float(np.sqrt(np.mean(scores**2)))
        if np.linalg.norm(scores) <= np.linalg.norm(noise):
            return self
        if GOOD_ENOUGH[0] * TARGET <= rms <= GOOD_ENOUGH[1] * TARGET:
            return self
        factor = growth if growth * rms < TARGET else TARGET / rms
        return self.at(self.rho, min(self.kappa * factor, max(self.kappa, self.oracle.reach - self.rho)))

    def suited(self, keys: np.ndarray) -> ValueMeter:
        """The meter with its lever shortened, if need be, to what these keys see of the key bias."""
        if self.key_bias is None:
            return self
        seen = float(np.sqrt(np.mean((keys @ self.key_bias) ** 2)))
        rho = min(self.rho, 1.0 / seen) if seen > 0 else self.rho
        return self.at(rho, min(self.kappa * self.rho / rho, self.oracle.reach - rho))

    def sharper(self) -> ValueMeter:
        """The same meter: a real number says all it can at once."""
        return self

    def likely(self, noise: float) -> float:
        """Rounding errors are no adversaries: a sum of d of them stays far below its bound. A tolerance may be one."""
        if not self.oracle.exact:
            return noise
        return noise * min(1.0, 4 / np.sqrt(self.oracle.dim))

    def pairs(self, A: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two keys for each direction in `A`, to measure it by whatever it is, and how to combine their scores."""
        return pairs(self.values.v, A, rng)

    def frame(self, Q: np.ndarray, rng: np.random.Generator, exact: bool = True) -> Frame:
        """The keys that measure best where `W b` lies in the span of the columns of `Q`, exactly or nearly so."""
        return inside(self.values.v, Q, rng, exact)

    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
        m, d = B.shape
        n = A.shape[-2]
        t, lo, hi = np.empty((3, m, n))
        joint: list[Errors] = []
        width = max(1, BLOCK_BYTES // max(1, 16 * n * d))
        for start in range(0, m if n else 0, width):
            part = slice(start, min(m, start + width))
            keys = self.rho * (A if A.ndim == 2 else A[part])
            q, scale = self.kappa * B[part], self.rho * self.kappa
            logits, shrunk = self.logits(q, np.broadcast_to(keys, (len(q), n, d)))
            offset = 0.0 if self.key_bias is None else keys @ self.key_bias
            t[part], lo[part], hi[part] = ((end - offset) / scale for end in logits)
            if self.splits and A.ndim == 2:
                joint.append(self.errors(q, keys, logits, shrunk).over(scale))
        return Scores(t, lo, hi, one_after_the_other(joint) if joint else None)

    @property
    def splits(self) -> bool:
        """Whether errors come from a promise, which an adversary may use up, and are worth taking apart."""
        return self.values.along and self.values.ground == 0

    def errors(self, q: np.ndarray, keys: np.ndarray, logits: Interval, shrunk: np.ndarray) -> Errors:
        """How far logits read with these query tokens, and key tokens as long as `shrunk` says, are off together."""
        s, lo, hi = logits
        swing = shrunk * (keys @ self.values.v)
        norms = np.linalg.norm(q, axis=1)[:, None], shrunk * np.linalg.norm(keys, axis=1)
        size = np.abs(self.values.bias + (q @ self.values.v)[:, None] + swing * expit(s * shrunk))
        readings = Readings(q, keys, s, np.maximum(hi - s, s - lo), shrunk)
        return split_errors(self.oracle, self.values, readings, self._alone(size, *norms), *self._errors(size, *norms))

    def logits(self, q: Float[np.ndarray, "m d"], keys: Float[np.ndarray, "m n d"]) -> tuple[Interval, np.ndarray]:
        """`k.(W q + key_bias)` for query tokens `q (m, d)` and key tokens `k` in `keys (m, n, d)`, with its interval.

        Logits are linear in the key: one that saturates is asked again with the key shortened, and scaled back. Also
        says how much shorter the key was, or 0 where the logit comes from more than one reading.
        """
        s, lo, hi = interval = self.read(q, keys)
        width = hi - lo
        outlier = OUTLIER * np.sqrt(max(16, s.shape[1])) * np.median(width)
        row, col = np.nonzero(beyond(interval, self.saturated) | (width > outlier) & (np.abs(s) > 3))
        shrunk = np.ones_like(s)
        shrink, seen = np.ones(len(row)), s[row, col]
        for _ in range(MAX_REASKS):
            if len(row) == 0:
                return (s, lo, hi), shrunk
            shrink *= 1.5 / np.clip(np.abs(seen), 3.0, 20 * self.saturated)
            reading = self.read(q[row], (shrink[:, None] * keys[row, col])[:, None])
            seen, low, high = (end[:, 0] / shrink for end in reading)
            # Both readings hold, so the logit lies in both intervals.
            lo[row, col], hi[row, col] = np.maximum(lo[row, col], low), np.minimum(hi[row, col], high)
            s[row, col] = np.clip(seen, lo[row, col], hi[row, col])
            shrunk[row, col] = np.where(s[row, col] == seen, shrink, 0.0)
            still = beyond(reading, self.saturated)[:, 0]
            row, col, shrink, seen = row[still], col[still], shrink[still], (seen * shrink)[still]
        return self.refuse_saturation(q[row[0]], keys[row[0], col[0]])

    def refuse_saturation(self, q: np.ndarray, key: np.ndarray) -> NoReturn:
        evidence = Evidence(
            "a shorter key has a smaller logit",
            np.stack([key + q, q]),
            "expected an attention weight inside (0, 1) once the key is short enough",
            "0 or 1 at any length",
        )
        raise TargetMismatch("the box is not a single attention head", evidence)

    def read(self, q: Float[np.ndarray, "m d"], keys: Float[np.ndarray, "m n d"]) -> Interval:
        """The logit that each key token of `keys (m, n, d)` gains over the query token `q (m, d)`, and its interval."""
        m, n, d = keys.shape
        X = np.empty((m, n, 2, d))
        np.add(keys, q[:, None], out=X[:, :, 0])
        X[:, :, 1] = q[:, None]
        X = X.reshape(m * n, 2, d)
        answers = self.oracle(X)
        y = self.values.of(answers).reshape(m, n)
        shared = keys[0] if keys.strides[0] == 0 else keys  # one set of keys for all queries: look at it once
        swing = shared @ self.values.v
        signal = y - (self.values.bias + q @ self.values.v)[:, None]
        flip = np.where(swing < 0, -1.0, 1.0)
        size = np.reshape(self.values.size(answers), (m, -1))
        errors = self._errors(size, np.linalg.norm(q, axis=-1)[:, None], np.linalg.norm(shared, axis=-1))
        interval, impossible = logit(signal * flip, np.broadcast_to(swing * flip, signal.shape), *errors)
        if impossible.any():
            self._refuse(impossible, signal / swing, X)
        return interval

    def _errors(self, size, q_norm, key_norm) -> tuple[np.ndarray, np.ndarray]:
        """How far the signal and its full swing may be off: the promise, rounding, and the errors of v and bias."""
        values, u, d = self.values, self.oracle.roundoff, self.oracle.dim
        v_norm, of_v = np.linalg.norm(values.v), np.sqrt(d) * values.entry_error(self.oracle)
        answer = self._alone(size, q_norm, key_norm) + values.bias_error(self.oracle) + q_norm * of_v
        return answer, key_norm * (of_v + u * (d + 2) * v_norm)

    def _alone(self, size, q_norm, key_norm) -> np.ndarray:
        """What of the signal's error comes with an answer of that size alone."""
        values, u, d = self.values, self.oracle.roundoff, self.oracle.dim
        rounding = u * ((d + 8) * (key_norm + 2 * q_norm) * np.linalg.norm(values.v) + 4 * values.backdrop)
        return values.promise(self.oracle, size) + rounding

    def _refuse(self, impossible, alpha, X) -> NoReturn:
        where = np.flatnonzero(impossible)[0]
        evidence = Evidence(
            WEIGHT_RANGE,
            X[where],
            "expected an answer between those of its two tokens",
            f"one that asks for a weight of {alpha.reshape(-1)[where]:.6g}",
        )
        raise TargetMismatch("the box is not a single attention head", evidence)

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score `a^T W b` of unit vectors, given the size of W.

        The box rounds `k = W q + key_bias`, which both tokens share, and then `x.k` for each of the two tokens x.
        """
        size = self.kappa * W_norm + (0.0 if self.key_bias is None else float(np.linalg.norm(self.key_bias)))
        ulps = 4 * (self.oracle.dim + 4) * self.oracle.roundoff
        token = self.rho + self.kappa + self.shift
        return ulps * (self.rho * self.clutter + token * size) / (self.rho * self.kappa)
