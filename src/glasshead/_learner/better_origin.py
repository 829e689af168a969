"""A key bias limits the lever. From an origin where it vanishes it does not: measure again from there.

Adding `origin` to every token turns a head into one with `key_bias + W origin`, and `origin = -W^-1 key_bias` makes
that zero. Costs d^2 + d queries, so it is for small d only, where single scores matter most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._meter import ValueMeter
from .._meter.frame import cone
from .._meter.lever import longest
from .._oracle.translated import Translated
from .._scheme import Measured, full
from .key_bias import SCORE, read_key_bias


def from_a_better_origin(meter: ValueMeter, first: Measured, rng: np.random.Generator) -> tuple[ValueMeter, Measured]:
    """Meter and result of the second measurement where it is the better one, else those of the first."""
    assert meter.key_bias is not None
    if first.rank == 0:
        return meter, first
    W, queries = first.W, meter.queries
    values, v_norm = meter.values, float(np.linalg.norm(meter.values.v))
    origin = -np.linalg.lstsq(W, meter.key_bias, rcond=1e-6)[0]
    far, reach = float(np.linalg.norm(origin)), longest(meter.oracle)
    if far > reach / 2:
        return meter, first
    ground = abs(values.bias) + far * v_norm
    clutter = float(np.linalg.norm(meter.key_bias) + np.linalg.norm(W) * far)
    unsure = far * float(np.sqrt(meter.oracle.dim)) * values.entry_error(meter.oracle)
    bias = values.bias + float(origin @ values.v)
    moved_values = replace(values, bias=bias, ground=ground, unsure=unsure)
    keys = cone(values.v / v_norm, rng)
    product = SCORE / float(np.sqrt(np.mean((keys.vectors @ W @ queries.vectors.T) ** 2)))
    # The answers' rounding costs (ground / |v| + kappa) / rho, that of the cancelled key bias clutter * rho.
    rho = min(max(np.sqrt(ground / v_norm / clutter), np.cbrt(product / clutter)), (reach - far) / 2)
    kappa = min(product / rho, (reach - far) / 2)
    scene = Translated(meter.oracle, origin)
    moved = ValueMeter(scene, moved_values, keys, queries, rho, kappa, shift=far, clutter=clutter)
    moved = read_key_bias(moved, rho)
    second = full(moved)
    if second.bound >= first.bound:
        return meter, first
    error = moved.key_bias_error + second.bound * far
    if error < meter.key_bias_error:
        key_bias = moved.key_bias - second.W @ origin  # type: ignore[operator]
        meter = replace(meter, key_bias=key_bias, key_bias_error=float(error))
    return meter, second
