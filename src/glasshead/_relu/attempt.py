"""One circle's worth of learning: kinks, gradients between them, repairs, neurons, a check of the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .._errors import Evidence
from .._linalg import rms
from .check import AllLengths, Check, read_all_lengths, read_fresh_points
from .circle import SampledKinks, find_kinks_between
from .gradients import Gradients, Pieces, find_arcs
from .homogeneous import (
    ACCEPTED,
    ACCEPTED_NOISES,
    ACCEPTED_NOISY,
    BEYOND_REPAIR,
    BEYOND_REPAIR_NOISY,
    GOAL,
    GROSS,
    LARGEST_RESIDUAL,
    HalfCircle,
    Homogeneous,
    Lifted,
)
from .neurons import HomogeneousNeurons, ReluNetwork, to_neurons
from .repair import read_repaired, worst_arcs
from .scale import AnswerNoise

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
    g.known["kinks"] = len(kinks.at)
    if isinstance(g, Lifted):
        g.note(kinks.at)
    noise = kinks.samples.noise
    gradients = Gradients(g, circle, find_arcs(g, circle, kinks), rng)
    gradients.read(np.ones(gradients.out.shape, bool))
    g.known["unchecked"] = to_neurons(gradients.pieces(), isinstance(g, Lifted), 0.0, choose=False).network(g, None)
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
    neurons = partial(to_neurons, pieces, lifted, exact=noise.exact)
    chosen = Attempt(g, neurons(slack), check, enough)
    if not noise.exact and (without := replace(chosen, neurons=neurons(slack, faint=slack))).fits:
        return without
    if chosen.fits or check.residual(pieces) > enough:
        return chosen
    return replace(chosen, neurons=neurons(0.0, choose=False))


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
