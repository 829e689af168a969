"""What one bit says about a score.

Seen from an origin on the plane `f = 0`, take a key k and a query q on opposite sides of it, `k.v > 0 > q.v`. The
sequence `[k + q ; q]` has the value `q.v + sigma(s) k.v` with `s = k.(W q + key_bias)`. It is positive exactly when
`sigma(s) > |q.v| / k.v`, so one answer says whether s is above the logit of that ratio; and the ratio can be made
anything by the lengths of k and q. With both tokens on their other sides the answer is the opposite one.
"""

from __future__ import annotations

import numpy as np

from .._oracle import Oracle
from .halfspace import Halfspace, rounding

BLOCK_BYTES = 64 * 2**20  # tokens built at a time; a round of questions is one request unless it needs more
STEEPEST = 4.0  # the largest logit asked about: beyond it the ratio is too close to 0 or 1 to be set precisely
PULL = 1.0  # the largest logit that the key bias alone may give to a key
NEWTON = 12


def outweighs(oracle: Oracle, v: np.ndarray, keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Whether the score of each key token against its query token is above the logit that their values set."""
    yes = np.asarray(oracle(np.stack([keys + queries, queries], axis=1)))
    return yes == (keys @ v > 0)


def lengths(
    tau: np.ndarray, product: float, alpha: np.ndarray, beta: np.ndarray, pull: np.ndarray, longest: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """`rho, kappa` such that the answer to `[rho u + kappa q ; kappa q]` says whether `u^T W q` is above `tau`.

    Here `u.v = alpha`, `q.v = -beta`, and the key bias adds `rho pull >= 0` to the logit. `rho kappa` is `product`, or
    less where tau or the pull would saturate the sigmoid or a token would be longer than `longest`. What remains is to
    choose the logit theta, with `sigma(theta) = kappa beta / (rho alpha)`, so that `theta = rho kappa tau + rho pull`.
    """
    key, query = np.sqrt(beta / alpha), np.sqrt(alpha / beta)
    with np.errstate(divide="ignore", over="ignore"):
        P = np.minimum(product, STEEPEST / np.abs(tau))
        P = np.minimum(P, (PULL / (pull * key)) ** 2)
    P = np.minimum(P, longest**2 * np.minimum(key, query) ** 2)
    # Both terms grow with P by at least its root, so shrinking it by the square of the excess is enough.
    length = np.sqrt(P) * (key * np.sqrt(1 + np.exp(P * np.abs(tau))) + query)
    root = np.sqrt(P) * np.minimum(1.0, longest / length)
    stretch = np.sqrt(1 + np.exp(-solve(root**2 * tau, pull * root * key)))
    return root * key * stretch, root * query / stretch


def solve(y: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The theta with `theta - c sqrt(1 + exp(-theta)) = y`, for c >= 0.

    The left side is concave and increasing, so Newton's method climbs to the root from `y + c` and never passes it.
    """
    theta = y + c
    for _ in range(NEWTON if np.any(c) else 0):
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
    direction = space.error + rounding(oracle, 1.0)
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
