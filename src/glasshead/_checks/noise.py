"""Noise that nobody promised: noticed, measured, and told from a box that is no head.

Fresh noise answers the same query differently each time. It can be averaged away, so it is measured by repetition. For
noise that is always the same one looks whether a ray of one-row answers is straight, as a head's is: three points of
it, evenly spaced, have a second difference of 0. Noise of size X on each makes that `sqrt(6) X` however close the
points are, whereas a bend fades with the square of the spacing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from scipy.stats import chi2

from .._errors import STRAIGHT_RAYS, BudgetExceeded, Evidence, TargetMismatch
from .._meters import Values
from .._oracles import CERTAIN, Oracle

REPEATS = 16  # of a short token and of a long one
NOISE_QUANTILE = 0.99  # that noise is no larger than the estimate says
LARGER_DEVIATION = 2.5  # standard deviations of 16 answers each differ that much by chance once in a thousand times
RANDOM = 0.1  # of the answer: whatever is behind noise that strong, dropout say, it is no head with noise on top
ROUNDED_PROBES = 12  # one-row answers whose roundings are looked at
ROUNDED_ONCE = 3.0  # their mean square over what one rounding each makes of it, which is about 1
DRIFTS = 0.3  # mean squared successive differences over the variance: 2 for noise, hardly ever that small


@dataclass(frozen=True)
class Unpromised:
    """Noise in the answer to `query` that the oracle does not promise: `fresh`, or the rounding of a narrow format."""

    values: Values
    query: np.ndarray
    fresh: bool


@dataclass(frozen=True)
class Noise:
    """Standard deviations of a single answer: one that is always there, and one that is a share of the answer."""

    size: float
    share: float = 0.0

    def __str__(self) -> str:
        return f"noise of about {self.size:.2g}" + f" and {self.share:.1%} of the answer" * (self.share > 0)


def find_unpromised(
    oracle: Oracle, values: Values, query: np.ndarray, earlier: float, again: float, size: float
) -> Unpromised | None:
    """Fresh noise if the two answers to the same query differ; that of a narrow format if each is rounded once."""
    if abs(earlier - again) > repeatable(oracle, size):
        return Unpromised(values, query, fresh=True)
    if oracle.narrow and check_rounded_once(oracle, values):
        return Unpromised(values, query, fresh=False)
    return None


def repeatable(oracle: Oracle, size: float) -> float:
    """How far two answers of a noise-free box to the same query may differ, in batches of different sizes say."""
    return (4 if oracle.narrow else 8 * (oracle.dim + 8)) * oracle.roundoff * size


def check_rounded_once(oracle: Oracle, values: Values) -> bool:
    """Whether one-row answers deviate as little as if each were rounded once."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROUNDED_PROBES, oracle.dim)) / np.sqrt(oracle.dim) * min(1.0, oracle.reach / 2)
    answers = values.of(oracle(X[:, None]))
    lost = [answers, values.bias, np.linalg.norm(X * values.v, axis=1), X.sum(axis=1) * values.bias / values.step]
    expected = oracle.roundoff**2 / 3 * sum(np.square(part) for part in lost)
    return float(np.mean((answers - X @ values.v - values.bias) ** 2 / expected)) < ROUNDED_ONCE


def read_noise(oracle: Oracle, seen: Unpromised) -> Noise:
    """The noise of a short and of a long token along v, asked `REPEATS` times each, or why it is no noise."""
    v, reach = seen.values.v, oracle.reach
    tokens = np.outer([min(1.0, reach / 2), reach], v / np.linalg.norm(v))[:, None]
    # One call each, so that noise which is the same for all of a batch shows too.
    answers = np.stack([seen.values.of(oracle(tokens)) for _ in range(REPEATS)])
    refuse_drift(answers[:, 0], seen)
    (short, long), (_, far) = answers.std(axis=0, ddof=1), answers.mean(axis=0)
    signal, grows = abs(float(far - seen.values.bias)), long > LARGER_DEVIATION * short
    if signal <= CERTAIN * long / np.sqrt(REPEATS) or (grows and long > RANDOM * signal):
        refuse_noise(
            f"the same query is answered differently each time, by {long:.2g} where the answer is {far:.2g}", seen
        )
    if grows:
        return Noise(cautious(short, REPEATS), cautious(long, REPEATS) / abs(float(far)))
    if short > LARGER_DEVIATION * long:  # long answers have too few digits to show it
        return Noise(cautious(short, REPEATS))
    return Noise(cautious(float(np.hypot(short, long) / np.sqrt(2)), 2 * REPEATS - 1))


def cautious(deviation: float, repeats: int) -> float:
    """The largest standard deviation that would still let so many answers scatter so little."""
    free = repeats - 1
    return float(deviation * np.sqrt(free / chi2.ppf(1 - NOISE_QUANTILE, free)))


def refuse_drift(answers: np.ndarray, seen: Unpromised) -> None:
    spread = float(np.var(answers, ddof=1))
    if spread > 0 and np.mean(np.diff(answers) ** 2) < DRIFTS * spread:
        refuse_noise(f"answers to the same query drift, from {answers[0]:.6g} to {answers[-1]:.6g}", seen)


def refuse_noise(what: str, seen: Unpromised) -> NoReturn:
    evidence = Evidence("the same query gets the same answer", seen.query, "expected one answer", what)
    raise TargetMismatch("the box is not a single attention head, or noise hides it", evidence)


RAYS_ASKED = 6
FAR_SPACING, CLOSE_SPACING = 0.25, 2.0**-6  # spacings, of the ray's length
LONG_RAY = 64.0  # the longer rays over the shorter ones
BEND = 5.0  # a bend would be (FAR_SPACING / CLOSE_SPACING)^2 = 256 times rougher far than close
GROWS = 8.0  # noise that is a share of the answer would be `LONG_RAY` times larger on the longer rays
PROMISE_TIMES = 3.0  # evenly spread noise has 1.7 times its standard deviation at most, and the estimate is a rough one


def find_promise(oracle: Oracle, mismatch: TargetMismatch, rng: np.random.Generator) -> TargetMismatch:
    """The same mismatch, or one that says which promise would let this box pass, if it made none.

    It takes 3 queries for each ray, and 5 more where the rays are not straight.
    """
    if not oracle.exact or oracle.answers != "value" or mismatch.evidence is None:
        return mismatch
    long = min(LONG_RAY, oracle.reach)
    try:
        rays = rng.standard_normal((RAYS_ASKED, oracle.dim))
        rays *= long / np.linalg.norm(rays, axis=1, keepdims=True)
        ends, close = read_roughness(oracle, rays, CLOSE_SPACING)
        size = float(np.sqrt(np.mean(ends**2)))
        if close <= 8 * (oracle.dim + 8) * oracle.roundoff * size:
            return mismatch
        (_, far), (near, short) = (
            read_roughness(oracle, rays, FAR_SPACING, ends),
            read_roughness(oracle, rays / LONG_RAY, FAR_SPACING),
        )
    except BudgetExceeded:
        return mismatch
    if close * BEND < far:
        return mismatch
    constant = size == 0 or short * GROWS > close
    level = max(short, close) if constant else close / size
    off = f"answers that lie off by about {level:.2g}{' of their size' * (not constant)}"
    at = f"at lengths {long / LONG_RAY:.3g} and {long:.3g}; and {mismatch.evidence}"
    promised = round_number(PROMISE_TIMES * level)
    usual = float(np.sqrt(np.mean((near - near.mean(axis=0)) ** 2)))  # what answers to short tokens differ by
    if promised < (usual if constant else 1):
        advice = f"; then promise {'tolerance' if constant else 'rtol'}={promised:g} to go on"
    else:
        advice = ""  # answers that are all error
    what = "the box is not a single attention head, or its answers are less accurate than promised"
    evidence = Evidence(STRAIGHT_RAYS, mismatch.evidence.query, "expected second differences of 0", f"{off} {at}")
    return TargetMismatch(f"{what}{advice}", evidence, mismatch.best)


def read_roughness(
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
