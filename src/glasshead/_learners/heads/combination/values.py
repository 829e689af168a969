"""One combination of all outputs to learn from, and the value maps of each output by least squares.

In the combination every output counts alike, and its promise follows from theirs. With all scores known, the answer
`bias + sum_h (q + sigma(z.k_h) z) B_h` to `[q + z ; q]`, `k_h = W_h q + key_bias_h`, is one linear equation in all
`B_h` for each output. Answers count by their noise, to which errors of W add unless every head is saturated; where
those on record leave some values unclear, fresh saturated pairs are asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from ...._learned import Promise
from ...._models import MultiHead
from ...._oracles import SINGLE, Combined, Oracle, Recorded
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


EQUATION_ROUNDINGS = 4.0
# Roundings that a score is usually off by: answers that do not depend on scores are worth that much more.
SCORE_ROUNDINGS = 2.0**10
SCORE_UNSURE = 1e-3  # of a score's size: heads further off are no recovery. One so close to 0 may have the other sign


@dataclass(frozen=True)
class Equations:
    """`rows @ B = right`, each divided by its noise: what is left is off by about `noise_unit`, of an output's size."""

    rows: Float[np.ndarray, "n Hd"]
    right: Float[np.ndarray, "n k"]


def noise_unit(oracle: Oracle) -> float:
    """The relative error of an answer."""
    return oracle.rtol + EQUATION_ROUNDINGS * float(np.sqrt(oracle.dim)) * oracle.roundoff


def constant_noise(oracle: Oracle, sizes: OutputSizes) -> float:
    """The error that does not grow with the tokens, as the length of a token with that share of an answer."""
    size = sizes.each
    seen = size > 0
    constant = oracle.tolerance + (oracle.rtol + oracle.roundoff) * np.abs(sizes.bias[seen])
    return float((constant / size[seen]).max(initial=0.0)) / noise_unit(oracle)


def scores_of(model: MultiHead, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`z.k_h (n, H)`, and how large these could be for tokens of such lengths."""
    z, keys = X[:, 0] - X[:, 1], model.keys_against(X[:, 1])
    return np.einsum("nd,hnd->nh", z, keys), np.linalg.norm(z, axis=1)[:, None] * np.linalg.norm(keys, axis=2).T


def noise_of(X: np.ndarray, scores: np.ndarray, steep: np.ndarray, constant: float) -> Float[np.ndarray, " n"]:
    """The noise of each answer, as a length of tokens; errors of W add to it unless all heads are saturated."""
    least = np.maximum(0.0, np.abs(scores) - SCORE_UNSURE * steep)
    depends = (steep * expit(least) * expit(-least)).max(axis=1)
    return np.linalg.norm(X, axis=2).max(axis=1) * (1 + SCORE_ROUNDINGS * depends) + constant


def equations(model: MultiHead, X: np.ndarray, answers: np.ndarray, oracle: Oracle, sizes: OutputSizes) -> Equations:
    scores, steep = scores_of(model, X)
    noise = noise_of(X, scores, steep, constant_noise(oracle, sizes))
    scale = np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0)[:, None]
    q, z = X[:, 1], X[:, 0] - X[:, 1]
    rows = (q[:, None] + expit(scores)[:, :, None] * z[:, None]).reshape(len(X), -1)
    return Equations(rows * scale, (answers - sizes.bias) * scale)


SLAB = 2  # rows for each unknown that are looked at together, the least noisy ones first
# Times the noise of an answer: values known so well need no more answers, or no new ones.
FINE_VALUES, KNOWN_WELL = 2.0**3, 2.0**8
NOISY_ANSWER = 16.0  # times the noise of an answer that does not depend on W
KEYS_AT_ONCE = 2**20  # numbers of keys made at a time
FRESH_PER_UNKNOWN, FRESH_SPARE = 1.25, 8  # fresh queries for each unknown that is known worse, and beyond
FRESH_ROUNDS = 3
CANDIDATES = 4  # drawn for each query asked; the least noisy are sent
FRESH_SHARE = 0.25  # of the longest token


@dataclass
class Triangle:
    """A least squares problem, reduced to a triangle as rows come in: it takes no more room for more of them."""

    R: np.ndarray
    right: np.ndarray
    singular_values: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.singular_values = np.zeros(self.R.shape[1])

    def add(self, rows: np.ndarray, right: np.ndarray) -> None:
        unknowns = self.R.shape[1]
        both = np.asarray(np.linalg.qr(np.block([[self.R, self.right], [rows, right]]), mode="r"))[:unknowns]
        self.R, self.right = both[:, :unknowns], both[:, unknowns:]
        missing = self.R.shape[1] - len(self.R)
        self.singular_values = np.append(np.linalg.svd(self.R, compute_uv=False), np.zeros(missing))

    @property
    def unclear(self) -> int:
        """How many of the unknowns need more."""
        return int(np.sum(self.singular_values < 1 / KNOWN_WELL))

    def solve(self) -> np.ndarray:
        return solve_triangular(self.R, self.right)


@dataclass(frozen=True)
class ValueMaps:
    """Every `B_h`, and the error to expect, relative to the size of each output."""

    B: Float[np.ndarray, "H d k"]
    error: float


def read_value_maps(model: MultiHead, record: Recorded, sizes: OutputSizes, rng: np.random.Generator) -> ValueMaps:
    """`B_h (d, k)` for the heads of `model`, whose own values do not matter."""
    record.stage = "reading the values of all outputs"
    unknowns, k = len(model.heads) * model.dim, len(sizes.bias)
    triangle = Triangle(np.empty((0, unknowns)), np.empty((0, k)))
    add_kept(triangle, model, record, sizes)
    for _ in range(FRESH_ROUNDS):
        if triangle.unclear == 0:
            break
        X = fresh_queries(model, record, sizes, int(FRESH_PER_UNKNOWN * triangle.unclear) + FRESH_SPARE, rng)
        add_answers(triangle, model, X, np.asarray(record.inner(X)), record, sizes)
    least = triangle.singular_values[-1]
    if least == 0:
        return ValueMaps(np.zeros((len(model.heads), model.dim, k)), np.inf)
    return ValueMaps(triangle.solve().reshape(-1, model.dim, k), noise_unit(record) / least)


def add_kept(triangle: Triangle, model: MultiHead, record: Recorded, sizes: OutputSizes) -> None:
    """The best answers first, for as long as they help; noisy ones only if it takes them."""
    X, answers = record.kept()
    noise = relative_noise(model, X, record, sizes)
    best, each = np.argsort(noise, kind="stable"), SLAB * triangle.R.shape[1]
    for part in (best[start : start + each] for start in range(0, len(X), each)):
        goal = KNOWN_WELL if noise[part[0]] > NOISY_ANSWER else FINE_VALUES
        if triangle.singular_values[-1] > 1 / goal:
            break
        add_answers(triangle, model, X[part], answers[part], record, sizes)


def add_answers(
    triangle: Triangle, model: MultiHead, X: np.ndarray, answers: np.ndarray, oracle: Oracle, sizes: OutputSizes
):
    new = equations(model, X, answers, oracle, sizes)
    triangle.add(new.rows, new.right)


def fresh_queries(
    model: MultiHead, oracle: Oracle, sizes: OutputSizes, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Pairs of tokens so long that every head takes one of them, as far as they may be: then W does not matter."""
    X = rng.standard_normal((CANDIDATES * count, 2, model.dim))
    X *= FRESH_SHARE * oracle.reach / np.linalg.norm(X, axis=2, keepdims=True)
    X[:, 1] *= rng.choice([1.0, 2.0**-10, 2.0**-20], (len(X), 1))  # where key biases matter, and where they do not
    if oracle.roundoff >= SINGLE:
        X = X.astype(np.float32).astype(np.float64)
    return X[np.argsort(relative_noise(model, X, oracle, sizes))[:count]]


def relative_noise(model: MultiHead, X: np.ndarray, oracle: Oracle, sizes: OutputSizes) -> np.ndarray:
    constant, each = constant_noise(oracle, sizes), max(1, KEYS_AT_ONCE // (len(model.heads) * model.dim))
    parts = [X[start : start + each] for start in range(0, len(X), each)]
    noise = np.concatenate([np.empty(0), *(noise_of(part, *scores_of(model, part), constant) for part in parts)])
    size = np.linalg.norm(X, axis=2).max(axis=1)
    return np.divide(noise, size, out=np.full_like(noise, np.inf), where=size > 0)
