"""How long the query tokens of one head should be, and its keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...._meters import (
    HEADROOM,
    RATIO,
    SATURATED,
    TARGET_LOGIT,
    AlwaysSaturated,
    Interval,
    IsolatedHead,
    find_logit_scale,
)

LOOKS = 2  # for a key bias, with the longest keys
PILOTS = 2
SETTLING, MISJUDGED = 3, 8.0  # a few logits more at the scale found, and how far that may be off
SHOWS = 2.0**-10  # of the longest tokens: a W that needs longer ones to show is 0
LOOSE = 1e-5  # heads that differ by less than that are not worth telling apart this early
BIAS = 0.5  # how much an error of the key bias counts, beside one of W


@dataclass(frozen=True)
class Sizes:
    """What a unit key sees, as an rms: of the key bias, and of W and a unit token."""

    key_bias: float
    W: float


class Pilots:
    """Logits of random keys of the frame against tokens of some length in random directions."""

    def __init__(self, meter: IsolatedHead, rng: np.random.Generator):
        self.meter, self.rng = meter, rng
        self.alone = meter.room.alone(meter.h)

    def __call__(self, key: float, token: float, count: int) -> Interval:
        q, z = self.drawn(key, token, count)
        return self.meter.read(q, z)

    def odd(self, key: float, token: float, count: int) -> Interval:
        """What is odd in the token: the key bias drops out."""
        q, z = self.drawn(key, token, count)
        s, lo, hi = self.meter.read(np.concatenate([q, -q]), np.concatenate([z, z]))
        return (s[:count] - s[count:]) / 2, (lo[:count] - hi[count:]) / 2, (hi[:count] - lo[count:]) / 2

    def drawn(self, key: float, token: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        q = self.rng.standard_normal((count, self.meter.box.dim))
        q *= token / np.linalg.norm(q, axis=1, keepdims=True)
        chosen = self.rng.permutation(len(self.meter.keys))[np.arange(count) % len(self.meter.keys)]
        return q, (key * self.meter.keys.vectors[chosen] @ self.alone.T)[:, None]


def scaled(meter: IsolatedHead, guess: Sizes, rng: np.random.Generator) -> tuple[IsolatedHead, Sizes]:
    """The meter at its scales; `guess` is what another head of the same box had."""
    pilots, cap = Pilots(meter, rng), meter.oracle.reach / 4
    try:
        sizes = with_key_bias(pilots, guess, cap) if has_key_bias(pilots, cap) else without_key_bias(pilots, guess, cap)
    except AlwaysSaturated:
        meter.refuse(np.zeros(meter.box.dim), pilots.alone[:, 0], "0 or 1 at any length")
    key, token = lengths(meter, sizes)
    return replace(at(meter, settled(pilots, key, token), token), biased=sizes.key_bias > 0), sizes


def settled(pilots: Pilots, key: float, token: float) -> float:
    """The length of keys whose logits are as large as they should be, from a few at these lengths; and a law.

    A key twice as long has twice the logit, if it is one head that answers.
    """
    q, z = pilots.drawn(key, token, SETTLING)
    s, lo, hi = pilots.meter.read(np.concatenate([q, q[:1]]), np.concatenate([z, 2 * z[:1]]))
    single, double, width = float(s[0, 0]), float(s[-1, 0]), float(np.max((hi - lo)[[0, -1]]))
    if abs(double - 2 * single) > 3 * width + LOOSE * max(1.0, abs(double)):
        pilots.meter.refuse(q[0], 2 * z[0, 0], f"a logit of {double:.6g} where half the key has {single:.6g}")
    rms = float(np.sqrt(np.mean(np.append(s[:-1], double / 2) ** 2)))
    return key * float(np.clip(TARGET_LOGIT / max(rms, 1e-3), 1 / MISJUDGED, MISJUDGED))


def has_key_bias(pilots: Pilots, cap: float) -> bool:
    _, lo, hi = pilots(cap, 0.0, LOOKS)
    return bool(np.any((lo > 0) | (hi < 0)))


def with_key_bias(pilots: Pilots, guess: Sizes, cap: float) -> Sizes:
    key = search(pilots, lambda scale, count: pilots(scale, 0.0, count), guess.key_bias, cap)
    token = search(pilots, lambda scale, count: pilots.odd(key, scale, count), guess.W * key, cap)
    return Sizes(TARGET_LOGIT / key, TARGET_LOGIT / (key * token) if token < SHOWS * cap else 0.0)


def without_key_bias(pilots: Pilots, guess: Sizes, cap: float) -> Sizes:
    def pilot(product: float, count: int) -> Interval:
        return pilots(np.sqrt(product * RATIO), np.sqrt(product / RATIO), count)

    return Sizes(0.0, TARGET_LOGIT / search(pilots, pilot, guess.W, cap**2 / RATIO))


def search(pilots: Pilots, pilot, guess: float, cap: float) -> float:
    oracle = pilots.meter.oracle
    start = TARGET_LOGIT / guess if guess > 0 else 1.0
    return find_logit_scale(pilot, min(start, cap), cap, oracle.roundoff, SATURATED, TARGET_LOGIT, PILOTS)


def lengths(meter: IsolatedHead, sizes: Sizes) -> tuple[float, float]:
    """Lengths of keys and of tokens.

    Without a key bias only their product counts: long keys, short tokens. With one, the error of W is about that of a
    score times `|k| / |W q|`, that of the key bias a score's times `|k| / |key_bias|`.
    """
    if sizes.W == 0:
        return float(TARGET_LOGIT / sizes.key_bias), float(TARGET_LOGIT / sizes.key_bias)
    if sizes.key_bias == 0:
        wanted = HEADROOM * abs(meter.box.bias) / meter.room.reach[meter.h]
        key = min(max(np.sqrt(RATIO / sizes.W), wanted), meter.oracle.reach / 8)
        return float(key), float(1 / (sizes.W * key))
    token = np.geomspace(1e-4, 1e4, 161) * min(sizes.key_bias / sizes.W, meter.oracle.reach / 1e6)
    size = np.hypot(token * sizes.W, sizes.key_bias)
    rounding = meter.oracle.roundoff * meter.box.loud
    tokens_count = 2 * rounding / (rounding + meter.room.leak)  # errors of v come with the key alone
    error = (1 + tokens_count * token * size) * (size / (token * sizes.W) + BIAS * size / sizes.key_bias)
    best = int(np.argmin(error))
    return float(TARGET_LOGIT / size[best]), float(token[best])


def at(meter: IsolatedHead, key: float, token: float) -> IsolatedHead:
    """All queries of the frame have `beta = 1/sqrt(m)` and a token part of `sqrt(1 - 1/m)`."""
    m = meter.dim
    return replace(meter, rho=key * np.sqrt(m), kappa=token / np.sqrt(max(1, m - 1)))
