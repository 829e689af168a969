"""The combination of outputs that is learned from: every output counts alike, and its promise follows from theirs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._learned import Promise
from ...._oracles import Combined, Oracle
from ...._types import Float

SIZE_QUERIES = 6
SIZE_SHARE = 0.25  # of the longest token: these only have to be long enough to stand above every bias
GARBAGE = 2.0**10  # roundings of the largest output: an output no larger than that may consist of nothing else


@dataclass(frozen=True)
class OutputSizes:
    """The bias, and what a few queries added to it per unit of the tokens' length: `moved` is a row for each."""

    bias: Float[np.ndarray, " k"]
    moved: Float[np.ndarray, "n k"]
    roundoff: float

    @property
    def each(self) -> Float[np.ndarray, " k"]:
        """The size of every output; 0 where that may be rounding of the others."""
        size = np.abs(self.moved).max(axis=0)
        return np.where(size > GARBAGE * self.roundoff * size.max(), size, 0.0)


def read_sizes(oracle: Oracle, rng: np.random.Generator) -> OutputSizes:
    """Two tokens a query: the values of all heads may add up to 0, and then one token alone says nothing."""
    oracle.stage = "reading the size of every output"
    length = SIZE_SHARE * oracle.reach
    X = rng.standard_normal((SIZE_QUERIES, 2, oracle.dim))
    X *= length / np.linalg.norm(X, axis=2, keepdims=True)
    bias = np.asarray(oracle(np.zeros((1, 1, oracle.dim))))[0]
    return OutputSizes(bias, (np.asarray(oracle(X)) - bias) / length, oracle.roundoff)


WEIGHT_DRAWS = 16  # of weights, to choose from: outputs that are alike may cancel in some of them
LARGEST_RTOL = 0.5  # the largest rtol that is handed on: no heads are recovered with less


def combined(oracle: Oracle, weights: Float[np.ndarray, " k"], sizes: OutputSizes) -> Combined:
    """The box that answers `answers @ weights`, with the promise that follows from the one for each output.

    Errors of all outputs may add up where their values cancel, so a relative promise is worth less. What the bias has
    of it does not grow with the tokens.
    """
    absolute = np.abs(weights)
    tolerance = float(oracle.tolerance * absolute.sum() + oracle.rtol * absolute @ np.abs(sizes.bias))
    rtol = min(LARGEST_RTOL, oracle.rtol * cancelled(weights, sizes)) if oracle.rtol else 0.0
    return Combined(oracle, weights, tolerance, rtol)


def promise_for_each(oracle: Combined, sizes: OutputSizes) -> Promise:
    """What was promised for the combination, in the unit of every output: all that heads may be held to."""
    size = float(np.abs(sizes.moved @ oracle.weights).max())
    unit = sizes.each / size if size > 0 else 0 * sizes.each
    return Promise(np.maximum(oracle.inner.tolerance, oracle.tolerance * unit), oracle.rtol)


def cancelled(weights: np.ndarray, sizes: OutputSizes) -> float:
    """How many times larger the outputs are than their combination, typically."""
    apart, together = np.abs(sizes.moved) @ np.abs(weights), sizes.moved @ weights
    size = float(np.linalg.norm(together))
    return float(np.linalg.norm(apart)) / size if size > 0 else 1.0


def generic_weights(sizes: OutputSizes, tolerance: float, rng: np.random.Generator) -> Float[np.ndarray, " k"]:
    """Weights that make every output count alike, whatever its unit; of a few draws the one that cancels least.

    No head with values in any output has none in such a combination, unless by accident. Under a constant tolerance
    small outputs would add more noise than anything else, so there all have the same unit.
    """
    size = sizes.each if tolerance == 0 else np.where(sizes.each > 0, sizes.each.max(), 0.0)
    unit = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0) / np.sqrt(max(1, np.count_nonzero(size)))
    draws = unit * rng.uniform(0.5, 1.5, (WEIGHT_DRAWS, len(unit))) * rng.choice([-1.0, 1.0], (WEIGHT_DRAWS, len(unit)))
    return min(draws, key=lambda weights: cancelled(weights, sizes))
