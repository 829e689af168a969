"""Theorem 6.1 as a formula: the tolerance that buys an accuracy, and the accuracy that a tolerance buys."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .._types import no_type_check
from .._validate import positive, real, whole

# The proof asks for mu eps_W / (80 W^2 d) and tau <= mu/2, and halves both for its second case.
W_CONSTANT = 160.0
MARGIN_CONSTANT = 4.0


class Accuracy(NamedTuple):
    """`||W_hat - W||_F <= eps_W` and `||v_hat - v|| <= eps_v`; infinite where nothing is guaranteed."""

    eps_W: float
    eps_v: float


@no_type_check
def tolerance_for(*, dim: int, W_bound: float, margin: float, eps_W: float, eps_v: float) -> float:
    """The tolerance with which Theorem 6.1 guarantees `||W_hat - W||_F <= eps_W` and `||v_hat - v|| <= eps_v`.

    >>> f"{gh.tolerance_for(dim=16, W_bound=4, margin=0.05, eps_W=0.1, eps_v=0.1):.2e}"
    '1.22e-07'

    It is `min(margin / 4, eps_v / sqrt(dim), margin * eps_W / (160 * W_bound**2 * dim))`, for heads with
    `||W||_F <= W_bound`, `W_bound >= 2`, and entries of v that are zero or at least `margin`. The guarantee is that of
    `gh.paper.theorem_6_1(..., corrected=True)`, or of the uncorrected one where v has no zeros. The paper asks for
    accuracies below 1, but its proof does not need that. `gh.accuracy_for` is the way back.
    """
    d, W, mu = require_assumptions(dim, W_bound, margin)
    of_W = mu * positive(eps_W, "eps_W") / (W_CONSTANT * W * W * d)
    return min(mu / MARGIN_CONSTANT, positive(eps_v, "eps_v") / math.sqrt(d), of_W)


@no_type_check
def accuracy_for(*, dim: int, W_bound: float, margin: float, tolerance: float) -> Accuracy:
    """The accuracy that Theorem 6.1 guarantees from answers within `tolerance`: `tolerance_for` the other way round.

    >>> eps_W, eps_v = gh.accuracy_for(dim=16, W_bound=4, margin=0.05, tolerance=1e-7)
    >>> f"{eps_W:.3f}, {eps_v:.0e}"
    '0.082, 4e-07'

    Above `margin / 4` the theorem says nothing about W, and `eps_W` is infinite.
    """
    d, W, mu = require_assumptions(dim, W_bound, margin)
    tau = real(tolerance, "tolerance", "a number >= 0", lambda x: x >= 0)
    eps_W = W_CONSTANT * W * W * d * tau / mu if tau <= mu / MARGIN_CONSTANT else math.inf
    return Accuracy(eps_W, math.sqrt(d) * tau)


def require_assumptions(dim: Any, W_bound: Any, margin: Any) -> tuple[int, float, float]:
    """The three numbers that the theorem assumes to be known."""
    d = whole(dim, "dim", least=1)
    W = real(
        W_bound, "W_bound", "a number >= 2, as in the paper (any upper bound on ||W||_F will do)", lambda x: x >= 2
    )
    return d, W, positive(margin, "margin")
