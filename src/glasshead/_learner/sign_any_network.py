"""One head with whatever behind it, from yes and no: a classifier's decision."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np

from .._errors import Evidence, TargetMismatch
from .._meter.frame import cone, orthonormal
from .._meter.matching.crossing import Crossings
from .._meter.matching.place import Place
from .._meter.matching.sign_meter import SignMatchingMeter
from .._meter.matching.words import NOT_THIS
from .._oracle import Oracle, Voting
from .._plan import BITS, MOST
from .decision import boundary_point, crossings
from .learned_front import Goal, LearnedFront, read_W
from .sign_front_check import held_out_front_signs

PLACES = 8  # tried at most
LOOKS = 8  # sequences on which laws are checked
FLICKER = 4  # changes of the answer around which noise is looked for


def learn_from_signs(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFront:
    """A few places are tried: at some queries the answer may change in ways that no probe can follow."""
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    oracle.stage = "checking that it is a head"
    check_sign_front_laws(sure, rng)
    oracle.stage = "looking for a place where the answer changes"
    best: LearnedFront | None = None
    trouble: TargetMismatch | None = None
    failed: list[tuple[Crossings, Place]] = []
    for ruler, place in islice(crossings(sure, goal.bits or BITS, rng), PLACES):
        try:
            learned = read(ruler, place, goal, known)
        except TargetMismatch as error:
            trouble = error
            continue
        passed = learned.check.evidence is None
        if passed and learned.rank > 0 and all(holds_at(*other, learned, ruler, place) for other in failed):
            return learned
        best = best or learned
        failed += [] if passed else [(ruler, place)]
    if best is None:
        assert trouble is not None
        raise trouble
    return best


def holds_at(there: Crossings, other: Place, learned: LearnedFront, ruler: Crossings, place: Place) -> bool:
    """Whether it passes where an earlier result did not: a false W may pass at a place that shows too little of it."""
    apart = float(np.linalg.norm(other.origin - place.origin))
    error = there.distance * (learned.score_error / ruler.distance + learned.bound * (other.kappa + apart))
    return held_out_front_signs(there, replace(learned, score_error=error), other).evidence is None


def read(ruler: Crossings, place: Place, goal: Goal, known: dict) -> LearnedFront:
    """Key bias and W, checked on fresh queries; with more bits if those are not enough for the accuracy asked for."""
    oracle, rng, d = ruler.oracle, ruler.rng, ruler.oracle.dim
    keys, queries = cone(ruler.normal, rng), orthonormal(d, rng)
    q, u = place.probes(FLICKER, rng)
    ruler.look_for_flicker(q, np.linalg.norm(u, axis=1, keepdims=True) * keys.vectors[np.arange(FLICKER) % d])
    meter = SignMatchingMeter(oracle, ruler, keys, queries, place.origin, place.rho, place.kappa)
    learned = replace(read_W(meter, rng, goal, known, residual=True), bits=ruler.bits)
    wanted = goal.accuracy or math.inf
    if learned.bound > wanted and goal.bits is None and ruler.bits < MOST:
        missing = math.ceil(math.log2(learned.bound / wanted)) + 1 if math.isfinite(learned.bound) else BITS
        bits = min(MOST, ruler.bits + missing)
        return read(ruler.with_bits(bits), place, replace(goal, bits=bits), known)
    return replace(learned, check=held_out_front_signs(ruler, learned, place))


def check_sign_front_laws(oracle: Oracle, rng: np.random.Generator) -> None:
    """The order of the other tokens, and every token twice, change no answer, near where answers change."""
    point, way = boundary_point(oracle, rng)
    tokens = rng.standard_normal((LOOKS, 4, oracle.dim))
    x = point + 0.5 * float(np.linalg.norm(way)) * tokens / np.linalg.norm(tokens, axis=2, keepdims=True)
    swapped, doubled = x[:, [1, 2, 0, 3]], np.repeat(x, 2, axis=1)
    first = np.asarray(oracle(x), bool)
    laws = [
        ("the same query gets the same answer", x),
        ("the order of the other tokens does not matter", swapped),
        ("every token twice is answered like every token once", doubled),
    ]
    for law, X in laws:
        differs = np.flatnonzero(np.asarray(oracle(X), bool) != first)
        if len(differs):
            one = differs[0]
            raise TargetMismatch(NOT_THIS, Evidence(law, X[one], f"expected {first[one]}", f"{not first[one]}"))
