"""A recovered head whose network stays a black box, with what is known of its errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._checks import check_front_laws, held_out_front, sees_last_token
from ..._errors import TargetMismatch
from ..._learned import MEASURED, LearnedFront
from ..._meters import Copies, MatchingMeter, OneRow, Pilots, Place, Ruler, answer_noise, floor, orthonormal, slope_step
from ..._models import Behind, FrontHead
from ..._oracles import Normalised, Oracle
from ..._schemes import Measured, full, low_rank

SMALL = 2  # up to this dimension no rank could save a query
SAFETY = 4.0  # times the errors that noise and slopes, or the brackets left, suggest


@dataclass(frozen=True)
class Goal:
    """What was asked for: a rank if known, an accuracy, a number of bits."""

    rank: int | None = None
    accuracy: float | None = None
    bits: int | None = None

    def within(self, dim: int) -> Goal:
        return replace(self, rank=None if self.rank is None else min(self.rank, dim))


def read_W(meter: MatchingMeter, rng: np.random.Generator, goal: Goal, known: dict, residual: bool) -> LearnedFront:
    """Key bias and W, not yet checked."""
    oracle, d = meter.oracle, meter.oracle.dim
    oracle.stage = "reading the key bias"
    meter = meter.with_pull()
    known["pull"] = meter.pull
    oracle.stage = "reading W"
    found = full(meter) if d <= SMALL or goal.rank == d else low_rank(meter, rng, goal.rank, goal.accuracy)
    bound = SAFETY * found.bound
    length = float(np.linalg.norm(meter.origin))
    key_bias = meter.pull - found.W @ meter.origin
    key_bias_error = SAFETY * meter.pull_error + bound * length
    if float(np.linalg.norm(key_bias)) <= key_bias_error:  # a bias that cannot be told from none is none
        key_bias = None
    model = front_head(found, key_bias, oracle, residual)
    return LearnedFront(
        model=model,
        rank=found.rank,
        bound=bound,
        bound_key_bias=key_bias_error,
        confidence=min(found.confidence, MEASURED),
        noise=meter.ruler.noise,
        scale=float(np.hypot(length, meter.kappa)),
        score_error=meter.rho * (bound * meter.kappa + SAFETY * meter.pull_error),
    )


def front_head(found: Measured, key_bias: np.ndarray | None, behind: Behind, residual: bool) -> FrontHead:
    """As factors where these are the smaller description, else as one matrix."""
    if found.right is None or 2 * len(found.right) >= len(found.left):
        return FrontHead(found.W, key_bias=key_bias, behind=behind, residual=residual)
    tensors = {"Q": found.right, "K": np.ascontiguousarray(found.left.T), "residual": np.array(float(residual))}
    return FrontHead.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias}, behind)


SPREADS = (1.0, 0.25, 1 / 16, 1 / 16)  # of queries around their origin, in turn where the network is dead at some
NOISY = 2.0**-36  # of the size of answers: double precision is far below
HOPELESS = 0.1  # of the largest answer: a residual that no single false score explains
SAMPLES = 6  # sequences around which the noise of answers is measured


def learn_from_values(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFront:
    """The first result that passes the held-out check, or the first one if none does."""
    oracle.stage = "checking that it is a head"
    size = check_front_laws(oracle, rng)
    oracle.stage = "looking for a scale"
    noise = floor(oracle, size)
    noisy = noise > NOISY * size
    ruler = Ruler(oracle, Copies(noisy), noise, slope_step(noise, size), rng)
    place = Pilots(ruler).first()
    if not sees_last_token(ruler, place):
        ruler = ruler.along(OneRow(noisy))
    best: LearnedFront | None = None
    for spread in SPREADS:
        try:
            learned = read(*settle(ruler, place, spread), goal, known)
        except TargetMismatch:
            if spread == SPREADS[-1] and best is None:
                raise
            continue
        if learned.check.evidence is None:
            return learned
        best = best or learned
        if (learned.check.residual or 0.0) > HOPELESS:
            break
    assert best is not None
    return best


def settle(ruler: Ruler, place: Place, spread: float) -> tuple[Ruler, Place]:
    """Where to measure from, and what with: there the noise of answers is measured, and so the errors of scores."""
    pilots = Pilots(ruler, spread)
    one_row = isinstance(ruler.curve, OneRow)
    if spread != SPREADS[0] or one_row:
        place = pilots.try_length(place.length, (2.0 if one_row else 1.0) * place.rho)
    place = pilots.climb(place)
    if not place.works:
        place = pilots.first()
    noise = answer_noise(ruler.oracle, ruler.curve, *place.probes(SAMPLES, ruler.rng))
    usual = place.error * place.rho * place.kappa * noise / place.noise
    return Ruler(ruler.oracle, ruler.curve, noise, ruler.step, ruler.rng, usual), place


def read(ruler: Ruler, place: Place, goal: Goal, known: dict) -> LearnedFront:
    """Key bias and W, checked on fresh queries."""
    oracle, rng = ruler.oracle, ruler.rng
    keys, queries = orthonormal(oracle.dim, rng), orthonormal(oracle.dim, rng)
    distortion = oracle.eps_error if isinstance(oracle, Normalised) else 0.0
    meter = MatchingMeter(oracle, ruler, keys, queries, place.origin, place.rho, place.kappa, distortion=distortion)
    learned = read_W(meter, rng, goal, known, residual=isinstance(ruler.curve, Copies))
    return replace(learned, check=held_out_front(oracle, learned, rng))
