"""A head with a key bias, measured again from the origin at which the bias vanishes.

Seen from o a head has the key bias `W o + key_bias`. Beside a large key bias W drowns in the rounding of the box; where
`W o = -key_bias` it does not. The first measurement says where that is; the second one costs as much as the first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._meters import ValueMeter, cone
from .._oracles import Translated
from .._schemes import Measured, full
from .key_bias import KEY_BIAS_LOGIT, read_key_bias

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
