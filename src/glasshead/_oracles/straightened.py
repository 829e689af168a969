"""A head in front of a network that is known, as a plain head: the network is undone, answer by answer.

A two-row query `[q + k ; q]` is answered by `g(q + alpha k)`, where g is the network and alpha the attention weight.
With g known that is one equation for alpha, piecewise linear, and `q.v + alpha k.v` is what a plain head would have
answered, for any v one likes. One query per score, where `f(X) - f(-X)` takes two, and no need for `A w != 0` or for a
head without key bias.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from .._errors import NotIdentifiable
from .._linalg import LEAST_DIVISOR, norms, unit
from .._models import Network
from .._types import Float
from .base import Oracle, Wrapper

EDGE_WEIGHT = 0.02  # weights below this, or above 1 less this, are better seen with the opposite key
TRIED_DIRECTIONS = 256  # directions that tell how much the network hides of a key
BLOCK_NUMBERS = 2**22  # numbers at a time
FITS = 1e-9  # of the terms that the network adds up
SAME_WEIGHT = 1e-6  # weights from the two keys that differ by less are one
LOST_WEIGHT = 1e-4  # a weight that rounding could move by more is lost
# Times the distance at which neurons bend: from there the network is linear but for a small part. Where scores of keys
# as long as that are saturated, a key bias being large say, the lesser one is left.
FAR_OUT, LESS_FAR_OUT = 256.0, 16.0
LEAST_SHOWN = 1e-6  # of what the network adds up: keys that show less are too few to matter
FACTORS = (1 / 8, 8.0, 1 / 64, 64.0, 512.0)  # by which keys are shortened or lengthened where the network is flat
OTHER_KEYS = 3  # times in a row that keys are lengthened or shortened before a token is given up
NO_WEIGHT = 2.0  # for a meter to refuse


class Flat(NotIdentifiable):
    """The network does not show the scores of some token."""

    def __init__(self, q: np.ndarray):
        super().__init__(
            f"the network is flat around a token of norm {np.linalg.norm(q):.3g}, which hides its scores; "
            'family="any-network" looks for tokens where it is not'
        )


class Straightened(Wrapper):
    """The plain head with the same scores and with `values` for v, seen through a known network.

    One token alone is answered without asking. Of the two keys k and -k, whose weights add up to 1, the one that shows
    better through the network is sent.
    """

    def __init__(
        self, inner: Oracle, network: Network, rng: np.random.Generator, error: float = 0.0, far_out: float = FAR_OUT
    ):
        super().__init__(inner)
        self.network = network
        directions = unit(rng.standard_normal((TRIED_DIRECTIONS, inner.dim)))
        self.values = steepest_direction(network, max(1.0, far_out * network.farthest_kink) * directions)
        self.shortest = far_out * network.farthest_kink
        keys = unit(self.values + unit(directions - np.outer(directions @ self.values, self.values)))
        length = max(1.0, self.shortest)
        shown = [
            network.steepness(np.zeros_like(keys), sign * length * keys, EDGE_WEIGHT) / length for sign in (1.0, -1.0)
        ]
        # Rounding errs by so much of the terms that the network adds up; a key shows by what is left of them.
        louder = float(1 / np.maximum(np.maximum(*shown).min(), LEAST_SHOWN * network.terms(keys).max()))
        self._error = inner.roundoff + error
        self._roundoff = float(self._error * network.terms(keys).max() * louder)
        self.tolerance, self.rtol = louder * inner.tolerance, louder * inner.rtol

    @property
    def roundoff(self) -> float:
        return self._roundoff

    def __call__(self, X: Float[np.ndarray, "B N d"]) -> Float[np.ndarray, " B"]:
        if X.shape[1] == 1:
            return X[:, 0] @ self.values
        if X.shape[1] > 2:
            raise ValueError(
                f"expected sequences of one or two tokens, got {X.shape[1]}: only those can be straightened"
            )
        q = X[:, 1]
        keys = X[:, 0] - q
        block = max(1, BLOCK_NUMBERS // (8 * max(1, len(self.network.w))))
        weights = [self._read_weights(q[i : i + block], keys[i : i + block]) for i in range(0, len(X), block)]
        alpha = np.concatenate(weights) if weights else np.empty(0)
        return q @ self.values + alpha * (keys @ self.values)

    def _read_weights(self, q: np.ndarray, keys: np.ndarray, left: int = OTHER_KEYS) -> np.ndarray:
        """The attention weight of the first token of `[q + k ; q]`, below 0 or above 1 where no weight fits."""
        there, back = (self.network.steepness(q, sign * keys, EDGE_WEIGHT) for sign in (1.0, -1.0))
        sign = np.where(there >= back, 1.0, -1.0)
        sent = sign[:, None] * keys
        answers = self.inner(np.stack([q + sent, q], axis=1))
        alpha = self.network.solve(q, sent, answers)
        small, both_ways = ~(alpha >= EDGE_WEIGHT), np.minimum(there, back) > 0
        for i in np.flatnonzero((np.maximum(there, back) == 0) | small & ~both_ways):
            alpha[i] = self._read_either(q[i], sent[i], answers[i])
        if (small & both_ways).any():
            alpha[small & both_ways] = self._read_from_the_other_end(q[small & both_ways], sent[small & both_ways])
        alpha = self._rounded(alpha, q, sent, np.maximum(there, back))
        flat = np.isnan(alpha)
        if flat.any():
            alpha[flat] = self._read_with_other_keys(q[flat], sent[flat], left)
        return np.where(sign > 0, alpha, 1 - alpha)

    def _read_from_the_other_end(self, q: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Small weights, for which the network is near the kinks that it has around q, as large ones of -k."""
        return 1 - self.network.solve(q, -keys, self.inner(np.stack([q - keys, q], axis=1)))

    def _read_with_other_keys(self, q: np.ndarray, keys: np.ndarray, left: int) -> np.ndarray:
        """Weights that leave the network on a flat piece, from longer or shorter keys: scores are linear in the key."""
        if left == 0:
            raise Flat(q[0])
        weights = np.full(len(q), np.nan)
        for factor in FACTORS:
            longer = factor * keys
            shown = np.maximum(*(self.network.steepness(q, sign * longer, EDGE_WEIGHT) for sign in (1.0, -1.0))) > 0
            now = np.isnan(weights) & shown & (norms(longer) + norms(q) <= (self.max_norm or np.inf))
            if now.any():
                alpha = np.clip(self._read_weights(q[now], longer[now], left - 1), LEAST_DIVISOR, 1 - 2**-53)
                weights[now] = expit(logit(alpha) / factor)
        if np.isnan(weights).any():
            raise Flat(q[np.isnan(weights)][0])
        return weights

    def _rounded(self, alpha: np.ndarray, q: np.ndarray, keys: np.ndarray, steepness: np.ndarray) -> np.ndarray:
        """Weights beyond 0 or 1 by no more than rounding are 0 or 1."""
        terms = self.network.terms(q) + self.network.terms(keys)
        slack = np.minimum(64 * self._error * terms / np.maximum(steepness, LEAST_DIVISOR), LOST_WEIGHT)
        inside = np.clip(alpha, 0.0, 1.0)
        return np.where(np.abs(alpha - inside) <= slack, inside, alpha)

    def _read_either(self, q: np.ndarray, key: np.ndarray, answer: float) -> float:
        """The weight that fits what is answered to a key and to the opposite one, or NaN if there are several."""
        opposite = self.inner(np.stack([q - key, q])[None])[0]
        alpha = np.unique(np.concatenate([self.network.kinks_between(q, key), 1 - self.network.kinks_between(q, -key)]))
        there, back = (
            self.network.along(q[None], key[None], alpha)[0],
            self.network.along(q[None], -key[None], 1 - alpha)[0],
        )
        steps, missing = np.diff([there, back]), np.stack([answer - there, opposite - back])[:, :-1]
        length = (steps**2).sum(axis=0)
        allowed = FITS * float(self.network.terms(key[None])[0] + self.network.terms(q[None])[0])
        flat = length <= allowed**2
        share = np.clip((missing * steps).sum(axis=0) / np.where(flat, 1.0, length), 0.0, 1.0)
        fits = np.hypot(*(missing - share * steps)) <= allowed
        weights = (alpha[:-1] + share * np.diff(alpha))[fits]
        if len(weights) == 0:
            return NO_WEIGHT
        return np.nan if (flat & fits).any() or np.ptp(weights) > SAME_WEIGHT else float(weights[0])


def steepest_direction(network: Network, tokens: np.ndarray) -> np.ndarray:
    """A unit vector along which the network grows fast: keys that lean towards it all show."""
    length = float(np.linalg.norm(tokens[0]))
    for _ in range(8):
        best = tokens[np.argmax(np.abs(network(tokens) - network.c))]
        gradient = length * unit(network.gradient(best))
        tokens = np.stack([best, gradient, -gradient])
    return unit(tokens[np.argmax(np.abs(network(tokens) - network.c))])
