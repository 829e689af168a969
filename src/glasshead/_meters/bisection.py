"""Scores from yes and no: the plane on which a box changes its answer, and bisection, side by side.

Yes and no tell on which side of the plane `x.v + bias = 0` the mean of two tokens lies, so a direction along the plane
shows nothing: it is measured as the sum of two that lie clearly on a side of it. A score is compared with a threshold
by two tokens, `[rho u + kappa q ; kappa q]`: their lengths set the logit at which the answer changes its sign, and how
well they do is what an answer proves. Every unknown asks one question per round, all of them in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
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


# `read_above(which, thresholds)`: is each of the unknowns with these indices above its threshold?
Above = Callable[[np.ndarray, np.ndarray], np.ndarray]

ALIKE_ANSWERS = 6  # answers that all point one way before the end of the range itself is asked about
STAYED = 3  # answers that all point one way: one unknown in four has as many in the end
SOUGHT_AGAIN = 4  # times: answers of which one in ten is wrong leave one end in 10,000
FINE = 2.0**10  # how much smaller than the range intervals are that something hangs on; others only say where to look
OUT_OF_RANGE = 2.0**200  # times the range expected: what lies beyond that is no number


class Unbounded(Exception):
    """An unknown that is larger than whatever it is compared with; `which` is its index."""

    def __init__(self, which: int):
        super().__init__(f"unknown {which} lies beyond every range")
        self.which = which


def find_intervals(
    read_above: Above, reach: Float[np.ndarray, " n"], width: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """`lo < x <= hi` for n unknowns x, no further apart than `width`, with every end asked about.

    Each is taken to lie within `reach` of zero. One that always answers alike may not: then the end of its range is
    asked about as well, and the range doubled for as long as need be. The others ask as often as they are halved. Where
    the last answers are all alike the end that stayed is asked about once more: one wrong answer has that effect. If
    one was wrong, others may be: then both ends of all are asked about, and what they do not enclose is sought again.
    """
    lo, hi, stayed = bisect(read_above, np.arange(len(reach)), reach, width)
    doubted = np.flatnonzero(reach >= FINE * width)
    which = doubted[~np.isnan(stayed[doubted])]
    wrong = which[read_above(which, stayed[which]) != (stayed[which] == lo[which])] if len(which) else which
    for _ in range(SOUGHT_AGAIN):
        if len(wrong) == 0:
            break
        lo[wrong], hi[wrong], _ = bisect(read_above, wrong, reach[wrong], width[wrong])
        wrong = doubted[~read_above(doubted, lo[doubted]) | read_above(doubted, hi[doubted])]
        doubted = wrong
    return lo, hi


def bisect(
    read_above: Above, names: np.ndarray, reach: np.ndarray, width: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intervals of the unknowns of these names, and the end of each that stayed where it was for `STAYED` answers."""
    sign = np.where(read_above(names, np.zeros(len(reach))), 1.0, -1.0)
    near, far = np.zeros(len(reach)), reach.copy()  # near < |x| <= far, unless
    unseen = np.ones(len(reach), bool)  # nobody has asked about far
    asked, alike, last = 1, np.zeros(len(reach), int), np.zeros(len(reach), bool)
    while True:
        middle = (near + far) / 2
        wide = (far - near > width) & (near < middle) & (middle < far)
        which = np.flatnonzero(wide | unseen)
        if len(which) == 0:
            stayed = np.where(alike >= STAYED, sign * np.where(last, far, near), np.nan)
            return np.where(sign > 0, near, -far), np.where(sign > 0, far, -near), stayed
        at_end = (unseen & (~wide | (asked >= ALIKE_ANSWERS)))[which]
        at = np.where(at_end, far[which], middle[which])
        farther = read_above(names[which], sign[which] * at) == (sign[which] > 0)
        near[which] = np.where(farther, at, near[which])
        far[which] = np.where(farther, np.where(at_end, 2 * at, far[which]), at)
        alike[which] = np.where(farther == last[which], alike[which] + 1, 1)
        last[which] = farther
        unseen[which] &= farther
        asked += 1
        if np.any(far > OUT_OF_RANGE * reach):
            raise Unbounded(int(names[np.argmax(far / reach)]))


def find_exponents(read_above: Above, count: int, lowest: int, highest: int) -> np.ndarray:
    """For each of `count` unknowns x the e from `lowest` to `highest` with `2^(e-1) < |x| <= 2^e`, else `highest`.

    `lowest` stands for everything smaller, zero too.
    """
    sign = np.where(read_above(np.arange(count), np.zeros(count)), 1.0, -1.0)
    below, least = np.full(count, lowest - 1), np.full(count, highest)
    while np.any(least - below > 1):
        which = np.flatnonzero(least - below > 1)
        middle = (below[which] + least[which]) // 2
        farther = read_above(which, sign[which] * 2.0**middle) == (sign[which] > 0)
        below[which] = np.where(farther, middle, below[which])
        least[which] = np.where(farther, least[which], middle)
    return least


ROUND_BYTES = 64 * 2**20  # tokens built at a time; a round of questions is one request unless it needs more
STEEPEST_LOGIT = 4.0  # the largest logit asked about: beyond it the ratio is too close to 0 or 1 to be set precisely
PULL = 1.0  # the largest logit that the key bias alone may give to a key
NEWTON_STEPS = 12


def read_outweighs(oracle: Oracle, v: np.ndarray, keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Whether the score of each key token against its query token is above the logit that their values set."""
    yes = np.asarray(oracle(np.stack([keys + queries, queries], axis=1)))
    return yes == (keys @ v > 0)


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
