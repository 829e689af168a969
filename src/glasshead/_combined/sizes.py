"""How large each output is, from a handful of queries with very long tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._meter.lever import longest
from .._oracle import Oracle
from .._types import Float

QUERIES = 6
SHARE = 0.25  # of the longest token: these only have to be long enough to stand above every bias
GARBAGE = 2.0**10  # roundings of the largest output: an output no larger than that may consist of nothing else


@dataclass(frozen=True)
class Sizes:
    """The bias, and what a few queries added to it per unit of the tokens' length: `moved` is a row for each."""

    bias: Float[np.ndarray, " k"]
    moved: Float[np.ndarray, "n k"]
    roundoff: float

    @property
    def each(self) -> Float[np.ndarray, " k"]:
        """The size of every output; 0 where that may be rounding of the others."""
        size = np.abs(self.moved).max(axis=0)
        return np.where(size > GARBAGE * self.roundoff * size.max(), size, 0.0)


def read_sizes(oracle: Oracle, rng: np.random.Generator) -> Sizes:
    """Two tokens a query: the values of all heads may add up to 0, and then one token alone says nothing."""
    oracle.stage = "reading the size of every output"
    length = SHARE * longest(oracle)
    X = rng.standard_normal((QUERIES, 2, oracle.dim))
    X *= length / np.linalg.norm(X, axis=2, keepdims=True)
    bias = np.asarray(oracle(np.zeros((1, 1, oracle.dim))))[0]
    return Sizes(bias, (np.asarray(oracle(X)) - bias) / length, oracle.roundoff)
