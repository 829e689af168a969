"""How yes and no become scores: each is bisected, by tokens that ask whether it is above a threshold.

Seen from an origin on the plane `x.v + bias = 0`, send `[rho u + kappa q ; kappa q]` with u and q on opposite sides of
the plane: the answer says whether the weight of the first token is above `kappa q.v / (rho u.v)`, up to signs, and that
is a threshold for `u^T W q`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._errors import SHORTER_KEY, Evidence, TargetMismatch
from .._linalg import NO_FRAME, Frame, rms
from .._oracles import Oracle
from .._types import Float
from .bisection import (
    ROUND_BYTES,
    Halfspace,
    KeyBias,
    comparing_lengths,
    comparing_sequences,
    logit_range,
    read_outweighs,
    sums,
)
from .intervals import Unbounded, find_intervals
from .meter import GROWTH, Directions, Meter, Scores

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
        reach = self.meter.oracle.reach / np.maximum(self.key_length[which], self.query_length[which])
        return comparing_lengths(tau, self.meter.product, alpha, beta, pull, reach)

    def tokens(self, which: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, kappa = (self.side[which] * length for length in self.lengths(which, tau))
        return rho[:, None] * self.keys[self.k[which]], kappa[:, None] * self.queries[self.q[which]]

    def read_above(self, which: np.ndarray, tau: np.ndarray) -> np.ndarray:
        meter, step = self.meter, max(1, ROUND_BYTES // (16 * self.meter.oracle.dim))
        parts = [slice(start, start + step) for start in range(0, len(which), step)]
        yes = [read_outweighs(meter.oracle, meter.space.v, *self.tokens(which[part], tau[part])) for part in parts]
        return np.concatenate(yes) if yes else np.empty(0, bool)

    def find_ends(self, center: np.ndarray, reach: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ends that every score lies between, which is looked for around `center`."""

        def sequence(which: np.ndarray, x: np.ndarray) -> np.ndarray:
            return comparing_sequences(*self.tokens(which, center[which] + x))

        try:
            lo, hi = find_intervals(lambda which, x: self.read_above(which, center[which] + x), reach, width, sequence)
        except Unbounded as error:
            raise self.refusal(error.which) from error
        return center + lo, center + hi

    def read_scores(self, reach: float, width: float) -> tuple[np.ndarray, np.ndarray]:
        """Every `a^T W b`, and how far off it may be."""
        count, everyone = len(self.k), np.arange(len(self.k))
        lo, hi = self.find_ends(np.zeros(count), np.full(count, reach), np.maximum(width, BLUR * self.blur))
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
        evidence = Evidence(
            SHORTER_KEY,
            comparing_sequences(*self.tokens(np.array([which]), np.ones(1)))[0] + self.meter.space.origin,
            "expected an attention weight inside (0, 1) once the key is short enough",
            "0 or 1 at any length",
        )
        far = self.meter.space.shift
        beside = f", or its scores drown in rounding beside its bias, which is {far:.2g} |v|" if far > 0 else ""
        return TargetMismatch(f"the box is not a single attention head{beside}", evidence)


RANGE_RMS = 3.0  # times the rms of the scores: where bisection starts. Gaussian scores leave it once in 400
LOGIT = 3.0  # what a score at the end of that range is made to give to a key
FINER_BITS = 4  # bits more for a few scores on which a bound hangs
CLEAR_VALUE = 2.0**10  # how far a value should stand out from its error
UNLUCKY_BITS = 64.0  # times the errors of new scores: what those of earlier columns, combined, may look like


@dataclass(frozen=True)
class SignMeter(Meter):
    """Measures scores of one head to `bits` bits of `[-reach, reach]`, and as finely where they lie outside.

    `oracle` is seen from an origin on the plane where answers change. `side` is the side of it that keys are on if no
    key bias prefers one, `lean` the largest dot product of a key with v. An `exacting` meter keeps the width of its
    intervals when the range turns out to be another, instead of the bits.
    """

    oracle: Oracle
    space: Halfspace
    keys: Frame
    queries: Frame = NO_FRAME
    bits: int = 40
    exacting: bool = False
    reach: float = 0.0
    lean: float = 0.0
    key_bias: KeyBias | None = None
    side: int = 1

    in_rounds: ClassVar[bool] = True

    @property
    def axis(self) -> np.ndarray:
        return self.space.v

    @property
    def product(self) -> float:
        """What the lengths of key and query are multiplied to, unless something forbids it."""
        return LOGIT / self.reach if self.reach > 0 else np.inf

    @property
    def width(self) -> float:
        """The width of the intervals, before they are moved outwards."""
        return self.reach * 2.0 ** (1 - self.bits)

    @property
    def shortest(self) -> float:
        """The shortest token whose value still stands out from the error of the origin."""
        return CLEAR_VALUE * float(self.space.value_error(self.oracle, 0.0))

    @property
    def freedom(self) -> float:
        """How much of that product tokens may have that are no longer than the box allows, nor pulled by a key bias."""
        if self.reach == 0:
            return 1.0
        rho, kappa = self._typical.lengths(np.zeros(1, int), np.zeros(1))
        return min(1.0, float((rho * kappa)[0]) / self.product)

    @property
    def _typical(self) -> Probes:
        return Probes(self, self.keys.vectors[:1], self.queries.vectors[:1], np.zeros(1, int), np.zeros(1, int))

    @property
    def finest(self) -> bool:
        """Whether more bits would not say more, because of the error of v and the rounding of the box."""
        return self.width <= BLUR * float(self._typical.blur[0])

    def expect(self, scores: int) -> None:
        self.oracle.expect(scores * (self.bits + 1))

    def tuned(self, scores: np.ndarray, noise: np.ndarray | float = 0.0) -> SignMeter:
        """The meter with the range that suits these scores; it shrinks by `GROWTH` at most."""
        typical = rms(scores)
        reach = max(RANGE_RMS * typical, self.reach / GROWTH)
        if self.exacting and reach > 0:
            return replace(self, reach=reach, bits=max(1, self.bits + math.ceil(math.log2(reach / self.reach))))
        return replace(self, reach=reach)

    def suited(self, keys: np.ndarray) -> SignMeter:
        lean = np.abs(keys @ self.space.v) / np.linalg.norm(keys, axis=-1)
        return replace(self, lean=max(self.lean, float(lean.max(initial=0.0))))

    def sharper(self) -> SignMeter:
        return replace(self, bits=self.bits + FINER_BITS)

    def likely(self, noise: float) -> float:
        return UNLUCKY_BITS * noise

    def rounding(self, W_norm: float) -> float:
        """How much rounding inside the box can move a score `a^T W b` of unit vectors, given the size of W."""
        d, space = self.oracle.dim, self.space
        typical = np.full(1, 1 / np.sqrt(d))
        rho, kappa = comparing_lengths(
            np.zeros(1), self.product, np.maximum(typical, self.lean), typical, np.zeros(1), self.oracle.reach
        )
        bias = 0.0 if self.key_bias is None else float(np.linalg.norm(self.key_bias.vector))
        clutter = W_norm * space.shift + bias  # terms of W x + key_bias that the origin may have made cancel
        token = rho + kappa + space.shift
        ulps = 4 * (d + 4) * self.oracle.roundoff
        return float((ulps * (rho * clutter + token * (kappa * W_norm + bias)) / (rho * kappa))[0])

    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
        return next(self.read_blocks([(B, A)]))

    def read_blocks(self, blocks: list[Directions]) -> Iterator[Scores]:
        """The scores of several blocks, bisected side by side; what is unknown of the key bias is in the intervals."""
        parts = [sums(self.space.v, B, A) for B, A in blocks]
        first_key, first_query, first = (
            np.cumsum([0, *map(len, each)])
            for each in zip(*((part.keys, part.queries, part.k) for part in parts), strict=True)
        )
        probes = Probes(
            self,
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.queries for part in parts]),
            np.concatenate([part.k + start for part, start in zip(parts, first_key[:-1], strict=True)]),
            np.concatenate([part.q + start for part, start in zip(parts, first_query[:-1], strict=True)]),
        )
        score, error = (np.split(each, first[1:-1]) for each in probes.read_scores(self.reach, self.width))
        for part, *seen in zip(parts, score, error, strict=True):
            t, halfwidth = part.add(*seen)
            yield Scores(t, t - halfwidth, t + halfwidth, rounding=self.rounding)
