from __future__ import annotations

import numpy as np

from .._numbers import real, whole
from ._defence import Defence, as_numbers

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd: its multiples spread evenly over 64 bits


class noisy(Defence):
    """Bounded noise, spread evenly over `[-tolerance, tolerance]`; the same query gets the same answer every time.

    >>> box = gh.defences.noisy(lambda X: X.sum(axis=(1, 2)), tolerance=0.1)
    >>> X = np.ones((1, 2, 3))
    >>> bool(box(X) == box(X)), bool(0 < abs(box(X) - 6) <= 0.1)
    (True, True)

    It keeps `tolerance`, so asking again and averaging does not help. The noise is a hash of the query and the seed.
    """

    def __init__(self, f, tolerance, seed=0):
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
