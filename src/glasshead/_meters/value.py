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

from .._errors import MIXED_KEYS, SHORTER_KEY, WEIGHT_RANGE, Evidence, TargetMismatch
from .._limits import OVERHEAD
from .._linalg import NO_FRAME, Frame, rms
from .._oracles import HEADROOM, Oracle
from .._types import Float
from .meter import Errors, Meter, Scores, likely_sum, one_after_the_other, tuning
from .reading import Interval, Values, logit, read_logits
from .shared_errors import LogitReadings, split_errors

BLOCK_BYTES = 16 * 2**20  # tokens built at a time

CLUTTERED = 0.1  # of what a key token moves an answer by: a query token that spoils more of it has no room to be longer
RATIO = 2.0**12  # rho / kappa where nothing asks for more: kappa b.v is then no rounding problem


def lever(product: float, oracle: Oracle, values: Values) -> tuple[float, float]:
    """`rho, kappa` with the given product, `rho + kappa` within reach, `rho` as long as bias and tolerance ask for."""
    v_norm = float(np.linalg.norm(values.v))
    wanted = HEADROOM * values.backdrop / v_norm
    if values.promise(oracle, 0.0) > 0:
        wanted = np.inf
    rho = max(np.sqrt(product * RATIO), wanted, oracle.shortest)
    return within_reach(rho, product / rho if np.isfinite(rho) else 0.0, product, oracle.reach)


def within_reach(rho: float, kappa: float, product: float, reach: float) -> tuple[float, float]:
    if rho + kappa <= reach:
        return rho, kappa
    if 4 * product >= reach**2:
        return reach / 2, reach / 2
    rho = (reach + np.sqrt(reach**2 - 4 * product)) / 2
    return rho, product / rho


def largest_product(oracle: Oracle) -> float:
    return oracle.reach**2 / 4


@dataclass(frozen=True)
class ValueMeter(Meter):
    """Measures scores of one head through value answers, with key tokens of length `rho` and query tokens of `kappa`.

    `keys` and `queries` are the frames in which it measures best; `frame(Q)` is one for a subspace.
    """

    oracle: Oracle
    values: Values
    keys: Frame
    queries: Frame = NO_FRAME
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
    def axis(self) -> np.ndarray:
        return self.values.v

    def expect(self, scores: int) -> None:
        self.oracle.expect(scores + OVERHEAD)

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> ValueMeter:
        """The meter with query tokens rescaled so that these scores would have had logits of rms `TARGET_LOGIT`."""
        factor = tuning(scores, noise, self.rho * self.kappa)
        return self.at(self.rho, min(self.kappa * factor, max(self.kappa, self.oracle.reach - self.rho)))

    def suited(self, keys: np.ndarray) -> ValueMeter:
        """The meter with its lever shortened, if need be, to what these keys see of the key bias."""
        if self.key_bias is None:
            return self
        if (seen := rms(keys @ self.key_bias)) * self.rho <= 1:
            return self
        rho = 1.0 / seen
        kappa = min(self.kappa * self.rho / rho, CLUTTERED * rho * rms(keys @ self.values.v) / self.off_each)
        return self.at(rho, min(kappa, self.oracle.reach - rho))

    @property
    def off_each(self) -> float:
        """How far an answer may be off for every unit of its query token's length, by rounding and the error of v."""
        of_v = float(np.sqrt(self.oracle.dim)) * self.values.entry_error(self.oracle)
        return of_v + 2 * (self.oracle.dim + 8) * self.oracle.roundoff * self.values.length

    def likely(self, noise: float) -> float:
        return likely_sum(self.oracle, noise)

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
            logits, shrunk = self.read_logits(q, np.broadcast_to(keys, (len(q), n, d)))
            offset = 0.0 if self.key_bias is None else keys @ self.key_bias
            t[part], lo[part], hi[part] = ((end - offset) / scale for end in logits)
            if self.splits and A.ndim == 2:
                joint.append(self.errors(q, keys, logits, shrunk).over(scale))
        return Scores(t, lo, hi, one_after_the_other(joint) if joint else None, self.drift, self.rounding)

    @property
    def splits(self) -> bool:
        """Whether errors come from a promise, which an adversary may use up, and are worth taking apart."""
        return self.values.along and self.values.ground == 0

    def errors(self, q: np.ndarray, keys: np.ndarray, logits: Interval, shrunk: np.ndarray) -> Errors:
        """How far logits read with these query tokens, and key tokens as long as `shrunk` says, are off together."""
        s, lo, hi = logits
        norms = np.linalg.norm(q, axis=1)[:, None], shrunk * np.linalg.norm(keys, axis=1)
        size = self.values.sizes(q, keys, shrunk * expit(s * shrunk))
        readings = LogitReadings(q, keys, s, np.maximum(hi - s, s - lo), shrunk)
        return split_errors(self.oracle, self.values, readings, self._alone(size, *norms), *self._errors(size, *norms))

    def read_logits(self, q: Float[np.ndarray, "m d"], keys: Float[np.ndarray, "m n d"]) -> tuple[Interval, np.ndarray]:
        """`k.(W q + key_bias)` for query tokens q and key tokens k, with its interval, and how much k was shortened."""
        return read_logits(self.read, self.refuse_saturation, q, keys, self.saturated, guaranteed=True)

    def refuse_saturation(self, q: np.ndarray, key: np.ndarray) -> NoReturn:
        evidence = Evidence(
            SHORTER_KEY,
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
        of_v = np.sqrt(d) * values.entry_error(self.oracle)
        answer = self._alone(size, q_norm, key_norm) + values.bias_error(self.oracle) + q_norm * of_v
        return answer, key_norm * (of_v + u * (d + 2) * values.length)

    def _alone(self, size, q_norm, key_norm) -> np.ndarray:
        """What of the signal's error comes with an answer of that size alone."""
        values, u, d = self.values, self.oracle.roundoff, self.oracle.dim
        rounding = u * ((d + 8) * (key_norm + 2 * q_norm) * values.length + 4 * values.backdrop)
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


LOOSE_LOGIT = 1e-4  # of a logit: several heads are hardly ever that close to one, and noise nobody promised often is
HIDDEN_KEY = 1e2  # two random keys both see that much less than usual of a vector once in 15,000
MIXTURE_KEYS = 3  # keys at one query token: two, and their mixture


def mix_third_key(keys: Float[np.ndarray, "n d"]) -> float:
    """Makes the third key the sum of the first two times the number returned, so that it is as long as they are."""
    both = keys[0] + keys[1]
    share = float(np.linalg.norm(keys[:2], axis=1).mean() / np.linalg.norm(both))
    keys[2] = share * both
    return share


def refuse_mixed_keys(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, share: float, logits: Interval) -> None:
    """Refuses a box whose logits for the first three keys, at the token q, no head could have: they are linear in the
    key, so that of a mixture of keys is the mixture of theirs."""
    s, lo, hi = (end.ravel()[:MIXTURE_KEYS] for end in logits)
    least, most = share * (lo[0] + lo[1]), share * (hi[0] + hi[1])
    off = max(lo[2] - most, least - hi[2])
    allowed = (1 + 2 * share) * mixture_rounding(meter, q, keys, s) + LOOSE_LOGIT * max(1.0, float(np.abs(s).max()))
    if off > allowed:
        evidence = Evidence(
            MIXED_KEYS,
            np.stack([keys[2] + q, q]),
            f"expected a logit of {share * (s[0] + s[1]):.6g}, from {least - allowed:.6g} to {most + allowed:.6g}",
            f"{s[2]:.6g}",
        )
        less = "its answers are less accurate than promised (then say so with tolerance= or rtol=)"
        raise TargetMismatch(f"the box is not a single attention head, or {less}", evidence)


def mixture_rounding(meter: ValueMeter, q: np.ndarray, keys: np.ndarray, s: np.ndarray) -> float:
    """How far rounding inside the box may move such a logit: as for a key vector that hides from the first two keys."""
    d, length = meter.oracle.dim, float(np.linalg.norm(keys[:2], axis=1).min())
    size = HIDDEN_KEY * np.sqrt(d) * float(np.abs(s[:2]).max()) / length
    size += 0.0 if meter.key_bias is None else float(np.linalg.norm(meter.key_bias))
    return 4 * (d + 4) * meter.oracle.roundoff * (length + float(np.linalg.norm(q))) * size
