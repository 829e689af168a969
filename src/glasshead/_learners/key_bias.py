"""The key bias of a head, read with the zero token as query: `[rho a ; 0]` has the logit `rho a . key_bias`.

Seen from an origin o a head has the key bias `W o + key_bias`. Beside a large key bias W drowns in the rounding of the
box; where `W o = -key_bias` it does not. A first measurement says where that is; a second one costs as much again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._checks import MIXTURE_KEYS, check_mixture, mix_third_key
from .._meters import (
    FINE_PILOTS,
    TARGET_LOGIT,
    AlwaysSaturated,
    Frame,
    Pilot,
    Scores,
    ValueMeter,
    cone,
    find_logit_scale,
)
from .._oracles import Translated
from .._schemes import Measured, full

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

    def pilot(rho: float, count: int):
        chosen = rho * keys.vectors[rng.permutation(len(keys))[:count]]
        share = mix_third_key(chosen) if alone and len(chosen) >= MIXTURE_KEYS else 0.0
        interval = meter.read(zero, chosen[None])
        if share:
            check_mixture(meter, zero[0], chosen, share, interval)
        readings[rho] = np.append(readings.get(rho, ()), interval[0][0] / rho)
        return interval

    rho = find_scale_or_refuse(meter, pilot, oracle.reach, KEY_BIAS_LOGIT, pilots_for(keys))
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
    logits, shrunk = meter.logits(zero, rho * keys.vectors[None])
    s, lo, hi = logits
    errors = meter.errors(zero, rho * keys.vectors, logits, shrunk) if meter.splits else Scores(s, lo, hi).errors
    key_bias = keys.inverse @ s[0] / rho
    size = meter.clutter + float(np.linalg.norm(key_bias))
    rounding = 4 * (meter.oracle.dim + 4) * meter.oracle.roundoff * size * np.sqrt(len(keys))
    return replace(meter, key_bias=key_bias, key_bias_error=errors.through(keys) / rho + float(keys.gain * rounding))


def pilots_for(keys: Frame) -> int:
    """Many keys pay for a scale that is right to the last factor of two."""
    return min(KEY_BIAS_PILOTS, max(len(keys) // 6, min(4, len(keys))))


def find_scale_or_refuse(
    meter: ValueMeter, pilot: Pilot, cap: float, target: float = TARGET_LOGIT, pilots: int = FINE_PILOTS
) -> float:
    """The scale at which pilot logits are near `target`; refuses a box whose weights are 0 or 1 at any scale."""
    try:
        return find_logit_scale(pilot, 1.0, cap, meter.oracle.roundoff, meter.saturated, target, pilots)
    except AlwaysSaturated:
        meter.refuse_saturation(np.zeros(meter.oracle.dim), meter.keys.vectors[0])


NULL = 1e-6  # of the largest singular value of W: smaller ones would send the origin far away, for hardly any gain


def read_from_null_origin(meter: ValueMeter, first: Measured, rng: np.random.Generator) -> tuple[ValueMeter, Measured]:
    """W, and the meter with its key bias, from a second measurement if that bounds W better, else from the `first`."""
    assert meter.key_bias is not None
    if first.rank == 0:
        return meter, first
    W, queries = first.W, meter.queries
    values, v_norm = meter.values, float(np.linalg.norm(meter.values.v))
    origin = -np.linalg.lstsq(W, meter.key_bias, rcond=NULL)[0]
    far, reach = float(np.linalg.norm(origin)), meter.oracle.reach
    if far > reach / 2:
        return meter, first
    ground = abs(values.bias) + far * v_norm
    clutter = float(np.linalg.norm(meter.key_bias) + np.linalg.norm(W) * far)
    unsure = far * float(np.sqrt(meter.oracle.dim)) * values.entry_error(meter.oracle)
    bias = values.bias + float(origin @ values.v)
    moved_values = replace(values, bias=bias, ground=ground, unsure=unsure)
    keys = cone(values.v / v_norm, rng)
    product = KEY_BIAS_LOGIT / float(np.sqrt(np.mean((keys.vectors @ W @ queries.vectors.T) ** 2)))
    # The answers' rounding costs (ground / |v| + kappa) / rho, that of the cancelled key bias clutter * rho.
    rho = min(max(np.sqrt(ground / v_norm / clutter), np.cbrt(product / clutter)), (reach - far) / 2)
    kappa = min(product / rho, (reach - far) / 2)
    moved = ValueMeter(
        Translated(meter.oracle, origin), moved_values, keys, queries, rho, kappa, shift=far, clutter=clutter
    )
    moved = read_key_bias(moved, rho)
    second = full(moved)
    if second.bound >= first.bound:
        return meter, first
    error = moved.key_bias_error + second.bound * far
    if error < meter.key_bias_error:
        key_bias = moved.key_bias - second.W @ origin  # type: ignore[operator]
        meter = replace(meter, key_bias=key_bias, key_bias_error=float(error))
    return meter, second
