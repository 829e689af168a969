"""How a product `rho kappa` is split: the key token long, the query token short."""

from __future__ import annotations

import numpy as np

from .._oracle import Oracle
from .values import Values

REACH = 2.0**40  # the longest token sent to a box that names no max_norm
HALF, HALF_REACH = 2.0**-11, 2.0**8  # float16 overflows at 65504
RATIO = 2.0**12  # rho / kappa where nothing asks for more: kappa b.v is then no rounding problem
HEADROOM = 2.0**8  # how far the signal should stand above the bias it is read against


def longest(oracle: Oracle) -> float:
    reach = HALF_REACH if oracle.roundoff == HALF else REACH
    return reach if oracle.max_norm is None else min(reach, oracle.max_norm * (1 - 2.0**-20))


def split(product: float, oracle: Oracle, values: Values) -> tuple[float, float]:
    """`rho, kappa` with the given product, `rho + kappa` within reach, `rho` as long as bias and tolerance ask for."""
    v_norm = float(np.linalg.norm(values.v))
    wanted = HEADROOM * abs(values.bias) / v_norm
    if values.promise(oracle, 0.0) > 0:
        wanted = np.inf
    rho = max(np.sqrt(product * RATIO), wanted, oracle.shortest)
    return fit(rho, product / rho if np.isfinite(rho) else 0.0, product, longest(oracle))


def fit(rho: float, kappa: float, product: float, reach: float) -> tuple[float, float]:
    if rho + kappa <= reach:
        return rho, kappa
    if 4 * product >= reach**2:
        return reach / 2, reach / 2
    rho = (reach + np.sqrt(reach**2 - 4 * product)) / 2
    return rho, product / rho


def largest_product(oracle: Oracle) -> float:
    return longest(oracle) ** 2 / 4
