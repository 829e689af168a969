"""One circle's worth of learning: kinks, gradients between them, repairs, neurons, a check of the result.

Badly known gradients are made good by least squares on random points far from every hyperplane: with the side of every
hyperplane known, the function is linear in the gradients, and far points know nothing of narrow arcs, so that what a
short step could not measure is determined there as well as anything else. Sides are read off the present gradients, and
the solution is repeated until they no longer change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, lsqr

from .._errors import Evidence
from .._linalg import rms
from .._types import Float
from .check import AllLengths, Check, read_all_lengths, read_fresh_points
from .circle import SampledKinks, find_kinks_between
from .gradients import Gradients, Pieces, find_arcs
from .homogeneous import FLOATS_AT_ONCE, HalfCircle, Homogeneous, Lifted
from .neurons import HomogeneousNeurons, ReluNetwork, to_neurons
from .scale import AnswerNoise
from .tolerances import (
    ACCEPTED,
    ACCEPTED_NOISES,
    ACCEPTED_NOISY,
    BEYOND_REPAIR,
    BEYOND_REPAIR_NOISY,
    GOAL,
    GROSS,
    LARGEST_RESIDUAL,
    LSQR,
)

REPAIRED_SHARE = 0.15  # of the arcs at most, where answers are exact: the rest is good enough
EXACT_EQUATIONS, NOISY_EQUATIONS = 1.25, 2.0  # per unknown
REPAIR_ROUNDS, NOISY_ROUNDS = 2, 25
STALLED_SHARE, WAITED_ROUNDS = 0.75, 2  # a misfit that shrinks by less, this many rounds running, does not converge
LSQR_ITERATIONS = 200
DENSE_UNKNOWNS = 3000  # unknowns; beyond that only the iterative solution fits


def worst_arcs(errors: Float[np.ndarray, "n"], goal: float, noise: AnswerNoise) -> np.ndarray:
    """The fewest arcs without which the errors of the gradients add up to less than the goal."""
    order = np.argsort(-errors)
    left = np.sqrt(np.cumsum(errors[order][::-1] ** 2)[::-1])
    share = round(REPAIRED_SHARE * len(errors)) if noise.exact else len(errors)
    return order[: max(1, min(int(np.count_nonzero(left > goal)), share))]


def read_repaired(
    g: Homogeneous,
    pieces: Pieces,
    errors: Float[np.ndarray, "n"],
    arcs: np.ndarray,
    noise: AnswerNoise,
    rng: np.random.Generator,
) -> Pieces:
    """Correct the gradients of the given arcs, each in proportion to its error."""
    X = far_points(g, pieces, int((EXACT_EQUATIONS if noise.exact else NOISY_EQUATIONS) * len(arcs) * g.dim) + 8, rng)
    answers = g(X)
    solve = solve_dense if not noise.exact and len(arcs) * g.dim <= DENSE_UNKNOWNS else solve_iteratively
    best, least, waited = pieces, np.inf, 0
    for _ in range(REPAIR_ROUNDS if noise.exact else NOISY_ROUNDS):
        weights = pieces.weights(X)
        off = answers - np.einsum("ni,ni->n", weights, X @ pieces.gradients.T)
        size = rms(off)
        waited = 0 if size < STALLED_SHARE * least else waited + 1
        if size < least:
            best, least = pieces, size
        if waited > WAITED_ROUNDS or size <= noise.level:
            break
        gradients = pieces.gradients.copy()
        gradients[arcs] += solve(X, weights[:, arcs] * errors[arcs], off, noise.level) * errors[arcs, None]
        pieces = Pieces(gradients, pieces.bends)
    return pieces if noise.exact else best


class GradientSystem(LinearOperator):
    """From changes of gradients to changes of answers, without the matrix."""

    def __init__(self, X: np.ndarray, weights: np.ndarray):
        self.X, self.weights, self.gradients = X, weights, (weights.shape[1], X.shape[1])
        super().__init__(np.dtype(float), (len(X), weights.shape[1] * X.shape[1]))

    def _matvec(self, x):
        return np.einsum("ni,ni->n", self.weights, self.X @ x.reshape(self.gradients).T)

    def _rmatvec(self, x):
        return ((self.weights * x.reshape(-1, 1)).T @ self.X).ravel()


def solve_iteratively(X: np.ndarray, weights: np.ndarray, off: np.ndarray, damp: float) -> np.ndarray:
    shape = (weights.shape[1], X.shape[1])
    settings = {"damp": damp, "atol": LSQR, "btol": LSQR, "iter_lim": LSQR_ITERATIONS}
    return lsqr(GradientSystem(X, weights), off, **settings)[0].reshape(shape)


def solve_dense(X: np.ndarray, weights: np.ndarray, off: np.ndarray, damp: float) -> np.ndarray:
    shape = (weights.shape[1], X.shape[1])
    unknowns = shape[0] * shape[1]
    normal, right = damp**2 * np.eye(unknowns), np.zeros(unknowns)
    rows = max(1, FLOATS_AT_ONCE // unknowns)
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        M = (weights[part, :, None] * X[part, None, :]).reshape(-1, unknowns)
        normal += M.T @ M
        right += M.T @ off[part]
    try:
        return cho_solve(cho_factor(normal, overwrite_a=True), right).reshape(shape)
    except np.linalg.LinAlgError:  # the damping is below the rounding of the normal equations
        return solve_iteratively(X, weights, off, damp)


def far_points(g: Homogeneous, pieces: Pieces, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n D"]:
    """Of twice as many random points, those farthest from the hyperplane nearest to them."""
    X = g.points(2 * n, rng)
    jumps = pieces.jumps
    normals = jumps / np.maximum(np.linalg.norm(jumps, axis=1, keepdims=True), 1e-300)
    rows = max(1, FLOATS_AT_ONCE // len(jumps))
    margin = np.concatenate(
        [np.abs(X[start : start + rows] @ normals.T).min(axis=1) for start in range(0, len(X), rows)]
    )
    return X[np.sort(np.argsort(-margin)[:n])]


AUDITS = 3
REPAIRS = 3


@dataclass(frozen=True)
class Attempt:
    """The neurons that came out, how they did on fresh points, and what would have been good enough."""

    g: Homogeneous
    neurons: HomogeneousNeurons
    check: Check
    allowed: float
    scales: AllLengths | None = None
    tolerance: float = 0.0  # of the errors that noise and rounding do not explain, by the answers at their length

    @property
    def residual(self) -> float:
        here = self.check.residual(self.neurons)
        return here if self.scales is None else max(here, self.scales.residual)

    @property
    def fits(self) -> bool:
        return self.check.residual(self.neurons) <= self.allowed

    @property
    def succeeded(self) -> bool:
        return self.fits and self.scales is not None and bool(self.scales.unexplained.max() <= self.tolerance)

    def check_everywhere(self, noise: AnswerNoise, rng: np.random.Generator) -> Attempt:
        """This attempt, checked at all lengths of input if it passed the check at points like those learned from."""
        if not self.fits:
            return self
        tolerance = ACCEPTED if noise.exact else ACCEPTED_NOISY
        return replace(self, scales=read_all_lengths(self.g, self.network(), noise, rng), tolerance=tolerance)

    def network(self) -> ReluNetwork:
        return self.neurons.network(self.g, self.residual)

    def evidence(self) -> Evidence:
        return self.check.evidence(self.neurons, self.g) if self.scales is None else self.scales.evidence()


class Unresolved(Exception):
    """The kinks on this circle could not be told apart; another one may do better."""

    def __init__(self, kinks: SampledKinks, circle: HalfCircle):
        super().__init__()
        self.kinks, self.circle = kinks, circle


def learn_from_circle(g: Homogeneous, noise: AnswerNoise, rng: np.random.Generator, picky: bool) -> Attempt:
    """Learn from one random circle; `Unresolved` before any gradient is paid for, if `picky` at the least blur."""
    circle = g.circle(rng)
    kinks = find_kinks_between(lambda angles: g(circle.at(angles)), circle.low, circle.high, noise, rng)
    if kinks.given_up or (kinks.blurred and picky):
        raise Unresolved(kinks, circle)
    g.box.known["kinks"] = len(kinks.at)
    if isinstance(g, Lifted):
        g.note(kinks.at)
    noise = kinks.samples.noise
    gradients = Gradients(g, circle, find_arcs(g, circle, kinks), rng)
    gradients.read(np.ones(gradients.out.shape, bool))
    g.box.known["unchecked"] = to_neurons(gradients.pieces(), isinstance(g, Lifted), 0.0, choose=False).network(g, None)
    check = read_fresh_points(g, circle, noise.exact, rng)
    check = check_crossings(g, circle, gradients, check, noise, rng)
    pieces, errors, check = read_mended(g, circle, gradients, check, noise, rms(kinks.samples.y), rng)
    return conclude(g, pieces, errors, check, noise)


def check_crossings(g, circle: HalfCircle, gradients: Gradients, check: Check, noise: AnswerNoise, rng) -> Check:
    """Look for steps that crossed a hyperplane unseen, as long as the error is larger than rounding explains."""
    for _ in range(AUDITS if noise.exact else 0):
        if gradients.out[1:].size == 0 or check.residual(gradients.pieces()) <= GROSS:
            break  # nothing out of the plane to be wrong, or nothing wrong
        if gradients.check_arcs(noise.level, rng) == 0:
            break
        check = read_fresh_points(g, circle, noise.exact, rng)
    return check


def read_mended(g, circle: HalfCircle, gradients: Gradients, check: Check, noise: AnswerNoise, typical: float, rng):
    """Repair the gradients whose errors are predicted to matter, and more of them while the check says so."""
    pieces, errors = gradients.pieces(), noise.level / gradients.shortest()
    goal = max(GOAL * typical, noise.level)
    hopeless = BEYOND_REPAIR if noise.exact else BEYOND_REPAIR_NOISY
    for done in range(REPAIRS if noise.exact else 1):
        residual = check.residual(pieces)
        wanted = np.linalg.norm(errors) > goal if done == 0 else residual > allowed(check, noise)
        if not wanted or residual > hopeless or len(pieces.bends) == 0:
            break
        arcs = worst_arcs(errors, goal / 2, noise)
        pieces = read_repaired(g, pieces, errors, arcs, noise, rng)
        errors[arcs] = noise.level * np.sqrt(g.dim)
        check = read_fresh_points(g, circle, noise.exact, rng)
    return pieces, errors, check


def conclude(g, pieces: Pieces, errors: np.ndarray, check: Check, noise: AnswerNoise) -> Attempt:
    """The fewest neurons that pass the check; those of the pieces as they are, where chosen signs do not."""
    enough = allowed(check, noise)
    lifted, slack = isinstance(g, Lifted), 10 * float(np.linalg.norm(errors))
    chosen = Attempt(g, to_neurons(pieces, lifted, slack, exact=noise.exact), check, enough)
    if chosen.fits or check.residual(pieces) > enough:
        return chosen
    return Attempt(g, to_neurons(pieces, lifted, 0.0, choose=False, exact=noise.exact), check, enough)


def allowed(check: Check, noise: AnswerNoise) -> float:
    relative = noise.level / check.largest if check.largest > 0 else 0.0
    return max(ACCEPTED, min(ACCEPTED_NOISES * relative, LARGEST_RESIDUAL))


def learn_from_line(g: Homogeneous, noise: AnswerNoise, rng: np.random.Generator) -> Attempt:
    """In one dimension there is no circle: the slopes on both sides of 0 are all there is."""
    answers = g(np.array([[-1.0], [1.0]]))
    (below, above), jump = answers, answers.sum()
    noise = noise.with_answers(answers)
    kinked = abs(jump) > 2 * noise.sigmas * noise.level
    slopes, bends = ([[-below], [above]], [np.sign(jump)]) if kinked else ([[(above - below) / 2]], [])
    pieces = Pieces(np.array(slopes), np.array(bends))
    return conclude(g, pieces, np.full(len(slopes), noise.level), read_fresh_points(g, None, noise.exact, rng), noise)
