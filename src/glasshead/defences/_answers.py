"""What becomes of answers: fewer digits (`rounded`, `half`, `bfloat16`), noise that is fresh each time (`gaussian`) or
the same for the same input (`noisy`), or a sign that is sometimes wrong (`flipped`).
"""

from __future__ import annotations

import numpy as np

from .._types import Answering, no_type_check
from .._validate import real, whole
from ._defence import Defence, as_numbers


class rounded(Defence):
    """Answers rounded to so many decimals.

    >>> box = gh.defences.rounded(lambda X: X.sum(axis=(1, 2)), decimals=2)
    >>> box(np.full((1, 1, 1), 0.1249)), box.tolerance
    (array([0.12]), 0.005)

    It keeps `tolerance = 0.5 * 10**-decimals`. Negative decimals round to tens, hundreds and so on.
    """

    @no_type_check
    def __init__(self, f: Answering, decimals: int) -> None:
        self.decimals: int = whole(decimals, "decimals")
        super().__init__(f, f"decimals={decimals}", tolerance=0.5 * 10.0**-self.decimals)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        answers = as_numbers(answers)
        with np.errstate(over="ignore", invalid="ignore"):
            nearest = np.round(answers, self.decimals)
        # Where scaling up overflows there are no decimals left to round.
        return np.where(np.isfinite(nearest), nearest, answers)


class half(Defence):
    """Answers rounded to float16, to nearest, ties to even.

    >>> box = gh.defences.half(lambda X: X.sum(axis=(1, 2)))
    >>> box(np.full((1, 1, 1), 0.1)), box.rtol == 2**-11
    (array([0.09997559]), True)

    It keeps `rtol = 2**-11`, and `tolerance = 2**-25` since tiny numbers have fewer digits. From 65520 on it overflows.
    """

    def __init__(self, f: Answering) -> None:
        super().__init__(f, tolerance=2.0**-25, rtol=2.0**-11)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return answers.astype(np.float16).astype(np.float64)


class bfloat16(Defence):
    """Answers rounded to bfloat16, float32 with 8 significant bits: to nearest, ties to even.

    >>> box = gh.defences.bfloat16(lambda X: X.sum(axis=(1, 2)))
    >>> box(np.full((1, 1, 1), 0.1)), box.rtol == 2**-8
    (array([0.10009766]), True)

    It keeps `rtol = 2**-8`, and `tolerance = 2**-134` for tiny numbers. Just below 2**128 it overflows.
    """

    BITS, SMALLEST = 8, -133  # significant bits, and the exponent of the smallest positive number

    def __init__(self, f: Answering) -> None:
        super().__init__(f, tolerance=2.0**-134, rtol=2.0**-self.BITS)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        # Straight from float64: by way of float32 a number next to a tie would be rounded twice.
        answers = answers.astype(np.float64)
        unit = np.maximum(np.frexp(answers)[1] - self.BITS, self.SMALLEST)
        nearest = np.ldexp(np.rint(np.ldexp(answers, -unit)), unit)
        return np.where(np.abs(nearest) < 2.0**128, nearest, np.copysign(np.inf, nearest))


class gaussian(Defence):
    """Fresh Gaussian noise of standard deviation `sigma` on every answer, every time.

    >>> box = gh.defences.gaussian(lambda X: X.sum(axis=(1, 2)), sigma=0.1)
    >>> X = np.ones((10000, 2, 3))
    >>> bool(abs(box(X).mean() - 6) < 0.01), box.tolerance
    (True, None)

    It promises no tolerance: the mean of n answers to the same query is `sigma / sqrt(n)` off, typically. The same seed
    and the same order of questions give the same noise.
    """

    @no_type_check
    def __init__(self, f: Answering, sigma: float, seed: int = 0) -> None:
        self.sigma: float = real(sigma, "sigma", "a number >= 0", lambda x: x >= 0)
        super().__init__(f, f"sigma={sigma}, seed={seed}", tolerance=None)
        self._rng = np.random.default_rng(whole(seed, "seed", least=0))

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        answers = as_numbers(answers)
        return (answers + self.sigma * self._rng.standard_normal(answers.shape)).astype(answers.dtype)


class flipped(Defence):
    """Whether the answer is positive, and wrong about it with a fixed probability, afresh every time.

    >>> box = gh.defences.flipped(lambda X: X.sum(axis=(1, 2)), probability=0.1)
    >>> bool(abs(box(np.ones((10000, 2, 3))).mean() - 0.9) < 0.02), box.tolerance
    (True, None)

    `f` may answer yes and no, 0 and 1, or numbers; the answers are booleans. It promises only that each is wrong with
    `probability`, independently of the others: the majority of n answers to the same query is wrong exponentially
    rarely in n.
    """

    @no_type_check
    def __init__(self, f: Answering, probability: float, seed: int = 0) -> None:
        self.probability: float = real(probability, "probability", "a number from 0 to 1", lambda x: 0 <= x <= 1)
        super().__init__(f, f"probability={probability}, seed={seed}", tolerance=None)
        self._rng = np.random.default_rng(whole(seed, "seed", least=0))

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        return (answers > 0) ^ (self._rng.random(answers.shape) < self.probability)


GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd: its multiples spread evenly over 64 bits


class noisy(Defence):
    """Bounded noise, spread evenly over `[-tolerance, tolerance]`; the same query gets the same answer every time.

    >>> box = gh.defences.noisy(lambda X: X.sum(axis=(1, 2)), tolerance=0.1)
    >>> X = np.ones((1, 2, 3))
    >>> bool(box(X) == box(X)), bool(0 < abs(box(X) - 6) <= 0.1)
    (True, True)

    It keeps `tolerance`, so asking again and averaging does not help. The noise is a hash of the query and the seed.
    """

    @no_type_check
    def __init__(self, f: Answering, tolerance: float, seed: int = 0) -> None:
        bound = real(tolerance, "tolerance", "a number >= 0", lambda x: x >= 0)
        super().__init__(f, f"tolerance={tolerance}, seed={seed}", tolerance=bound)
        self._bound, self._seed = bound, whole(seed, "seed", least=0)

    def answered(self, answers: np.ndarray, X: np.ndarray) -> np.ndarray:
        answers = as_numbers(answers)
        outputs = answers.shape[1] if answers.ndim == 2 else 1
        hashes = mixed(fingerprints(X, self._seed)[:, None] + multiples(outputs)).reshape(answers.shape)
        unit = (hashes >> np.uint64(11)) * 2.0**-53
        return (answers + self._bound * (2 * unit - 1)).astype(answers.dtype)


def fingerprints(X: np.ndarray, seed: int) -> np.ndarray:
    """One number of 64 bits for each sequence: every entry mixed with its position and the seed, and summed."""
    entries = X.shape[1] * X.shape[2]
    words = (np.ascontiguousarray(X, dtype=np.float64) + 0.0).view(np.uint64).reshape(len(X), entries)  # -0.0 is 0.0
    places = mixed(mixed(np.array([seed % 2**64], np.uint64)) + multiples(entries))
    return mixed(mixed(words ^ places).sum(axis=1, dtype=np.uint64))


def multiples(count: int) -> np.ndarray:
    return np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)


def mixed(z: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): every bit of z moves every bit of the result."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
