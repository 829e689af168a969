"""Which promise would let a box pass whose answers carry noise that is always the same.

One looks whether a ray of one-row answers is straight, as a head's is: three points of it, evenly spaced, have a second
difference of 0. Noise of size X on each makes that `sqrt(6) X` however close the points are, whereas a bend fades with
the square of the spacing. Noise that stays as it is where answers grow is a tolerance, noise that grows with them an
rtol. What was printed in decimals says by itself how far off it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._errors import STRAIGHT_RAYS, BudgetExceeded, Evidence, TargetMismatch
from .._linalg import rms
from .._oracles import Oracle
from .noise import cautious

RAYS_ASKED = 6
FAR_SPACING, CLOSE_SPACING = 0.25, 2.0**-6  # spacings, of the ray's length
RAY_RATIO = 64.0  # the longer rays over the shorter ones
BEND = 5.0  # a bend would be (FAR_SPACING / CLOSE_SPACING)^2 = 256 times rougher far than close
GROWS = 8.0  # noise that is a share of the answer would be `RAY_RATIO` times larger on the longer rays
EVENLY = np.sqrt(3)  # times its standard deviation: the largest that evenly spread noise gets
MOST_DIGITS = 13  # of the 15 to 16 that a float64 has: any number has that many, up to its last bits
LAST_BITS = 2.0**-49  # of a number: what it may be off for being written in binary, by a careless rounding say
TINY = 1e-290  # smaller numbers have fewer digits
ROUND_ALREADY = 1e-9  # of a number: what it may exceed a round one by, for powers of ten that are rounded
CLEARLY = 3.0  # decades: one way to print answers leaves a thousand times fewer of them than the other

Ask = Callable[[np.ndarray], np.ndarray]


def find_promise(oracle: Oracle, mismatch: TargetMismatch, rng: np.random.Generator) -> TargetMismatch:
    """The mismatch as it is, or one that says which promise would let this box pass, if it made none.

    It takes 3 queries for each ray, 5 more where the rays are not straight, and 3 more where answers hardly grow.
    """
    if not oracle.exact or oracle.answers != "value" or mismatch.evidence is None:
        return mismatch
    answers: list[np.ndarray] = []

    def ask(X: np.ndarray) -> np.ndarray:
        answers.append(oracle(X))
        return answers[-1]

    long = min(RAY_RATIO, oracle.reach)
    try:
        rays = rng.standard_normal((RAYS_ASKED, oracle.dim))
        rays *= long / np.linalg.norm(rays, axis=1, keepdims=True)
        ends, closely = read_roughness(ask, rays, CLOSE_SPACING)
        size, close = rms(ends), rms(closely)
        if close <= straight(oracle, size):
            return mismatch
        _, widely = read_roughness(ask, rays, FAR_SPACING, ends)
        far = rms(widely)
        near, shortly = read_roughness(ask, rays / RAY_RATIO, FAR_SPACING)
        short = rms(shortly)
        again = GROWS * rms(near) > size and oracle.reach > long  # answers hardly grow, under a large bias say
        longest, longer = read_roughness(ask, oracle.reach / long * rays, CLOSE_SPACING) if again else (ends, closely)
        grown, rough = rms(longest), rms(longer)
    except BudgetExceeded:
        return mismatch
    if close * BEND < far:
        return mismatch
    few, many = ((close, size), (rough, grown)) if again else ((short, rms(near)), (close, size))
    constant = size == 0 or many[0] <= GROWS * few[0] + straight(oracle, many[1])
    both = float(np.hypot(close, far) / np.sqrt(2))
    if constant:
        level = max(short, both, rough if rough > straight(oracle, grown) else 0.0)
    else:
        level = max(both / size, rough / grown)
    name, promised = "tolerance" if constant else "rtol", round_number(EVENLY * cautious(level, 2 * RAYS_ASKED + 1))
    printed = as_printed(np.concatenate([y.ravel() for y in answers]), name)
    if printed is not None and both <= printed[1] * (1.0 if printed[0] == "tolerance" else size):
        name, promised = printed
    usual = rms(near - near.mean(axis=0))  # what answers to short tokens differ by: more than that is all error
    sensible = promised < (usual if name == "tolerance" else 1)
    # Where most rays are straight, only some answers are off, and how far others may be is not to be known.
    some_only = printed is None and np.median(np.abs([closely, widely])) <= straight(oracle, size)
    advice = f"; then promise {name}={promised:g} to go on" if sensible and not some_only else ""
    what = "the box is not a single attention head, or its answers are less accurate than promised"
    off = f"answers that lie off by about {level:.2g}{' of their size' * (not constant)}"
    at = f"at lengths {long / RAY_RATIO:.3g} and {long:.3g}; and {mismatch.evidence}"
    evidence = Evidence(STRAIGHT_RAYS, mismatch.evidence.query, "expected second differences of 0", f"{off} {at}")
    return TargetMismatch(f"{what}{advice}", evidence, mismatch.best)


def straight(oracle: Oracle, size: float) -> float:
    """How rough a ray of answers of that size may be for rounding alone."""
    return 8 * (oracle.dim + 8) * oracle.roundoff * size


def read_roughness(
    ask: Ask, rays: np.ndarray, spacing: float, ends: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The answers at the ends of rays, and the noise that would explain the second difference next to each."""
    ends = ask(rays[:, None]) if ends is None else ends
    near, further = (ask((1 - steps * spacing) * rays[:, None]) for steps in (1, 2))
    return ends, (ends - 2 * near + further) / float(np.sqrt(6))


def as_printed(y: np.ndarray, otherwise: str) -> tuple[str, float] | None:
    """The promise that numbers keep which are all printed with so many significant digits, or with so many decimals.

    Both may explain them: then the one does that leaves fewer such numbers, and `otherwise` where that is not clear.
    """
    y = np.abs(y[np.abs(y) > TINY])
    if len(y) == 0:
        return None
    place = np.floor(np.log10(y) + LAST_BITS).astype(int)  # of the first digit
    count = np.full(len(y), MOST_DIGITS + 1)
    for digits in range(MOST_DIGITS, 0, -1):
        unit = 10.0 ** (place - digits + 1)
        count = np.where(np.abs(np.round(y / unit) * unit - y) <= LAST_BITS * y, digits, count)
    known = count <= MOST_DIGITS
    decimals = int((count - 1 - place)[known].max(initial=-400))
    if not np.all(known | (decimals + place >= MOST_DIGITS)):
        return None
    digits = int(count.max())
    fewer = float(np.sum(decimals + place - (digits - 1))) if known.all() else -np.inf
    if abs(fewer) >= CLEARLY:
        otherwise = "rtol" if fewer > 0 else "tolerance"
    return otherwise, 0.5 * 10.0 ** (1 - digits if otherwise == "rtol" else -decimals)


def round_number(x: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(x))
    return float(next(power * digit for digit in (1, 2, 5, 10) if power * digit >= x * (1 - ROUND_ALREADY)))
