"""The key bias, read with the zero token as query: `[rho a ; 0]` has the logit `rho a . key_bias`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from .._checks import MIXTURE_KEYS, check_mixture, mix_third_key
from .._meters import (
    PILOTS,
    TARGET,
    AlwaysSaturated,
    Frame,
    Interval,
    Pilot,
    Scores,
    ValueMeter,
    cone,
    find_scale,
    largest_product,
    orthonormal,
    split,
    squeezed,
)

DETECTIONS = 2
HIDES = 1e3  # two random keys both see less than 1/HIDES of a typical share of the bias once in a million
KEY_BIAS_PILOTS, ENOUGH = 12, 8  # ENOUGH of them tell how the bias lies to v
SCORE = 1.2  # rms of the logits: best where the answer's error does not shrink with the signal


def look_for_key_bias(meter: ValueMeter) -> tuple[bool, float]:
    """Whether there is a key bias, and how long one could be that did not show.

    The longest keys show even a small one. Where only rounding could hide it two of them do; where answers come with a
    tolerance all d are asked, so that the second number is a true bound.
    """
    oracle, zero = meter.oracle, np.zeros((1, meter.oracle.dim))
    keys = oracle.reach * meter.keys.vectors[: DETECTIONS if oracle.exact else None]
    s, lo, hi = meter.read(zero, keys[None])
    if oracle.exact:
        unseen = HIDES * np.sqrt(oracle.dim) * np.maximum(np.abs(lo), np.abs(hi)).max()
    else:
        errors = meter.errors(zero, keys, (s, lo, hi), np.ones_like(s))
        unseen = np.linalg.norm(meter.keys.inverse @ s[0]) + errors.through(meter.keys)
    return bool(np.any((lo > 0) | (hi < 0))), float(unseen / oracle.reach)


def pilots_for(keys: Frame) -> int:
    """Many keys pay for a scale that is right to the last factor of two."""
    return min(KEY_BIAS_PILOTS, max(len(keys) // 6, min(4, len(keys))))


def find_key_bias(meter: ValueMeter, rng: np.random.Generator, alone: bool = True) -> ValueMeter:
    """The meter with its key bias filled in, at the scale where all d logits are near `SCORE`.

    Whether it is one head that answers `alone` is looked at on the way.
    """
    zero, keys, oracle = np.zeros((1, meter.oracle.dim)), meter.keys, meter.oracle
    readings: dict[float, np.ndarray] = {}  # what the pilots at each scale saw of the bias

    def pilot(rho: float, count: int):
        chosen = rho * keys.vectors[rng.permutation(len(keys))[:count]]
        share = mix_third_key(chosen) if alone and len(chosen) >= MIXTURE_KEYS else 0.0
        interval = meter.read(zero, chosen[None])
        if share:
            check_mixture(meter, zero[0], chosen, share, interval)
        readings[rho] = np.append(readings.get(rho, ()), interval[0][0] / rho)
        return interval

    rho = scale_or_refuse(meter, pilot, oracle.reach, SCORE, pilots_for(keys))
    seen = next(reversed(readings.values()))
    if len(seen) >= ENOUGH and abs(seen.mean()) > seen.std():
        keys, rho = leaning_less(meter, seen, rng)
    return read_key_bias(replace(meter, keys=keys), min(rho, oracle.reach))


def leaning_less(meter: ValueMeter, seen: np.ndarray, rng: np.random.Generator) -> tuple[Frame, float]:
    """Keys for a bias that lies along v: these all see that part, so they lean to v only as far as pays.

    With `x = lean / across`, A the bias along v and E its share in a direction across, the signal times the squared
    length allowed is `x / (x^2 A^2 + E^2)`, largest at `x = E / A`. At 45 degrees the pilots see A and E alike.
    """
    along, across = float(abs(seen.mean())), float(seen.std())
    lean = 1 / np.hypot(1, along / max(across, along / meter.oracle.dim))
    size = np.sqrt(2) * np.hypot(lean * along, np.sqrt(1 - lean**2) * across)
    axis = meter.values.v / np.linalg.norm(meter.values.v)
    return cone(axis, rng, float(lean)), float(SCORE / size)


def scale_or_refuse(meter: ValueMeter, pilot: Pilot, cap: float, target: float = TARGET, pilots: int = PILOTS) -> float:
    try:
        return find_scale(pilot, 1.0, cap, meter.oracle.roundoff, meter.saturated, target, pilots)
    except AlwaysSaturated:
        meter.refuse_saturation(np.zeros(meter.oracle.dim), meter.keys.vectors[0])


def read_key_bias(meter: ValueMeter, rho: float) -> ValueMeter:
    keys, zero = meter.keys, np.zeros((1, meter.oracle.dim))
    logits, shrunk = meter.logits(zero, rho * keys.vectors[None])
    s, lo, hi = logits
    errors = meter.errors(zero, rho * keys.vectors, logits, shrunk) if meter.splits else Scores(s, lo, hi).errors
    key_bias = keys.inverse @ s[0] / rho
    size = meter.clutter + float(np.linalg.norm(key_bias))
    rounding = 4 * (meter.oracle.dim + 4) * meter.oracle.roundoff * size * np.sqrt(len(keys))
    return replace(meter, key_bias=key_bias, key_bias_error=errors.through(keys) / rho + float(keys.gain * rounding))


OFFSET = 0.5  # rms of the logits that the key bias alone gives to keys squeezed along it
TWICE = range(5, 17)  # in these dimensions the key bias is read again, with keys that hardly see it,
LONGER = 6.0  # and then these may be longer by this factor
LEAN = 0.9  # times d^(-1/6), how far queries lean to one side where a key bias may hide: gives the least bound


def without_key_bias(meter: ValueMeter, rng: np.random.Generator, alone: bool = True) -> ValueMeter:
    """Only the product `rho kappa` matters to the scores: a few pilots find it, the lever splits it.

    Whether it is one head that answers `alone` is looked at on the way.
    """
    oracle = meter.oracle
    meter = replace(meter, queries=orthonormal(oracle.dim, rng) if oracle.exact else unmoved(meter, rng))

    def at(product: float) -> ValueMeter:
        return meter.at(*split(product, oracle, meter.values))

    def pilot(product: float, count: int):
        return pilot_scores(at(product), count, rng, alone)

    return at(scale_or_refuse(meter, pilot, largest_product(oracle), pilots=pilots_for(meter.keys)))


def unmoved(meter: ValueMeter, rng: np.random.Generator) -> Frame:
    """Queries for when a small key bias may hide behind a tolerance: leaning to one side, so that what it does to all
    columns alike lands in one direction."""
    axis = across(meter.values.v / np.linalg.norm(meter.values.v), rng)
    d = meter.oracle.dim
    return cone(axis, rng, lean=float(max(1 / np.sqrt(d), LEAN / d ** (1 / 6))))


def pilot_scores(meter: ValueMeter, count: int, rng: np.random.Generator, alone: bool) -> Interval:
    """Logits of random keys and queries of the frames, less what the key bias gives them.

    Where there are enough, and one head should answer `alone`, three of them are for telling whether it does.
    """
    chosen, law = rng.integers(len(meter.keys), size=count), alone and count >= MIXTURE_KEYS
    if law:
        chosen[1] = (chosen[0] + 1) % len(meter.keys)
    a = meter.rho * meter.keys.vectors[chosen]
    q = meter.kappa * meter.queries.vectors[rng.integers(len(meter.queries), size=count)]
    share = 0.0
    if law:
        q[1:MIXTURE_KEYS], share = q[0], mix_third_key(a)
    s, lo, hi = logits = meter.read(q, a[:, None])
    if law:
        check_mixture(meter, q[0], a, share, logits)
    offset = 0.0 if meter.key_bias is None else (a @ meter.key_bias)[:, None]
    slack = meter.rho * meter.key_bias_error
    return s - offset, lo - offset - slack, hi - offset + slack


def with_key_bias(meter: ValueMeter, rng: np.random.Generator, around: np.ndarray | None = None) -> ValueMeter:
    """Keys shortened along the bias, so that they can be long elsewhere; queries in a cone, so that the error of the
    bias, the same in every column, lands in one direction of d: that of `around`, or one that the values do not see."""
    assert meter.key_bias is not None
    oracle, d = meter.oracle, meter.oracle.dim
    axis = meter.values.v / np.linalg.norm(meter.values.v)
    # Balances the answers' error, which falls with rho, against the bias's, which rises with it.
    rho = SCORE * d**0.75 / float(np.linalg.norm(meter.key_bias))
    rho = min(rho * (LONGER if d in TWICE else 1.0), oracle.reach / 2)
    meter = replace(
        meter,
        keys=squeezed_keys(meter.key_bias, axis, rho, rng),
        queries=cone(across(axis, rng) if around is None else around, rng),
    )
    if d in TWICE:
        meter = read_key_bias(meter, rho)

    def pilot(kappa: float, count: int):
        return pilot_scores(meter.at(rho, kappa), count, rng, alone=False)  # the key bias has told before

    return meter.at(rho, scale_or_refuse(meter, pilot, oracle.reach - rho, pilots=pilots_for(meter.keys)))


def squeezed_keys(key_bias: np.ndarray, axis: np.ndarray, rho: float, rng: np.random.Generator) -> Frame:
    """A cone around v, squeezed until keys of length `rho` have logits of rms `OFFSET` on the key bias alone."""
    size, d = float(np.linalg.norm(key_bias)), len(axis)
    along = key_bias / size
    cosine = float(axis @ along)

    def excess(factor: float) -> float:
        leaning = (factor * cosine) ** 2 / (max(0.0, 1 - cosine**2) + (factor * cosine) ** 2)
        return rho * size * factor * np.sqrt((leaning + (1 - leaning) / max(1, d - 1)) / 2) - OFFSET

    factor = 1.0 if excess(1.0) <= 0 else brentq(excess, 1e-9, 1.0)
    return squeezed(axis, along, float(factor), rng)  # type: ignore[arg-type]


def across(axis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random unit vector orthogonal to `axis`: query tokens along it do not move the values."""
    if len(axis) == 1:
        return axis
    g = rng.standard_normal(len(axis))
    g -= (g @ axis) * axis
    return g / np.linalg.norm(g)
