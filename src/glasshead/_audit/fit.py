"""The other attacker: no theorems, only a fit. Where exact reading refuses, a head is fitted to many coarse answers.

A defence that stops `gh.recover` need not stop least squares: answers of two digits are poor equations, but a budget
buys many of them. So nothing is said to have held before this was tried, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse.linalg import LinearOperator
from scipy.special import softmax

from .._models import Attention
from .._oracles import Oracle

FITTED = Attention.family  # what is fitted, whatever the box is
FIT_TOKENS = 4  # of the sequences asked: long enough for attention to choose, short enough for every token to count
SHORTEST_SHARE = 2.0**-5  # of the longest token: scores are then a thousandth as large, and no softmax is saturated
LEAST_EQUATIONS = 1.5  # answers for each parameter: with fewer there is nothing to average
FIRST_EQUATIONS = 6  # for each parameter, to begin with
MORE_ANSWERS = 4  # times as many answers, where those so far did not do
NUMBERS = 2**25  # of all tokens together, which the fit holds in memory: 256 MiB
FIT_STEPS = 10  # of the fit, for each of its stages
LINEAR_STEPS = 30  # of the linear solver in each of them
STAGES = {0.25: 1e-2, 1.0: 1e-3}  # of the longest token: where scores are small the fit is easy; and how far
# the misfit still has to fall in a step to go on


@dataclass(frozen=True)
class FittedHead:
    """A head fitted to so many answers."""

    model: Attention
    queries: int


def learn_by_fit(oracle: Oracle, longest: float, budget: int, seed: int) -> Iterator[FittedHead]:
    """Ask random sequences with tokens of many lengths up to `longest`, and fit W, v and both biases to the answers: to
    few of them first, then to four times as many, as far as budget and memory go; nothing where these are too small.

    Signs are fitted by the hyperbolic tangent of a head's answers, which bends where they are sure and bears that some
    are wrong, as many as `oracle.flips` says.
    """
    d = oracle.dim
    parameters = d * d + 2 * d + 1
    most = min(budget, NUMBERS // (FIT_TOKENS * d))
    rng = np.random.default_rng([seed, d])
    signs = oracle.answers == "sign"
    X, y, theta = np.empty((0, FIT_TOKENS, d)), np.empty(0), None
    while len(y) < most and most >= LEAST_EQUATIONS * parameters:
        count = min(most, MORE_ANSWERS * len(y) or FIRST_EQUATIONS * parameters)
        fresh = rng.standard_normal((count - len(y), FIT_TOKENS, d))
        sizes = longest * SHORTEST_SHARE ** rng.uniform(0, 1, (len(fresh), 1, 1))
        fresh *= sizes / np.linalg.norm(fresh, axis=-1, keepdims=True)
        answers = np.asarray(oracle(fresh), dtype=np.float64)
        X, y = np.concatenate([X, fresh]), np.concatenate([y, 2 * (answers > 0) - 1.0 if signs else answers])
        if theta is None:
            theta = even_head(X, y)
        lengths = np.linalg.norm(X[:, 0], axis=-1)
        for stage, enough in STAGES.items():
            some = lengths <= stage * longest
            theta = nearest_head(theta, X[some], y[some], 1 - 2 * oracle.flips if signs else None, enough)
        W, u, v, bias = parts_of(theta, d)
        yield FittedHead(Attention(W, v, key_bias=u, bias=bias), count)


def even_head(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """W = 0, where every token counts the same, and the v and bias that fit best then."""
    d = X.shape[2]
    means = np.column_stack([X.mean(axis=1), np.ones(len(X))])
    return np.concatenate([np.zeros(d * d + d), np.linalg.lstsq(means, y, rcond=None)[0]])


def parts_of(theta: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """W, key bias, v and bias."""
    return theta[: d * d].reshape(d, d), theta[d * d : d * d + d], theta[d * d + d : -1], float(theta[-1])


def nearest_head(theta: np.ndarray, X: np.ndarray, y: np.ndarray, sure: float | None, enough: float) -> np.ndarray:
    """Gauss-Newton in a trust region, its linear steps by LSMR: the Jacobian is never written down. `sure` is how much
    more often signs are right than wrong, None where answers are numbers."""
    d = X.shape[2]
    Q, spread = X[:, -1], float(np.std(y)) or 1.0

    def forward(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Answers, how steeply they follow those of the head, its weighted mean token, and how that follows scores."""
        W, u, v, bias = parts_of(theta, d)
        weights = softmax(np.einsum("bnd,bd->bn", X, Q @ W.T + u), axis=1)
        mean = np.einsum("bn,bnd->bd", weights, X)
        slopes = weights * (X @ v - (mean @ v)[:, None])
        answers, slope = mean @ v + bias, np.einsum("bn,bnd->bd", slopes, X)
        if sure is None:
            return answers, np.ones_like(answers), mean, slope
        return sure * np.tanh(answers), sure * (1 - np.tanh(answers) ** 2), mean, slope

    def misfit(theta: np.ndarray) -> np.ndarray:
        return (forward(theta)[0] - y) / spread

    def jacobian(theta: np.ndarray) -> LinearOperator:
        _, steep, mean, slope = forward(theta)

        def forth(step: np.ndarray) -> np.ndarray:
            W, u, v, bias = parts_of(step.ravel(), d)
            return steep * (np.sum(slope * (Q @ W.T + u), axis=1) + mean @ v + bias) / spread

        def back(r: np.ndarray) -> np.ndarray:
            r = steep * r.ravel() / spread
            weighted = slope * r[:, None]
            return np.concatenate([(weighted.T @ Q).ravel(), weighted.sum(axis=0), mean.T @ r, [r.sum()]])

        return LinearOperator((len(y), len(theta)), matvec=forth, rmatvec=back, dtype=np.float64)  # type: ignore

    linear = {"tr_solver": "lsmr", "tr_options": {"maxiter": LINEAR_STEPS}}
    how: dict[str, Any] = {"jac": jacobian, "ftol": enough, **linear}
    return least_squares(misfit, theta, **how, max_nfev=FIT_STEPS).x
