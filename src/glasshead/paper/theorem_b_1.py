"""Theorem B.1: one head from membership queries, answers that say only whether f is positive."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import TargetMismatch
from .._limits import information_limit
from .._linalg import numerical_rank
from .._models import Attention
from .._oracles import Oracle
from .._recovery import Recovery, recovered
from .._types import no_type_check
from .._validate import real, whole
from .lemma_a_1 import LIPSCHITZ, TAU_CLIP, clipped_logit
from .tolerance import require_assumptions

BISECTION_CONSTANT = 0.5  # the "Const" of the proof; see the docstring of theorem_b_1
MARGIN_ROUNDED = 1e-12  # relative: what rounding may add to the largest margin that there is
BATCH_NUMBERS = 2**20  # numbers in one batch of random queries


@no_type_check
def theorem_b_1(
    oracle: Oracle, W_bound: float, margin: float, eps_W: float, delta: float, max_queries: int = 10**8, seed: int = 0
) -> Recovery:
    """The proof of Theorem B.1 as it stands: `||W_hat - W||_F <= eps_W` with probability `1 - delta`, from signs.

    >>> target = gh.Attention([[2.0]], [-1.0])
    >>> found = gh.paper.theorem_b_1(gh.SignOracle(target), W_bound=2, margin=1, eps_W=0.5, delta=0.1)
    >>> found.queries, bool(abs(found.model.W - 2) <= found.bound)
    (153389, True)

    It needs `||W||_F <= W_bound`, `W_bound >= 2`, and `|v_i| >= margin` for every i, after v is scaled to norm 1. The
    direction of v comes from the mean of `sign(x.v) x` over random unit vectors, (12)-(14), with as many queries as
    Hoeffding's inequality asks for; then every entry of W from a bisection over a in `[s/a e_i + a e_j ; a e_j]`, where
    the sign flips once. The recovered v is the estimate (14) as it is, of norm nearly 1.

    The count is known beforehand, `gh.paper.theorem_b_1_queries`; it grows like `1 / (eps_W**2 * margin**6)` and is
    refused above `max_queries`. `gh.recover` bisects v as well and needs only logarithms.

    **The constant.** The proof bisects a to within `tau = Const * eta * margin**3 / (8 L W_bound**2)`, `L = 5` and
    `eta = eps_W / d`, and leaves `Const` open; here it is 1/2. The proof lets `-sigma s` be off by `0.05`, in units of
    `eta / W_bound**2`. Its round bound `4 eps_v / margin**2` for `v_j / v_i` spends all of that on v alone; what it was
    rounded from, `2 eps_v / (margin (margin - eps_v))`, spends 0.0254. Bisection spends
    `tau sqrt(2 / (W_bound margin)) |v_hat_j / v_hat_i|`, at most `0.0257 Const`, so any `Const` up to 0.95 will do.
    """
    require_oracle(oracle)
    need = Needed.of(oracle.dim, W_bound, margin, eps_W, delta)
    if need.queries > whole(max_queries, "max_queries", least=1):
        raise ValueError(
            f"expected max_queries >= {need.queries:,} for dimension {need.dim}, got {max_queries:,}: Theorem B.1 asks "
            f"{need.samples:,} queries for v and {need.steps} for each entry of W; allow them, or call gh.recover"
        )
    start = oracle.queries
    v = read_mean_direction(oracle, need.samples, np.random.default_rng(seed))
    require_margin(v, margin, need.eps_v)
    W, excess = read_W_by_signs(oracle, v, need)
    contradicted = excess > need.eps_W / (2 * LIPSCHITZ * need.W_bound * need.dim)  # more than the weights can be off
    return recovered(
        Attention(W, v),
        rank=numerical_rank(np.linalg.svd(W, compute_uv=False), need.dim),
        queries=oracle.queries - start,
        limit=(information_limit(need.dim) - 1) * need.steps,
        bound=None if contradicted else need.eps_W,
        bound_v=math.sqrt(need.dim) * need.eps_v,
        confidence=1 - float(delta),
        reason=f"Theorem B.1 with {need.samples:,} random queries for v and {need.steps} for each entry of W; "
        f"{'v is' if contradicted else 'v and W are'} within the bound with probability 1 - delta, by Hoeffding; "
        "unchecked: it leaves no queries for a check"
        + f"; no bound on W: a weight lay {excess:.2g} outside what ||W||_F <= W_bound allows"
        * contradicted,
    )


@no_type_check
def theorem_b_1_queries(*, dim: int, W_bound: float, margin: float, eps_W: float, delta: float) -> int:
    """How many queries `gh.paper.theorem_b_1` asks.

    >>> f"{gh.paper.theorem_b_1_queries(dim=16, W_bound=4, margin=0.1, eps_W=0.1, delta=0.01):.1e}"
    '2.6e+17'
    """
    return Needed.of(dim, W_bound, margin, eps_W, delta).queries


@dataclass(frozen=True)
class Needed:
    """What the proof's accuracies come to: random queries for v, and bisection steps between `lowest` and `highest`."""

    dim: int
    W_bound: float
    eps_W: float
    eps_v: float
    samples: int
    lowest: float
    highest: float
    steps: int

    @property
    def queries(self) -> int:
        return self.samples + self.dim**2 * self.steps

    @classmethod
    @no_type_check
    def of(cls, dim: int, W_bound: float, margin: float, eps_W: float, delta: float) -> Needed:
        d, W, mu = require_assumptions(dim, W_bound, margin)
        most = 1 / math.sqrt(d)
        allowed = most * (1 + MARGIN_ROUNDED)
        real(margin, "margin", f"at most 1/sqrt(dim) = {most:.4g}, v having norm 1", lambda x: x <= allowed)
        eps_W = real(eps_W, "eps_W", "a number strictly between 0 and 1", lambda x: 0 < x < 1)
        delta = real(delta, "delta", "a number strictly between 0 and 1", lambda x: 0 < x < 1)
        eps_v = eps_W * mu**3 / (40 * W * d)
        # Hoeffding for d coordinates, each a mean of numbers in [-1/R, 1/R].
        samples = math.ceil(2 * math.log(2 * d / delta) / (eps_v * sphere_mean(d)) ** 2)
        lowest, highest = math.sqrt(mu / (8 * W)), math.sqrt(1 / (2 * W * mu))
        tau = BISECTION_CONSTANT * (eps_W / d) * mu**3 / (8 * LIPSCHITZ * W**2)
        steps = math.ceil(math.log2((highest - lowest) / (2 * tau)))
        return cls(d, W, eps_W, eps_v, samples, lowest, highest, steps)


def sphere_mean(d: int) -> float:
    """`E |x_1|` over the unit sphere: the R of the paper."""
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)


def read_mean_direction(oracle: Oracle, samples: int, rng: np.random.Generator) -> np.ndarray:
    """The estimate (14) of v: the mean of `sign(x.v) x` over the sphere, divided by R."""
    d, total = oracle.dim, np.zeros(oracle.dim)
    rows = max(1, BATCH_NUMBERS // d)
    for first in range(0, samples, rows):
        x = rng.standard_normal((min(rows, samples - first), d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        total += np.where(read_yes_no(oracle, x[:, None]), 1.0, -1.0) @ x
    return total / (samples * sphere_mean(d))


def read_W_by_signs(oracle: Oracle, v: np.ndarray, need: Needed) -> tuple[np.ndarray, float]:
    """Bisect a for all entries side by side; at the flip `sigma(s W_ij) = 2 W_bound a^2 |v_j / v_i|`.

    Also how far such a weight lay outside the clip.
    """
    d = need.dim
    ratio = v[None, :] / v[:, None]
    s = -np.sign(ratio) / (2 * need.W_bound)
    low, high = np.full((d, d), need.lowest), np.full((d, d), need.highest)
    for _ in range(need.steps):
        a = (low + high) / 2
        above = read_yes_no(oracle, probes(a, s / a)).reshape(d, d) == (v > 0)  # for large a the sign is that of v_j
        low, high = np.where(above, low, a), np.where(above, a, high)
    a = (low + high) / 2
    weights = 2 * need.W_bound * a**2 * np.abs(ratio)
    excess = max(TAU_CLIP - float(weights.min()), float(weights.max()) - (1 - TAU_CLIP))
    return clipped_logit(weights) / s, excess


def probes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`[b_ij e_i + a_ij e_j ; a_ij e_j]` for all i and j, in one batch."""
    d = len(a)
    last = a[:, :, None] * np.eye(d)
    first = last + b[:, :, None] * np.eye(d)[:, None]
    return np.stack([first, last], axis=2).reshape(d * d, 2, d)


def read_yes_no(oracle: Oracle, X: np.ndarray) -> np.ndarray:
    answers = np.asarray(oracle(X))
    if answers.dtype != bool or answers.shape != (len(X),):
        raise ValueError(
            f"expected {len(X)} yes/no answers, got dtype {answers.dtype} and shape {answers.shape}; use gh.SignOracle"
        )
    return answers


def require_oracle(oracle: Any) -> None:
    if not isinstance(oracle, Oracle):
        raise TypeError(f"expected a gh.SignOracle, got {type(oracle).__name__}; wrap it as gh.SignOracle(f)")


def require_margin(v: np.ndarray, margin: Any, eps_v: float) -> None:
    i = int(np.argmin(np.abs(v)))
    if abs(v[i]) < margin - eps_v:
        raise TargetMismatch(
            f"expected every |v_i| >= margin = {margin:.3g} for v of norm 1, got v_{i} = {v[i]:.3g} +- {eps_v:.1g}; "
            "give a smaller margin, unless v has zeros or the box always says the same: then the theorem is silent"
        )
