"""Scores to be asked about: the tokens that ask whether each is above a threshold, and what the answers prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._errors import Evidence, TargetMismatch
from .bisect import Unbounded, bisect
from .lever import longest
from .one_bit import BLOCK_BYTES, lengths, logit_range, outweighs

if TYPE_CHECKING:
    from .sign import SignMeter

BLUR = 2.0**-6  # of what an answer may be uncertain by at worst: bisecting further than that is not worth it


class Probes:
    """Scores to be asked about: keys `keys[k]` against queries `queries[q]`, each turned to its side of the plane."""

    def __init__(self, meter: SignMeter, keys: np.ndarray, queries: np.ndarray, k: np.ndarray, q: np.ndarray):
        self.meter, self.k, self.q = meter, k, q
        on_key, on_query = keys @ meter.space.v, queries @ meter.space.v
        self.keys = keys * np.where(on_key < 0, -1.0, 1.0)[:, None]
        self.queries = queries * np.where(on_query < 0, 1.0, -1.0)[:, None]
        self.sign = np.where((on_key[k] < 0) == (on_query[q] < 0), -1.0, 1.0)  # of a^T W b in terms of these
        self.alpha, self.beta = np.abs(on_key)[k], np.abs(on_query)[q]
        self.key_length, self.query_length = np.linalg.norm(keys, axis=1)[k], np.linalg.norm(queries, axis=1)[q]
        bias = meter.key_bias
        pulls = np.zeros(len(keys)) if bias is None else self.keys @ bias.vector
        self.pull, self.pull_error = np.abs(pulls)[k], np.zeros(len(k)) if bias is None else bias.error(keys)[k]
        # On the side where the key bias pulls upwards there is a threshold for every score.
        self.side = np.where(pulls == 0, meter.side, np.sign(pulls))[k]

    def lengths(self, which: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        alpha, beta, pull = self.alpha[which], self.beta[which], self.pull[which]
        reach = longest(self.meter.oracle) / np.maximum(self.key_length[which], self.query_length[which])
        return lengths(tau, self.meter.product, alpha, beta, pull, reach)

    def tokens(self, which: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, kappa = (self.side[which] * length for length in self.lengths(which, tau))
        return rho[:, None] * self.keys[self.k[which]], kappa[:, None] * self.queries[self.q[which]]

    def above(self, which: np.ndarray, tau: np.ndarray) -> np.ndarray:
        meter, step = self.meter, max(1, BLOCK_BYTES // (16 * self.meter.oracle.dim))
        parts = [slice(start, start + step) for start in range(0, len(which), step)]
        yes = [outweighs(meter.oracle, meter.space.v, *self.tokens(which[part], tau[part])) for part in parts]
        return np.concatenate(yes) if yes else np.empty(0, bool)

    def bracket(self, center: np.ndarray, reach: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends that every score lies between, which is looked for around `center`."""
        try:
            lo, hi = bisect(lambda which, x: self.above(which, center[which] + x), reach, width)
        except Unbounded as error:
            raise self.refusal(error.which) from error
        return center + lo, center + hi

    def measure(self, reach: float, width: float) -> tuple[np.ndarray, np.ndarray]:
        """Every `a^T W b`, and how far off it may be."""
        count, everyone = len(self.k), np.arange(len(self.k))
        lo, hi = self.bracket(np.zeros(count), np.full(count, reach), np.maximum(width, BLUR * self.blur))
        middle = (lo + hi) / 2
        least, most = self.ends(everyone, lo)[0], self.ends(everyone, hi)[1]
        return self.sign * middle, np.maximum(most - middle, middle - least)

    @property
    def blur(self) -> np.ndarray:
        """By how much an answer about a score near 0 is uncertain."""
        least, most = self.ends(np.arange(len(self.k)), np.zeros(len(self.k)))
        return most - least

    def ends(self, which: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The least that a score may be which was found to be above `tau`, and the most if it was found to be below."""
        rho, kappa = self.lengths(which, tau)
        alpha, beta = rho * self.alpha[which], kappa * self.beta[which]
        key, query = rho * self.key_length[which], kappa * self.query_length[which]
        lower, upper = logit_range(self.meter.space, self.meter.oracle, key, query, alpha, beta)
        pull, error = rho * self.pull[which], rho * self.pull_error[which]
        return (lower - pull - error) / (rho * kappa), (upper - pull + error) / (rho * kappa)

    def refusal(self, which: int) -> TargetMismatch:
        key, query = (token[0] for token in self.tokens(np.array([which]), np.ones(1)))
        evidence = Evidence(
            "a shorter key has a smaller logit",
            np.stack([key + query, query]) + self.meter.space.origin,
            "expected an attention weight inside (0, 1) once the key is short enough",
            "0 or 1 at any length",
        )
        far = self.meter.space.shift
        beside = f", or its scores drown in rounding beside its bias, which is {far:.2g} |v|" if far > 0 else ""
        return TargetMismatch(f"the box is not a single attention head{beside}", evidence)
