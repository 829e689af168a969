"""A head in front of an unknown network, from real-valued answers: a place that shows scores, then key bias and W.

`read_front` reads these from any meter that matches answers, those of yes and no included.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._checks import check_front_laws, check_held_out_front, check_last_token
from ..._errors import TargetMismatch
from ..._learned import MEASURED, LearnedFront
from ..._limits import Goal
from ..._linalg import orthonormal_frame
from ..._meters import Copies, MatchingMeter, OneRow, Place, PlacePilots, Ruler, floor, read_answer_noise, slope_step
from ..._models import Behind, FrontHead
from ..._oracles import Normalised, Oracle
from ..._schemes import Measured, read_W

FRONT_SAFETY = 4.0  # times the errors that noise and slopes, or the brackets left, suggest


def read_front(meter: MatchingMeter, rng: np.random.Generator, goal: Goal, known: dict, residual: bool) -> LearnedFront:
    """Key bias and W, not yet checked."""
    oracle = meter.oracle
    oracle.stage = "reading the key bias"
    meter = meter.read_pull()
    known["pull"] = meter.pull
    oracle.stage = "reading W"
    found = read_W(meter, rng, goal.rank, goal.accuracy)
    bound = FRONT_SAFETY * found.bound
    length = float(np.linalg.norm(meter.origin))
    key_bias = meter.pull - found.W @ meter.origin
    key_bias_error = FRONT_SAFETY * meter.pull_error + bound * length
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
        score_error=meter.rho * (bound * meter.kappa + FRONT_SAFETY * meter.pull_error),
    )


def front_head(found: Measured, key_bias: np.ndarray | None, behind: Behind, residual: bool) -> FrontHead:
    """The head as factors where these are the smaller description, else as one matrix."""
    if found.right is None or 2 * len(found.right) >= len(found.left):
        return FrontHead(found.W, key_bias=key_bias, behind=behind, residual=residual)
    tensors = {"Q": found.right, "K": np.ascontiguousarray(found.left.T), "residual": np.array(float(residual))}
    return FrontHead.from_tensors(tensors if key_bias is None else tensors | {"key_bias": key_bias}, behind)


QUERY_SPREADS = (1.0, 0.25, 1 / 16, 1 / 16)  # of queries around their origin, in turn where the network is dead at some
SHOWS_NOISE = 2.0**-36  # of the size of answers: double precision is far below
HOPELESS_RESIDUAL = 0.1  # of the largest answer: a residual that no single false score explains
NOISE_SAMPLES = 6  # sequences around which the noise of answers is measured


def learn_from_values(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFront:
    """The first result that passes the held-out check, or the first one if none does."""
    oracle.stage = "checking that it is a head"
    size = check_front_laws(oracle, rng)
    oracle.stage = "looking for a scale"
    noise = floor(oracle, size)
    noisy = noise > SHOWS_NOISE * size
    ruler = Ruler(oracle, Copies(noisy), noise, slope_step(noise, size), rng)
    place = PlacePilots(ruler).find_first()
    if not check_last_token(ruler, place):
        ruler = ruler.along(OneRow(noisy))
    best: LearnedFront | None = None
    for spread in QUERY_SPREADS:
        try:
            learned = learn_at_place(*find_place(ruler, place, spread), goal, known)
        except TargetMismatch:
            if spread == QUERY_SPREADS[-1] and best is None:
                raise
            continue
        if learned.check.evidence is None:
            return learned
        best = best or learned
        if (learned.check.residual or 0.0) > HOPELESS_RESIDUAL:
            break
    assert best is not None
    return best


def find_place(ruler: Ruler, place: Place, spread: float) -> tuple[Ruler, Place]:
    """Where to measure from, and what with: there the noise of answers is measured, and so the errors of scores."""
    pilots = PlacePilots(ruler, spread)
    one_row = isinstance(ruler.curve, OneRow)
    if spread != QUERY_SPREADS[0] or one_row:
        place = pilots.find_length(place.length, (2.0 if one_row else 1.0) * place.rho)
    place = pilots.find_best(place)
    if not place.works:
        place = pilots.find_first()
    noise = read_answer_noise(ruler.oracle, ruler.curve, *place.probes(NOISE_SAMPLES, ruler.rng))
    usual = place.error * place.rho * place.kappa * noise / place.noise
    return Ruler(ruler.oracle, ruler.curve, noise, ruler.step, ruler.rng, usual), place


def learn_at_place(ruler: Ruler, place: Place, goal: Goal, known: dict) -> LearnedFront:
    """Key bias and W, checked on fresh queries."""
    oracle, rng = ruler.oracle, ruler.rng
    keys, queries = orthonormal_frame(oracle.dim, rng), orthonormal_frame(oracle.dim, rng)
    distortion = oracle.eps_error if isinstance(oracle, Normalised) else 0.0
    meter = MatchingMeter(oracle, ruler, keys, queries, place.origin, place.rho, place.kappa, distortion=distortion)
    learned = read_front(meter, rng, goal, known, residual=isinstance(ruler.curve, Copies))
    return replace(learned, check=check_held_out_front(oracle, learned, rng))
