"""Which tokens show the scores of a head best: frames of keys and queries, and how long they are.

A query `[rho a + kappa b ; kappa b]` has the logit `rho a . (kappa W b + key_bias)`. Long keys are a lever against the
error of an answer, so rho is as long as it may be, and kappa follows: a few pilots find where logits are near 1.
Without a key bias only the product `rho kappa` matters; with one rho is bounded by what the bias alone gives to keys.
The bias itself is read with the zero token as query: `[rho a ; 0]` has the logit `rho a . key_bias`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from .._linalg import Frame, cone, orthonormal_frame, squeezed
from .._meters import (
    FINE_PILOTS,
    MIXTURE_KEYS,
    TARGET_LOGIT,
    AlwaysSaturated,
    Interval,
    Pilot,
    Scores,
    ValueMeter,
    Values,
    find_logit_scale,
    largest_product,
    lever,
    mix_third_key,
    refuse_mixed_keys,
)
from .._oracles import DOUBLE, Oracle

SQUEEZED_LOGIT = 0.5  # rms of the logits that the key bias alone gives to keys squeezed along it
# Dimensions in which the key bias may be read again, d more queries, with keys that hardly see it: it halves the error
# of W beside biases of ten times W and v. Up to 4 a second measurement of all of W does more; past 16 it would not fit
# into the 64 queries beyond one per parameter.
READ_AGAIN = range(5, 17)
LONGER = 6.0  # how many times longer keys may be then
LEAN = 0.9  # times d^(-1/6), how far queries lean to one side where a key bias may hide: gives the least bound


def find_frames(
    oracle: Oracle, values: Values, rng: np.random.Generator, known: dict, around: np.ndarray | None = None
) -> ValueMeter:
    """A meter for W, with the key bias if there is one, of a head whose values are known.

    It may stand in front of a network, if queries are to lie `around` some direction: then the laws of a plain head
    hold as well as that network is known, and are not looked at.
    """
    alone = around is None
    oracle.stage = "looking for a key bias"
    meter = ValueMeter(oracle, values, keys=cone(values.v / np.linalg.norm(values.v), rng))
    present, unseen = check_key_bias(meter)
    if not present:
        return find_frames_without_bias(replace(meter, key_bias_error=unseen), rng, alone)
    meter = find_key_bias(meter, rng, alone)
    if float(np.linalg.norm(meter.key_bias)) == 0:  # type: ignore[arg-type]
        # The longest keys saw one, the others none: an answer went wrong, and fresh ones will tell whether more do.
        return find_frames_without_bias(replace(meter, key_bias=None), rng, alone)
    known["key_bias"] = meter.key_bias
    return find_frames_with_bias(meter, rng, around)


def find_frames_without_bias(meter: ValueMeter, rng: np.random.Generator, alone: bool = True) -> ValueMeter:
    """Only the product `rho kappa` matters to the scores: a few pilots find it, the lever splits it.

    Whether it is one head that answers `alone` is looked at on the way.
    """
    oracle = meter.oracle
    meter = replace(meter, queries=orthonormal_frame(oracle.dim, rng) if oracle.exact else leaning_queries(meter, rng))

    def at(product: float) -> ValueMeter:
        return meter.at(*lever(product, oracle, meter.values))

    def read_pilot(product: float, count: int):
        return read_pilots(at(product), count, rng, alone)

    return at(find_scale_or_refuse(meter, read_pilot, largest_product(oracle), pilots=pilots_for(meter.keys)))


def leaning_queries(meter: ValueMeter, rng: np.random.Generator) -> Frame:
    """Queries that lean to one side: what a key bias behind a tolerance does to all columns lands in one direction."""
    axis, d = across(meter.values.v / np.linalg.norm(meter.values.v), rng), meter.oracle.dim
    return cone(axis, rng, lean=float(max(1 / np.sqrt(d), LEAN / d ** (1 / 6))))


def find_frames_with_bias(meter: ValueMeter, rng: np.random.Generator, around: np.ndarray | None = None) -> ValueMeter:
    """Keys shortened along the bias, so that they can be long elsewhere; queries in a cone, so that the error of the
    bias, the same in every column, lands in one direction of d: that of `around`, or one that the values do not see."""
    assert meter.key_bias is not None
    oracle, d = meter.oracle, meter.oracle.dim
    axis = meter.values.v / np.linalg.norm(meter.values.v)
    # Balances the answers' error, which falls with rho, against the bias's, which rises with it.
    rho = KEY_BIAS_LOGIT * d**0.75 / float(np.linalg.norm(meter.key_bias))
    # Where the output's bias drowns what such keys add, longer ones pay, if the key bias is read again with them.
    again = d in READ_AGAIN and abs(meter.values.bias) > rho * float(np.linalg.norm(meter.values.v))
    rho = min(rho * (LONGER if again else 1.0), oracle.reach / 2)
    meter = replace(
        meter,
        keys=squeezed_keys(meter.key_bias, axis, rho, rng),
        queries=cone(across(axis, rng) if around is None else around, rng),
    )
    if again:
        meter = read_key_bias(meter, rho)
    alone = around is None and oracle.roundoff > DOUBLE  # else the key bias has told before

    def read_pilot(kappa: float, count: int):
        return read_pilots(meter.at(rho, kappa), count, rng, alone)

    return meter.at(rho, find_scale_or_refuse(meter, read_pilot, oracle.reach - rho, pilots=pilots_for(meter.keys)))


def squeezed_keys(key_bias: np.ndarray, axis: np.ndarray, rho: float, rng: np.random.Generator) -> Frame:
    """A cone around v, squeezed until the key bias alone gives keys of length `rho` logits of rms `SQUEEZED_LOGIT`."""
    size, d = float(np.linalg.norm(key_bias)), len(axis)
    along = key_bias / size
    cosine = float(axis @ along)

    def excess(factor: float) -> float:
        leaning = (factor * cosine) ** 2 / (max(0.0, 1 - cosine**2) + (factor * cosine) ** 2)
        return rho * size * factor * np.sqrt((leaning + (1 - leaning) / max(1, d - 1)) / 2) - SQUEEZED_LOGIT

    factor = 1.0 if excess(1.0) <= 0 else brentq(excess, 1e-9, 1.0)
    return squeezed(axis, along, float(factor), rng)  # type: ignore[arg-type]


FEW_QUERIES = 3  # query directions of which pilots by chance may all be the same one


def read_pilots(meter: ValueMeter, count: int, rng: np.random.Generator, alone: bool) -> Interval:
    """Logits of random keys and queries of the frames, less what the key bias gives them.

    Where there are enough, and one head should answer `alone`, three of them are for telling whether it does.
    """
    chosen, law = rng.integers(len(meter.keys), size=count), alone and count >= MIXTURE_KEYS
    if law:
        chosen[1] = (chosen[0] + 1) % len(meter.keys)
    a = meter.rho * meter.keys.vectors[chosen]
    which = rng.integers(len(meter.queries), size=count)
    # One of them may be what W makes nothing of, and chance may pick it; passes through noise are drawn differently.
    if meter.oracle.exact and len(meter.queries) <= FEW_QUERIES:
        which = np.arange(count) % len(meter.queries)
    q = meter.kappa * meter.queries.vectors[which]
    share = 0.0
    if law:
        q[1:MIXTURE_KEYS], share = q[0], mix_third_key(a)
    s, lo, hi = logits = meter.read(q, a[:, None])
    if law:
        refuse_mixed_keys(meter, q[0], a, share, logits)
    offset = 0.0 if meter.key_bias is None else (a @ meter.key_bias)[:, None]
    slack = meter.rho * meter.key_bias_error
    return s - offset, lo - offset - slack, hi - offset + slack


def across(axis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random unit vector orthogonal to `axis`: query tokens along it do not move the values."""
    if len(axis) == 1:
        return axis
    g = rng.standard_normal(len(axis))
    g -= (g @ axis) * axis
    return g / np.linalg.norm(g)


DETECTIONS = 2  # keys that look for a bias, where only rounding could hide it
BIAS_HIDES = 1e3  # both see less than 1/BIAS_HIDES of a typical share of the bias once in a million times
KEY_BIAS_PILOTS, ALIGNMENT_PILOTS = 12, 8  # ALIGNMENT_PILOTS of them tell how the bias lies to v
KEY_BIAS_LOGIT = 1.2  # rms of the logits: best where the answer's error does not shrink with the signal


def check_key_bias(meter: ValueMeter) -> tuple[bool, float]:
    """Whether there is a key bias, and how long one could be that does not show.

    The longest keys show even a small one. Where only rounding could hide it two of them do; where answers come with a
    tolerance all d are asked, so that the second number is a true bound.
    """
    oracle, zero = meter.oracle, np.zeros((1, meter.oracle.dim))
    keys = oracle.reach * meter.keys.vectors[: DETECTIONS if oracle.exact else None]
    s, lo, hi = meter.read(zero, keys[None])
    if oracle.exact:
        unseen = BIAS_HIDES * np.sqrt(oracle.dim) * np.maximum(np.abs(lo), np.abs(hi)).max()
    else:
        errors = meter.errors(zero, keys, (s, lo, hi), np.ones_like(s))
        unseen = np.linalg.norm(meter.keys.inverse @ s[0]) + errors.through(meter.keys)
    return bool(np.any((lo > 0) | (hi < 0))), float(unseen / oracle.reach)


def find_key_bias(meter: ValueMeter, rng: np.random.Generator, alone: bool = True) -> ValueMeter:
    """The meter with its key bias filled in, at the scale where all d logits are near `KEY_BIAS_LOGIT`.

    Whether it is one head that answers `alone` is looked at on the way.
    """
    zero, keys, oracle = np.zeros((1, meter.oracle.dim)), meter.keys, meter.oracle
    readings: dict[float, np.ndarray] = {}  # what the pilots at each scale saw of the bias

    def read_pilot(rho: float, count: int):
        chosen = rho * keys.vectors[rng.permutation(len(keys))[:count]]
        share = mix_third_key(chosen) if alone and len(chosen) >= MIXTURE_KEYS else 0.0
        interval = meter.read(zero, chosen[None])
        if share:
            refuse_mixed_keys(meter, zero[0], chosen, share, interval)
        readings[rho] = np.append(readings.get(rho, ()), interval[0][0] / rho)
        return interval

    rho = find_scale_or_refuse(meter, read_pilot, oracle.reach, KEY_BIAS_LOGIT, pilots_for(keys))
    seen = next(reversed(readings.values()))
    if len(seen) >= ALIGNMENT_PILOTS and abs(seen.mean()) > seen.std():
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
    return cone(axis, rng, float(lean)), float(KEY_BIAS_LOGIT / size)


def read_key_bias(meter: ValueMeter, rho: float) -> ValueMeter:
    """The meter with its key bias, from the logits of all its keys at length rho, and how far that may be off."""
    keys, zero = meter.keys, np.zeros((1, meter.oracle.dim))
    logits, shrunk = meter.read_logits(zero, rho * keys.vectors[None])
    s, lo, hi = logits
    errors = meter.errors(zero, rho * keys.vectors, logits, shrunk) if meter.splits else Scores(s, lo, hi).errors
    key_bias = keys.inverse @ s[0] / rho
    size = meter.clutter + float(np.linalg.norm(key_bias))
    rounding = 4 * (meter.oracle.dim + 4) * meter.oracle.roundoff * size * np.sqrt(len(keys))
    return replace(meter, key_bias=key_bias, key_bias_error=errors.through(keys) / rho + float(keys.gain * rounding))


def pilots_for(keys: Frame) -> int:
    """Many keys pay for a scale that is right to the last factor of two; two have one more, to tell one head by."""
    return min(KEY_BIAS_PILOTS, max(len(keys) // 6, MIXTURE_KEYS if len(keys) == 2 else min(4, len(keys))))


def find_scale_or_refuse(
    meter: ValueMeter, read_pilot: Pilot, cap: float, target: float = TARGET_LOGIT, pilots: int = FINE_PILOTS
) -> float:
    """The scale at which pilot logits are near `target`; refuses a box whose weights are 0 or 1 at any scale."""
    try:
        return find_logit_scale(read_pilot, 1.0, cap, meter.oracle.roundoff, meter.saturated, target, pilots)
    except AlwaysSaturated:
        meter.refuse_saturation(np.zeros(meter.oracle.dim), meter.keys.vectors[0])
