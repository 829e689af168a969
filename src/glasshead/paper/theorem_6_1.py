"""Theorem 6.1: one head from answers within a tolerance, with d one-row and d^2 two-row value queries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._errors import NotIdentifiable
from .._limits import information_limit
from .._linalg import numerical_rank
from .._models import Attention
from .._oracles import Oracle, as_oracle, read_unit_rows
from .._recovery import Recovery, recovered
from .._types import Answering, no_type_check
from .lemma_a_1 import TAU_CLIP, clipped_logit
from .tolerance import MARGIN_CONSTANT, accuracy_for, require_assumptions


@no_type_check
def theorem_6_1(oracle: Oracle | Answering, W_bound: float, margin: float, corrected: bool = False) -> Recovery:
    """The proof of Theorem 6.1 as it stands, or mended, in exactly `d + d**2` queries.

    >>> target = gh.Attention([[1.5, 0.0], [-1.0, 0.5]], [0.6, -0.8])
    >>> box = gh.defences.rounded(target, decimals=7)
    >>> found = gh.paper.theorem_6_1(gh.ValueOracle(box, tolerance=box.tolerance), W_bound=2, margin=0.5)
    >>> found.queries, f"{found.bound:.1e}", bool(np.linalg.norm(found.model.W - target.W) <= found.bound)
    (6, '1.3e-04', True)

    It needs `||W||_F <= W_bound`, `W_bound >= 2`, and entries of v that are zero or at least `margin` in size. With
    `a = 1/2`, `b = 1/W_bound` it asks `[b u + a e_j ; a e_j]`, where `u = e_i`, or `e_i + e_p` where `v_i = 0`; the
    weight read off is clipped to `[sigma(-1/2), sigma(1/2)]`, where the logit is Lipschitz (Lemma A.1).

    `bound` and `bound_v` are what `gh.accuracy_for` says for the oracle's promise and the rounding of its numbers.
    `bound` is None, and `reason` says why, where the theorem gives nothing: a tolerance above `margin / 4`, answers
    that contradict `margin` or `W_bound`, and the erratum:

    **Erratum.** For `u = e_i + e_p` the logit `a b (W_ij + W_pj)` reaches `sqrt(2)/2`, while the clip stops at 1/2. So
    the guarantee fails where `v_i = 0`, even with exact answers: with `W_ij = W_pj = W_bound / sqrt(2)` and `v = e_p`
    the estimate is off by `(sqrt(2) - 1) W_bound`. `corrected=True` asks those probes with `a = 1/(2 sqrt(2))`. For
    answers within tau, and in units of tau / margin, the weight is then off by `2 W_bound (1 + a) + 2 <= 3.71 W_bound`
    and its logit over ab by `52.5 W_bound**2`; with `40 W_bound**2` for `W_pj` that is less than the `160 W_bound**2`
    which the paper's tolerance leaves to an entry, so that the theorem holds with the constants it has.
    """
    oracle = as_oracle(oracle)
    d, most, margin = require_assumptions(oracle.dim, W_bound, margin)
    start = oracle.queries
    v = read_unit_rows(oracle)
    require_visible(v, margin, oracle.tolerance)
    probes = NoisyProbes.of(v, most, margin, corrected)
    W, excess = read_clipped_W(oracle, v, probes)
    tau = whole_tolerance(oracle, v)
    eps_W, eps_v = accuracy_for(dim=d, W_bound=most, margin=margin, tolerance=tau)
    objection = why_no_bound(v, probes, excess, tau, most, margin, corrected)
    return recovered(
        Attention(W, v),
        rank=numerical_rank(np.linalg.svd(W, compute_uv=False), d),
        queries=oracle.queries - start,
        limit=information_limit(d),
        bound=None if objection else eps_W,
        bound_v=eps_v,
        confidence=0.0 if objection else 1.0,
        reason=f"Theorem 6.1{', corrected' * corrected}, unchecked: its d + d^2 queries leave none for a check"
        + f"; no bound on W: {objection}" * bool(objection),
    )


@dataclass(frozen=True)
class NoisyProbes:
    """Row i of W is read with `u[i]`, whose value is `value[i]`, and tokens `b u[i] + a[i] e_j` and `a[i] e_j`."""

    u: np.ndarray
    value: np.ndarray
    a: np.ndarray
    b: float
    visible: np.ndarray  # False where v_i = 0 and the second case applies
    p: int

    @classmethod
    def of(cls, v: np.ndarray, W_bound: float, margin: float, corrected: bool) -> NoisyProbes:
        visible, p = np.abs(v) > margin / 2, int(np.argmax(np.abs(v)))
        u = np.eye(len(v))
        u[~visible, p] = 1.0
        shrunk = 0.5 / math.sqrt(2) if corrected else 0.5
        return cls(u, np.where(visible, v, v[p]), np.where(visible, 0.5, shrunk), 1 / W_bound, visible, p)


def require_visible(v: np.ndarray, margin: float, tolerance: float) -> None:
    largest = float(np.abs(v).max())
    if largest <= margin / 2:
        raise NotIdentifiable(
            f"expected some |v_i| >= margin = {margin:.3g}, got answers up to {largest:.3g} with a tolerance of "
            f"{tolerance:.3g}: either v = 0, and no learner could read W, or the margin or the tolerance is wrong"
        )


def read_clipped_W(oracle: Oracle, v: np.ndarray, probes: NoisyProbes) -> tuple[np.ndarray, float]:
    """The estimate of W, column by column, and how far a weight lay outside the clip."""
    W, excess = np.empty(probes.u.shape), 0.0
    for j, e_j in enumerate(np.eye(len(v))):
        last = probes.a[:, None] * e_j
        answers = oracle(np.stack([probes.b * probes.u + last, last], axis=1))
        weights = (answers - probes.a * v[j]) / (probes.b * probes.value)
        excess = max(excess, TAU_CLIP - float(weights.min()), float(weights.max()) - (1 - TAU_CLIP))
        W[:, j] = clipped_logit(weights) / (probes.a * probes.b)
        W[~probes.visible, j] -= W[probes.p, j]
    return W, excess


def whole_tolerance(oracle: Oracle, v: np.ndarray) -> float:
    """The promise as one additive tolerance: no probe has an answer larger than the largest entry of v.

    Scores are at most W_bound and weigh `|v|/W_bound`, so rounding costs a few ulp of `|v|` for each of d terms.
    """
    largest = (float(np.abs(v).max()) + oracle.tolerance) / (1 - oracle.rtol)
    return oracle.tolerance + (oracle.rtol + 4 * (len(v) + 8) * oracle.roundoff) * largest


def why_no_bound(
    v: np.ndarray, probes: NoisyProbes, excess: float, tau: float, W_bound: float, margin: float, corrected: bool
) -> str:
    """What keeps the theorem from saying anything about W; empty where it holds."""
    if tau > margin / MARGIN_CONSTANT:
        return f"the tolerance {tau:.3g} is above margin/4 = {margin / MARGIN_CONSTANT:.3g}"
    between = (np.abs(v) > tau) & (np.abs(v) < margin - tau)
    if between.any():
        i = int(np.argmax(between))
        return f"v_{i} was answered as {v[i]:.3g}, which is neither 0 nor at least the margin {margin:.3g}"
    if not corrected and not probes.visible.all():
        return "the theorem's second case, for entries of v that are 0, is wrong as stated; corrected=True mends it"
    if excess > (3 * W_bound + 2) * tau / margin:
        return f"a weight lay {excess:.2g} outside what ||W||_F <= W_bound = {W_bound:.3g} allows"
    return ""
