"""How many Gaussian measurements the nuclear norm wants, from a measured phase transition."""

from __future__ import annotations

from math import ceil, log2
from statistics import NormalDist


def measurements_needed(dim: int, rank: int, success: float = 0.95) -> int:
    """The number of Gaussian rank-one measurements from which `nuclear_norm` recovers a `dim` x `dim` W of this rank.

    >>> measurements_needed(32, 2)
    334

    Measured, not derived: `bench/sensing/phase.py` looks for the smallest m at which W is recovered, seed by seed. In
    units of the degrees of freedom `r(2d - r)`, the median and, in brackets, what this function asks for:

    | d  | r = 1       | r = 2       | r = 4       | r = 8       |
    |----|-------------|-------------|-------------|-------------|
    | 16 | 2.59 (3.26) | 1.98 (2.35) | 1.55 (1.78) | 1.22 (1.33) |
    | 32 | 2.96 (3.68) | 2.28 (2.69) | 1.87 (2.09) | 1.55 (1.67) |
    | 64 | 3.35 (4.10) | 2.73 (3.04) | 2.23 (2.41) | 1.84 (1.96) |
    | 96 | 3.54 (4.35) | 2.84 (3.24) | 2.40 (2.59) | 2.02 (2.14) |

    The curve is `1 + (0.28 + 0.14 / r) log2(d / r)` and varies by `0.35 / r` (one standard deviation) from seed to
    seed. Both are rounded up, for safety: at every size at most one of the 8 to 40 seeds wanted more. Outside of
    16 <= d <= 96 and r <= 8 it extrapolates. `d^2` measurements determine any W, so it never asks for more.
    """
    if not 1 <= rank <= dim:
        raise ValueError(f"expected a rank from 1 to dim = {dim}, got {rank}; no {dim} x {dim} matrix has another")
    if not 0 < success < 1:
        raise ValueError(f"expected a probability 0 < success < 1, got {success}; leave it out for 0.95")
    curve = 1 + (0.28 + 0.14 / rank) * log2(dim / rank)
    margin = NormalDist().inv_cdf(success) * 0.35 / rank
    return min(ceil(max(curve + margin, 1.0) * rank * (2 * dim - rank)), dim * dim)
