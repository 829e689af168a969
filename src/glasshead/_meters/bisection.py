"""Scores from yes and no: the plane on which a box changes its answer, and tokens that set a threshold for a score.

Yes and no tell on which side of the plane `x.v + bias = 0` the mean of two tokens lies, so a direction along the plane
shows nothing: it is measured as the sum of two that lie clearly on a side of it. A score is compared with a threshold
by two tokens, `[rho u + kappa q ; kappa q]`: their lengths set the logit at which the answer changes its sign, and how
well they do is what an answer proves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._linalg import key_pairs
from .._oracles import Oracle
from .._types import Float


@dataclass(frozen=True)
class Halfspace:
    """`v` of norm 1 within `error`; an origin on the plane, `shift` away from zero, up to `offset`."""

    v: np.ndarray
    error: float
    origin: np.ndarray
    offset: float = 0.0

    @property
    def shift(self) -> float:
        return float(np.linalg.norm(self.origin))

    @property
    def bias(self) -> float:
        return 0.0 - float(self.origin @ self.v)

    @property
    def bias_error(self) -> float:
        return self.offset + self.shift * self.error

    def value_error(self, oracle: Oracle, length: np.ndarray | float) -> np.ndarray | float:
        """By how much the box's `x.v + bias` may be off for tokens of this length, as seen from the origin."""
        return self.offset + value_rounding(oracle, length + 2 * self.shift)


def value_rounding(oracle: Oracle, length: np.ndarray | float) -> np.ndarray | float:
    """How far a dot product of that length with v may be off, once in the box and once in our own arithmetic."""
    return 2 * (oracle.dim + 8) * oracle.roundoff * length


@dataclass(frozen=True)
class KeyBias:
    """A key bias, known by its dot product with each of n keys to within a width."""

    vector: np.ndarray
    inverse: Float[np.ndarray, "d n"]
    widths: Float[np.ndarray, " n"]

    def error(self, directions: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
        """How far the dot product with each direction may be off."""
        return np.abs(directions @ self.inverse) @ self.widths

    @property
    def total(self) -> float:
        return float(np.linalg.norm(self.inverse, 2) * np.linalg.norm(self.widths))


FAINT_SIDE = 2.0**-6  # of 1/sqrt(d): directions that lean less than this to a side of the plane are measured as two


@dataclass(frozen=True)
class Sums:
    """An `(m, n)` block of scores: entry `at` is a sum of `weight` times the score of `keys[k]` with `queries[q]`."""

    shape: tuple[int, int]
    at: tuple[np.ndarray, np.ndarray]
    weight: np.ndarray
    keys: np.ndarray
    queries: np.ndarray
    k: np.ndarray
    q: np.ndarray

    def add(self, score: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums, and how far each may be off."""
        t, halfwidth = np.zeros((2, *self.shape))
        np.add.at(t, self.at, self.weight * score)
        np.add.at(halfwidth, self.at, np.abs(self.weight) * error)
        return t, halfwidth


def sums(v: Float[np.ndarray, " d"], B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Sums:
    """`a^T W b` for m query directions b and n key directions a, the same ones for all b or n for each of them."""
    (m, d), n = B.shape, A.shape[-2]
    keys, of_key = on_clear_sides(v, A.reshape(-1, d))
    queries, of_query = on_clear_sides(v, B)
    row = np.arange(n) + (n if A.ndim == 3 else 0) * np.arange(m)[:, None]
    weight = of_key[row][..., None] * of_query[:, None, None, :]
    i, j, a, b = np.nonzero(weight)
    return Sums(
        (m, n), (i, j), weight[i, j, a, b], keys.reshape(-1, d), queries.reshape(-1, d), 2 * row[i, j] + a, 2 * i + b
    )


def on_clear_sides(v: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each direction as a sum of one or two that lie clearly on a side of the plane, and the weights of the sum."""
    sides = np.abs(directions @ v) * np.sqrt(len(v))
    faint = np.flatnonzero(sides < FAINT_SIDE * np.linalg.norm(directions, axis=1))
    parts = np.stack([directions, np.zeros_like(directions)], axis=1)
    weights = np.tile([1.0, 0.0], (len(directions), 1))
    if len(faint):
        parts[faint], weights[faint] = key_pairs(v, directions[faint], np.random.default_rng(0))
    return parts, weights


ROUND_BYTES = 64 * 2**20  # tokens built at a time; a round of questions is one request unless it needs more
STEEPEST_LOGIT = 4.0  # the largest logit asked about: beyond it the ratio is too close to 0 or 1 to be set precisely
PULL = 1.0  # the largest logit that the key bias alone may give to a key
NEWTON_STEPS = 12


def read_outweighs(oracle: Oracle, v: np.ndarray, keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Whether the score of each key token against its query token is above the logit that their values set."""
    return np.asarray(oracle(comparing_sequences(keys, queries))) == (keys @ v > 0)


def comparing_sequences(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The sequences of two tokens that ask about such scores."""
    return np.stack([keys + queries, queries], axis=1)


def comparing_lengths(
    tau: np.ndarray, product: float, alpha: np.ndarray, beta: np.ndarray, pull: np.ndarray, longest: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """`rho, kappa` such that the answer to `[rho u + kappa q ; kappa q]` says whether `u^T W q` is above `tau`.

    Here `u.v = alpha`, `q.v = -beta`, and the key bias adds `rho pull >= 0` to the logit. `rho kappa` is `product`, or
    less where tau or the pull would saturate the sigmoid or a token would be longer than `longest`. What remains is to
    choose the logit theta, with `sigma(theta) = kappa beta / (rho alpha)`, so that `theta = rho kappa tau + rho pull`.
    """
    key, query = np.sqrt(beta / alpha), np.sqrt(alpha / beta)
    with np.errstate(divide="ignore", over="ignore"):
        P = np.minimum(product, STEEPEST_LOGIT / np.abs(tau))
        P = np.minimum(P, (PULL / (pull * key)) ** 2)
    P = np.minimum(P, longest**2 * np.minimum(key, query) ** 2)
    # Both terms grow with P by at least its root, so shrinking it by the square of the excess is enough.
    length = np.sqrt(P) * (key * np.sqrt(1 + np.exp(P * np.abs(tau))) + query)
    root = np.sqrt(P) * np.minimum(1.0, longest / length)
    stretch = np.sqrt(1 + np.exp(-solve_logit(root**2 * tau, pull * root * key)))
    return root * key * stretch, root * query / stretch


def solve_logit(y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The theta with `theta - c sqrt(1 + exp(-theta)) = y`, for c >= 0.

    The left side is concave and increasing, so Newton's method climbs to the root from `y + c` and never passes it.
    """
    theta = y + c
    for _ in range(NEWTON_STEPS if np.any(c) else 0):
        decay = np.exp(-theta)
        stretch = np.sqrt(1 + decay)
        theta = theta + (y - theta + c * stretch) / (1 + c * decay / (2 * stretch))
    return theta


def logit_range(
    space: Halfspace, oracle: Oracle, key: np.ndarray, query: np.ndarray, alpha: np.ndarray, beta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Between which ends the logit lies that an answer compares with: v is known up to its error, and the box rounds.

    `key` and `query` are the lengths of the two tokens, `alpha` and `-beta` their values.
    """
    ratio = beta / alpha
    direction = space.error + value_rounding(oracle, 1.0)
    above, below = direction * key / alpha, direction * query / beta
    value = space.value_error(oracle, key + 2 * query) / beta
    # The true ratio is this one times (1 +- below +- value) / (1 +- above); a weight itself is right to 8 ulp.
    off = (below + value + above) / np.maximum(1 - above, 2.0**-50) + 8 * oracle.roundoff
    odds = ratio * off / (1 - ratio)
    theta = np.log(ratio) - np.log1p(-ratio)
    with np.errstate(divide="ignore"):
        lower = np.log1p(-np.minimum(off, 1.0)) - np.log1p(odds)
        upper = np.log1p(off) - np.log1p(-np.minimum(odds, 1.0))
    return theta + lower, theta + upper
