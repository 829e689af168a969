"""Errors that many scores share, since all are read against the same bias and the same v: counted once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .._linalg import spectral_norm
from .._oracles import Oracle
from .._types import Float
from .meter import Errors
from .reading import Values


@dataclass(frozen=True)
class LogitReadings:
    """Logits of query tokens and key tokens, each known within `width`, as read with keys shortened to `shrunk`."""

    q: Float[np.ndarray, "m d"]
    keys: Float[np.ndarray, "n d"]
    logits: Float[np.ndarray, "m n"]
    width: Float[np.ndarray, "m n"]
    shrunk: Float[np.ndarray, "m n"]


def split_errors(
    oracle: Oracle,
    values: Values,
    readings: LogitReadings,
    alone: np.ndarray,
    of_signal: np.ndarray,
    of_swing: np.ndarray,
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
