"""The key bias from signs: half of what differs between the two sides of the plane.

A key u and a query q have the logit `u.W q + u.key_bias` on one side, and on the other, as -u and -q, the logit
`u.W q - u.key_bias`: half the difference is the bias. Both can be read, so it is determined wherever v is.
"""

from __future__ import annotations

import math

import numpy as np

from .._errors import TargetMismatch
from .._meter.bisect import Unbounded, bisect
from .._meter.frame import cone
from .._meter.lever import longest
from .._meter.one_bit import logit_range, outweighs
from .._meter.probes import Probes
from .._meter.sign import CLEAR, KeyBias, SignMeter

FLOOR = 0.25  # logits per unit of key go down to -0.278 m: the least of theta sigma(theta)
LEAST = -1.2784645427610738  # where that is
HALVINGS = 200  # of the longest query: no head saturates at one that short
TILT = (math.pi / 6, math.pi / 3)  # angles between v and the query that the key bias is read with
SPARE = 4.0  # the largest of d key biases compared with those of two pilots
FINER = 3  # bits by which the key bias is known better than the scores


def refusal(meter: SignMeter) -> TargetMismatch:
    first = np.zeros(1, int)
    return Probes(meter, meter.keys.vectors, meter.queries.vectors, first, first).refusal(0)


class Sides:
    """`u.W q + side u.key_bias` for all keys u, on both sides, with `q = -kappa query` the same for all of them.

    At a fixed query the threshold is set by the length of the key alone: `h > m theta sigma(theta)` is asked by
    `rho = (1 + exp(-theta)) / m`, where `m = u.v / |q.v|`.
    """

    def __init__(self, meter: SignMeter, query: np.ndarray, kappa: float):
        self.meter, self.query, self.kappa = meter, query, kappa
        d = meter.oracle.dim
        self.key = np.tile(np.arange(d), 2)
        self.side = np.repeat([1.0, -1.0], d)
        self.alpha = (meter.keys.vectors @ meter.space.v)[self.key]
        self.beta = kappa * float(query @ meter.space.v)
        self.m = self.alpha / self.beta

    def length(self, which: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta = silu_inverse(h / self.m[which])
        return (1 + np.exp(-theta)) / self.m[which], theta

    def above(self, which: np.ndarray, h: np.ndarray) -> np.ndarray:
        meter, rho = self.meter, self.length(which, h)[0]
        keys = (self.side[which] * rho)[:, None] * meter.keys.vectors[self.key[which]]
        queries = np.outer(-self.kappa * self.side[which], self.query)
        return outweighs(meter.oracle, meter.space.v, keys, queries)

    def fit(self, which: np.ndarray) -> bool:
        """Whether these lie where they can be asked about."""
        edge = FLOOR * self.m[which]
        return bool(self.above(which, -edge).all() and not self.above(which, edge).any())

    def read(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        everyone, edge = np.arange(len(self.key)), FLOOR * self.m
        try:
            lo, hi = bisect(self.above, edge, edge * 2.0 ** (1 - bits))
        except Unbounded as error:
            raise refusal(self.meter) from error
        least, most = self.end(everyone, lo)[0], self.end(everyone, hi)[1]
        if not np.isfinite(most - least).all():
            raise refusal(self.meter)
        return (least + most) / 2, (most - least) / 2

    def end(self, which: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, _ = self.length(which, h)
        query, beta = np.full(len(which), self.kappa), np.full(len(which), self.beta)
        meter = self.meter
        lower, upper = logit_range(meter.space, meter.oracle, rho, query, rho * self.alpha[which], beta)
        return lower / rho, upper / rho


def silu_inverse(y: np.ndarray) -> np.ndarray:
    """The theta >= LEAST with `theta sigma(theta) = y`, by bisection: the function grows from there on."""
    lo, hi = np.full(y.shape, LEAST), np.maximum(y, 0) + 0.6
    for _ in range(64):
        middle = (lo + hi) / 2
        below = middle / (1 + np.exp(-middle)) < y
        lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
    return (lo + hi) / 2


def find_key_bias(meter: SignMeter, rng: np.random.Generator) -> KeyBias:
    """All of the key bias, 2d scores: at the longest query that leaves them where they can be asked about."""
    d = meter.oracle.dim
    # A query of no particular direction: W may well be large and send v itself to zero.
    query = cone(meter.space.v, rng, np.cos(rng.uniform(*TILT))).vectors[0]
    longest_query = longest(meter.oracle) / (1 + 8 * np.sqrt(d))
    pilots = np.concatenate([chosen := rng.permutation(d)[:2], chosen + d])
    least = max(meter.shortest, longest_query * 2.0**-HALVINGS)
    too_few, enough = -1, math.floor(math.log2(longest_query / least))
    while enough - too_few > 1:
        halvings = (too_few + enough) // 2
        if Sides(meter, query, longest_query * 2.0**-halvings).fit(pilots):
            enough = halvings
        else:
            too_few = halvings
    kappa = longest_query * 2.0**-enough / SPARE
    while not (sides := Sides(meter, query, kappa)).fit(np.arange(2 * d)):
        kappa /= SPARE
        if kappa < least / CLEAR:
            raise refusal(meter)
    h, width = sides.read(meter.bits + FINER)
    bias, column = (h[:d] - h[d:]) / 2, (h[:d] + h[d:]) / 2
    # The box rounds W (q + origin) + key_bias, and its dot product with both tokens. The column says how large W is.
    W_norm = 2 * np.sqrt(d) * float(np.linalg.norm(column)) / kappa
    rho = 1 / sides.m[:d]
    size = (kappa + meter.space.shift) * W_norm + float(np.linalg.norm(bias))
    rounding = 4 * (d + 4) * meter.oracle.roundoff * size * (1 + (kappa + meter.space.shift) / rho)
    widths = (width[:d] + width[d:]) / 2 + rounding
    return KeyBias(meter.keys.inverse @ bias, meter.keys.inverse, widths)
