"""Is there a key bias? Without one `f(-X) = -f(X)`, so it is what the two sides of the plane answer differently.

One that is too small to show may be there all the same: how small, and how far it could have moved W, is proved here.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import expit

from ..._errors import TargetMismatch
from ..._linalg import cone
from ..._meters import (
    CLEAR_VALUE,
    KeyBias,
    Probes,
    SignMeter,
    Unbounded,
    comparing_sequences,
    find_exponents,
    find_intervals,
    logit_range,
    read_outweighs,
)
from ..._schemes import Measured

SIGN_PILOTS = 4  # scores looked at for their size
PILOT_BITS = 10
LOWEST_SCORE, HIGHEST_SCORE = -120, 120  # exponents of scores that unit vectors may have
CERTIFIED = 6  # bits by which a key bias that could have hidden is below the width of a score


def read_sign_pilots(meter: SignMeter, rng: np.random.Generator) -> tuple[Probes, np.ndarray, np.ndarray]:
    """A few scores of keys against queries, to `PILOT_BITS` bits each."""
    d = meter.oracle.dim
    k, q = rng.integers(d, size=(2, SIGN_PILOTS))
    probes = Probes(meter, meter.keys.vectors, meter.queries.vectors, k, q)
    # Tokens of length 2 / sqrt(t) ask about a score of t.
    highest = min(HIGHEST_SCORE, 2 - 2 * math.ceil(math.log2(meter.shortest)))
    size = 2.0 ** find_exponents(probes.read_above, SIGN_PILOTS, LOWEST_SCORE, highest)
    if np.any(size == 2.0**highest):
        raise probes.refusal(int(np.argmax(size)))
    return probes, *probes.find_ends(np.zeros(SIGN_PILOTS), size, size * 2.0 ** (1 - PILOT_BITS))


def check_other_side(probes: Probes, lo: np.ndarray, hi: np.ndarray) -> bool:
    """Whether scores found between `lo` and `hi` on one side of the plane are elsewhere on the other."""
    other = replace(probes.meter, side=-probes.meter.side)
    mirrored = Probes(other, probes.keys, probes.queries, probes.k, probes.q)
    from_below, from_above = np.flatnonzero(np.isfinite(lo)), np.flatnonzero(np.isfinite(hi))
    return not mirrored.read_above(from_below, lo[from_below]).all() or bool(
        mirrored.read_above(from_above, hi[from_above]).any()
    )


def check_sign_key_bias(probes: Probes, lo: np.ndarray, hi: np.ndarray) -> bool:
    everyone = np.arange(len(lo))
    return check_other_side(probes, probes.ends(everyone, lo)[0], probes.ends(everyone, hi)[1])


def find_hidden_key_bias(meter: SignMeter, W: np.ndarray) -> KeyBias | None:
    """How large a key bias can be that was taken to be zero; None if it is not.

    One score of each key is bisected a little further and the last two answers are asked for again from the other side.
    v and its error are the same there, so only rounding can tell the two sides apart if there is no bias.
    """
    d = meter.oracle.dim
    probes = Probes(meter, meter.keys.vectors, meter.queries.vectors, np.arange(d), np.zeros(d, int))
    center = probes.sign * (meter.keys.vectors @ (W @ meter.queries.vectors[0]))
    width = np.full(d, meter.width)
    everyone = np.arange(d)
    lo, hi = probes.find_ends(center, width, width * 2.0**-CERTIFIED)
    same_v = replace(meter, space=replace(meter.space, error=0.0))
    rounds = Probes(same_v, probes.keys, probes.queries, probes.k, probes.q)
    slack = meter.rounding(float(np.linalg.norm(W)))
    least, most = rounds.ends(everyone, lo)[0] - slack, rounds.ends(everyone, hi)[1] + slack
    if check_other_side(probes, least, most):
        return None
    # Both `score + k / kappa` and `score - k / kappa` lie between these ends, the second up to its rounding.
    _, kappa = probes.lengths(everyone, center)
    return KeyBias(np.zeros(d), meter.keys.inverse, kappa * (0.75 * (most - least) + slack))


def bound_with_hidden(meter: SignMeter, found: Measured, bias: KeyBias) -> float:
    """The bound on W if there is a key bias within these widths: it may have moved each score by `width / kappa`."""
    d, W = meter.oracle.dim, found.W
    k, q = np.divmod(np.arange(d * d), d)
    probes = Probes(meter, meter.keys.vectors, meter.queries.vectors, k, q)
    scores = probes.sign * (meter.keys.vectors @ W @ meter.queries.vectors.T).ravel()
    _, kappa = probes.lengths(np.arange(d * d), scores)
    moved = float(np.linalg.norm(bias.widths[k] / kappa))
    if found.right is None:
        return found.bound + meter.keys.gain * meter.queries.gain * moved
    # A low-rank scheme combines scores, but its bound grows in proportion to their errors; other keys see up to twice.
    known = (meter.width + probes.blur) / 2 + meter.rounding(float(np.linalg.norm(W)))
    return found.bound * (1 + 2 * moved / float(np.linalg.norm(known)))


SILU_FLOOR = 0.25  # logits per unit of key go down to -0.278 m: the least of theta sigma(theta)
SILU_LEAST = -1.2784645427610738  # where that is
QUERY_HALVINGS = 200  # of the longest query: no head saturates at one that short
TILT = (math.pi / 6, math.pi / 3)  # angles between v and the query that the key bias is read with
LARGEST_OF_ALL = 4.0  # the largest of d key biases compared with those of two pilots
KEY_BIAS_BITS = 3  # bits by which the key bias is known better than the scores


def always_saturated(meter: SignMeter) -> TargetMismatch:
    first = np.zeros(1, int)
    return Probes(meter, meter.keys.vectors, meter.queries.vectors, first, first).refusal(0)


class BothSides:
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

    def tokens(self, which: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keys = (self.side[which] * self.length(which, h)[0])[:, None] * self.meter.keys.vectors[self.key[which]]
        return keys, np.outer(-self.kappa * self.side[which], self.query)

    def read_above(self, which: np.ndarray, h: np.ndarray) -> np.ndarray:
        return read_outweighs(self.meter.oracle, self.meter.space.v, *self.tokens(which, h))

    def check_fit(self, which: np.ndarray) -> bool:
        """Whether these lie where they can be asked about."""
        edge = SILU_FLOOR * self.m[which]
        return bool(self.read_above(which, -edge).all() and not self.read_above(which, edge).any())

    def read(self, bits: int) -> tuple[np.ndarray, np.ndarray]:
        everyone, edge = np.arange(len(self.key)), SILU_FLOOR * self.m

        def sequence(which: np.ndarray, h: np.ndarray) -> np.ndarray:
            return comparing_sequences(*self.tokens(which, h))

        try:
            lo, hi = find_intervals(self.read_above, edge, edge * 2.0 ** (1 - bits), sequence)
        except Unbounded as error:
            raise always_saturated(self.meter) from error
        least, most = self.end(everyone, lo)[0], self.end(everyone, hi)[1]
        if not np.isfinite(most - least).all():
            raise always_saturated(self.meter)
        return (least + most) / 2, (most - least) / 2

    def end(self, which: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rho, _ = self.length(which, h)
        query, beta = np.full(len(which), self.kappa), np.full(len(which), self.beta)
        meter = self.meter
        lower, upper = logit_range(meter.space, meter.oracle, rho, query, rho * self.alpha[which], beta)
        return lower / rho, upper / rho


def silu_inverse(y: np.ndarray) -> np.ndarray:
    """The theta >= SILU_LEAST with `theta sigma(theta) = y`, by bisection: the function grows from there on."""
    lo, hi = np.full(y.shape, SILU_LEAST), np.maximum(y, 0) + 0.6
    for _ in range(64):
        middle = (lo + hi) / 2
        below = middle * expit(middle) < y
        lo, hi = np.where(below, middle, lo), np.where(below, hi, middle)
    return (lo + hi) / 2


def find_sign_key_bias(meter: SignMeter, rng: np.random.Generator) -> KeyBias:
    """All of the key bias, 2d scores: at the longest query that leaves them where they can be asked about."""
    d = meter.oracle.dim
    # A query of no particular direction: W may well be large and send v itself to zero.
    query = cone(meter.space.v, rng, np.cos(rng.uniform(*TILT))).vectors[0]
    longest_query = meter.oracle.reach / (1 + 8 * np.sqrt(d))
    pilots = np.concatenate([chosen := rng.permutation(d)[:2], chosen + d])
    least = max(meter.shortest, longest_query * 2.0**-QUERY_HALVINGS)
    too_few, enough = -1, math.floor(math.log2(longest_query / least))
    while enough - too_few > 1:
        halvings = (too_few + enough) // 2
        if BothSides(meter, query, longest_query * 2.0**-halvings).check_fit(pilots):
            enough = halvings
        else:
            too_few = halvings
    kappa = longest_query * 2.0**-enough / LARGEST_OF_ALL
    while not (sides := BothSides(meter, query, kappa)).check_fit(np.arange(2 * d)):
        kappa /= LARGEST_OF_ALL
        if kappa < least / CLEAR_VALUE:
            raise always_saturated(meter)
    h, width = sides.read(meter.bits + KEY_BIAS_BITS)
    bias, column = (h[:d] - h[d:]) / 2, (h[:d] + h[d:]) / 2
    # The box rounds W (q + origin) + key_bias, and its dot product with both tokens. The column says how large W is.
    W_norm = 2 * np.sqrt(d) * float(np.linalg.norm(column)) / kappa
    rho = 1 / sides.m[:d]
    size = (kappa + meter.space.shift) * W_norm + float(np.linalg.norm(bias))
    rounding = 4 * (d + 4) * meter.oracle.roundoff * size * (1 + (kappa + meter.space.shift) / rho)
    widths = (width[:d] + width[d:]) / 2 + rounding
    return KeyBias(meter.keys.inverse @ bias, meter.keys.inverse, widths)
