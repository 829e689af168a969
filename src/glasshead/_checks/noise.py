"""Noise that nobody promised, new for every answer: noticed, measured by repetition, and told from no head at all.

It can be averaged away. What to do about noise that is always the same says `promise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from scipy.stats import chi2

from .._errors import ASKED_AGAIN, Evidence, TargetMismatch
from .._meters import Values
from .._oracles import CERTAIN, Oracle

REPEATS = 16  # of a short token and of a long one
NOISE_QUANTILE = 0.99  # that noise is no larger than the estimate says
LARGER_DEVIATION = 2.5  # standard deviations of 16 answers each differ that much by chance once in a thousand times
RANDOM = 0.1  # of the answer: whatever is behind noise that strong, dropout say, it is no head with noise on top
ROUNDED_PROBES = 12  # one-row answers whose roundings are looked at
ROUNDED_ONCE = 3.0  # their mean square over what one rounding each makes of it, which is about 1
ALWAYS_THE_SAME = (
    "another beside other queries, always the same there: does a part of it compute with fewer digits than it answers?"
)
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
    if signal <= CERTAIN * long / np.sqrt(REPEATS) or (grows and cautious(long, REPEATS) > RANDOM * signal):
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


def check_unmeasured(oracle: Oracle, seen: Unpromised) -> NoReturn:
    """Refuses what is no noise of the size that was measured, and no noise at all where two repeats are the same."""
    one, again = (np.asarray(oracle(seen.query[None])) for _ in range(2))
    if not np.array_equal(one, again):
        refuse_noise("noise that was not there when it was measured", seen)
    evidence = Evidence(ASKED_AGAIN, seen.query, "expected one answer", ALWAYS_THE_SAME)
    raise TargetMismatch("the box is not a single attention head", evidence)


def refuse_noise(what: str, seen: Unpromised) -> NoReturn:
    evidence = Evidence(ASKED_AGAIN, seen.query, "expected one answer", what)
    raise TargetMismatch("the box is not a single attention head, or noise hides it", evidence)
