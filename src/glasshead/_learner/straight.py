"""Noise that is always the same, told from a box that is no head: is a ray of one-row answers straight?

A head answers one token on a straight line. Three points of it, evenly spaced, have a second difference of 0; noise of
size X on each makes that `sqrt(6) X` however close the points are, whereas a bend fades with the square of the spacing.
"""

from __future__ import annotations

import numpy as np

from .._errors import BudgetExceeded, Evidence, TargetMismatch
from .._meter.lever import longest
from .._oracle import Oracle

STRAIGHT = "one-row answers lie on a straight line"
RAYS = 6
FAR, CLOSE = 0.25, 2.0**-6  # spacings, of the ray's length
LONG = 64.0  # the longer rays over the shorter ones
BEND = 5.0  # a bend would be (FAR / CLOSE)^2 = 256 times rougher far than close
GROWS = 8.0  # noise that is a share of the answer would be `LONG` times larger on the longer rays
SAFETY = 3.0  # evenly spread noise has 1.7 times its standard deviation at most, and the estimate is a rough one


def explained(oracle: Oracle, mismatch: TargetMismatch, rng: np.random.Generator) -> TargetMismatch:
    """The same mismatch, or one that says which promise would let this box pass, if it made none: 3 `RAYS` queries, and
    5 more where these are not straight."""
    if not oracle.exact or oracle.answers != "value" or mismatch.evidence is None:
        return mismatch
    long = min(LONG, longest(oracle))
    try:
        rays = rng.standard_normal((RAYS, oracle.dim))
        rays *= long / np.linalg.norm(rays, axis=1, keepdims=True)
        ends, close = roughness(oracle, rays, CLOSE)
        size = float(np.sqrt(np.mean(ends**2)))
        if close <= 8 * (oracle.dim + 8) * oracle.roundoff * size:
            return mismatch
        (_, far), (_, short) = roughness(oracle, rays, FAR, ends), roughness(oracle, rays / LONG, FAR)
    except BudgetExceeded:
        return mismatch
    if close * BEND < far:
        return mismatch
    constant = size == 0 or short * GROWS > close
    level = max(short, close) if constant else close / size
    off = f"answers that lie off by about {level:.2g}{' of their size' * (not constant)}"
    at = f"at lengths {long / LONG:.3g} and {long:.3g}; and {mismatch.evidence}"
    promise = f"{'tolerance' if constant else 'rtol'}={round_number(SAFETY * level):g}"
    what = "the box is not a single attention head, or its answers are less accurate than promised"
    evidence = Evidence(STRAIGHT, mismatch.evidence.query, "expected second differences of 0", f"{off} {at}")
    return TargetMismatch(f"{what}; then promise {promise} to go on", evidence, mismatch.best)


def roughness(
    oracle: Oracle, rays: np.ndarray, spacing: float, ends: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """The answers at the ends of rays, and the noise that would explain the second differences next to them."""
    ends = oracle(rays[:, None]) if ends is None else ends
    near, further = (oracle((1 - steps * spacing) * rays[:, None]) for steps in (1, 2))
    return ends, float(np.sqrt(np.mean((ends - 2 * near + further) ** 2) / 6))


def round_number(x: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(x))
    return float(next(power * digit for digit in (1, 2, 5, 10) if power * digit >= x * (1 - 1e-9)))
