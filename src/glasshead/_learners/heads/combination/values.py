"""Value maps of all outputs by least squares, from answers that were asked for anyway.

With all scores known, the answer `bias + sum_h (q + sigma(z.k_h) z) B_h` to `[q + z ; q]`, `k_h = W_h q + key_bias_h`,
is one linear equation in all `B_h` for each output. Answers count by their noise, to which errors of W add unless every
head is saturated; where those on record leave some values unclear, fresh saturated pairs are asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from ...._meters import SINGLE
from ...._models import MultiHead
from ...._oracles import Oracle, Recorded
from ...._types import Float
from .outputs import OutputSizes

EQUATION_ROUNDINGS = 4.0
# Roundings that a score is usually off by: answers that do not depend on scores are worth that much more.
SCORE_ROUNDINGS = 2.0**10
SCORE_UNSURE = 1e-3  # of a score's size: heads further off are no recovery. One so close to 0 may have the other sign


@dataclass(frozen=True)
class Equations:
    """`rows @ B = right`, each divided by its noise: what is left is off by about `unit` of an output's size."""

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
FINE_VALUES, KNOWN_WELL = (
    2.0**3,
    2.0**8,
)  # times the noise of an answer: values known so well need no more answers, or no new ones
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
        Q, self.R = np.linalg.qr(np.vstack([self.R, rows]))
        self.right = Q.T @ np.vstack([self.right, right])
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
