"""A head in front of an unknown network, from yes and no: where the answer changes, then key bias and W."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from ..._checks import check_front_laws, check_held_out_front_signs
from ..._errors import BOTH_ANSWERS, EQUAL_OUTPUTS, NOT_FRONT_HEAD, Evidence, NotIdentifiable, TargetMismatch
from ..._learned import LearnedFront
from ..._limits import BITS, MOST, Goal
from ..._linalg import cone, orthonormal_frame, rms
from ..._meters import Crossings, Place, SignMatchingMeter
from ..._oracles import Oracle, Voting
from .values import read_front

LENGTH_STRIDE, LENGTH_STRIDES = 4.0, 8
TOKENS_PER_LENGTH = 32  # asked about at each length
COARSE_BITS = 12  # bits, for places
SUCCEED = 0.85  # share of pilots that must succeed
APPROACHES = 14  # halvings of the distance to the boundary
PLACE_SPREADS = (0.5, 0.125)  # of queries, over the distance to where the answer changes
LARGEST_SCORE = 0.2  # rms of scores that probes may have
BOUNDARY_POINTS = 3  # boundary points tried


def find_opposite_tokens(oracle: Oracle, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two tokens that alone get different answers, "no" first, or `NotIdentifiable`."""
    reach = oracle.reach / 4
    tokens = np.zeros((1, oracle.dim))
    for stride in sorted(range(-LENGTH_STRIDES, LENGTH_STRIDES + 1), key=abs):
        length = LENGTH_STRIDE**stride
        if length > reach:
            continue
        tokens = rng.standard_normal((TOKENS_PER_LENGTH, oracle.dim))
        tokens *= length / np.linalg.norm(tokens, axis=1, keepdims=True)
        yes = np.asarray(oracle(tokens[:, None]), bool)
        if yes.any() and not yes.all():
            return tokens[~yes][0], tokens[yes][0]
    evidence = Evidence(BOTH_ANSWERS, tokens[:1], "expected yes for some tokens and no for others", "always one")
    raise NotIdentifiable(f"the answer never changes, so no learner could read W from it ({evidence})")


def find_boundary_point(oracle: Oracle, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A token between two that get different answers, and a way from there along which the answer is "no"."""
    no, yes = find_opposite_tokens(oracle, rng)
    start = no
    for _ in range(COARSE_BITS * 3):
        middle = (no + yes) / 2
        no, yes = (no, middle) if bool(oracle(middle[None, None])[0]) else (middle, yes)
    return no, find_way(oracle, no, start - no, float(np.linalg.norm(start)))


def find_way(oracle: Oracle, point: np.ndarray, way: np.ndarray, wanted: float) -> np.ndarray:
    """The way made longer, up to the length wanted, for as long as the answer stays "no": room to measure in."""
    reach = (oracle.reach - float(np.linalg.norm(point))) / 4
    while 2 * float(np.linalg.norm(way)) <= min(wanted, reach):
        ahead = np.stack([point + share * way for share in (1.25, 1.5, 1.75, 2.0)])
        if np.asarray(oracle(ahead[:, None]), bool).any():
            break
        way = 2 * way
    return way


def find_crossings(oracle: Oracle, bits: int, rng: np.random.Generator) -> Iterator[tuple[Crossings, Place]]:
    """Rulers, and places where their probes work: a few, the best first. Raises where there is none at all."""
    moved, none = False, True
    query = np.zeros((1, oracle.dim))
    for _ in range(BOUNDARY_POINTS):
        point, way = find_boundary_point(oracle, rng)
        for step in range(APPROACHES):
            way = way / 2 if step else way
            away = float(np.linalg.norm(way))
            normal = find_normal(oracle, point + way, 2 * away, rng)
            if normal is None:
                continue
            moved, query = True, np.stack([point + way, point])
            ruler = find_normal_again(Crossings(oracle, normal, away, COARSE_BITS, rng), point + way)
            for share in PLACE_SPREADS:
                place = Place(point + way, share * min(away, ruler.distance), ruler.distance)
                if check_place(ruler, place):
                    none = False
                    yield ruler.with_bits(bits), place
    if not moved:
        raise NotIdentifiable(
            "the answer depends on the last token alone: near a token where it changes no other token changes it, "
            "so no learner could read W from it"
        )
    if none:
        expected, got = "expected changes of the answer that fit one score", "none near any boundary"
        raise TargetMismatch(NOT_FRONT_HEAD, Evidence(EQUAL_OUTPUTS, query, expected, got))


def find_normal(oracle: Oracle, q: np.ndarray, distance: float, rng: np.random.Generator) -> np.ndarray | None:
    """The direction that changes the answer soonest. Near a plane at distance h, `1 / length = normal . u / h`."""
    d = len(q)
    u = rng.standard_normal((4 * d, d))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    both = np.concatenate([u, -u])
    # Any normal will do to look along u and -u alike.
    ruler = Crossings(oracle, both[0], distance, COARSE_BITS, rng)
    here = np.repeat(np.asarray(oracle(q[None, None]), bool), len(both))
    at = np.tile(q, (len(both), 1))
    _, high, found = ruler.find_rung(at, both, here, np.full(len(both), distance))
    if not found.any():
        return None
    inverse = np.where(found, 1 / high, 0.0)
    normal = np.linalg.lstsq(u, inverse[: 4 * d] - inverse[4 * d :], rcond=None)[0]
    length = float(np.linalg.norm(normal))
    return normal / length if length > 0 else None


def find_normal_again(ruler: Crossings, q: np.ndarray) -> Crossings:
    """The ruler with its side, and with the normal and the distance that keys around the first normal suggest."""
    oracle, rng, d = ruler.oracle, ruler.rng, len(q)
    ruler.side = bool(oracle(q[None, None])[0])
    keys = cone(ruler.normal, rng).vectors
    at, here = np.tile(q, (d, 1)), np.full(d, ruler.side)
    low, high, found = ruler.find_rung(at, keys, here, np.full(d, ruler.distance))
    if not found.all():
        return ruler
    low, high = ruler.find_change(at, keys, here, low, high, 2)
    normal = np.linalg.lstsq(keys, 2 / (low + high), rcond=None)[0]
    better = Crossings(oracle, normal / np.linalg.norm(normal), float(1 / np.linalg.norm(normal)), ruler.bits, rng)
    better.side = ruler.side
    return better


def check_place(ruler: Crossings, place: Place) -> bool:
    """Whether most probes succeed there, with scores that are not too large."""
    keys = cone(ruler.normal, ruler.rng).vectors
    q = place.probes(len(keys), ruler.rng)[0]
    found = ruler.read_matches(q, ruler.distance * keys)
    if found.good.mean() < SUCCEED:
        return False
    return rms(found.s[found.good]) <= LARGEST_SCORE


MOST_PLACES = 8  # tried at most
LAW_SEQUENCES = 8  # sequences on which laws are checked
FLICKER_PROBES = 4  # changes of the answer around which noise is looked for


def learn_from_signs(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFront:
    """A few places are tried: at some queries the answer may change in ways that no probe can follow."""
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    oracle.stage = "checking that it is a head"
    check_front_laws(sure, rng, read_near_boundary(sure, rng))
    oracle.stage = "looking for a place where the answer changes"
    best: LearnedFront | None = None
    trouble: TargetMismatch | None = None
    failed: list[tuple[Crossings, Place]] = []
    for ruler, place in islice(find_crossings(sure, goal.bits or BITS, rng), MOST_PLACES):
        try:
            learned = learn_at_crossing(ruler, place, goal, known)
        except TargetMismatch as error:
            trouble = error
            continue
        passed = learned.check.evidence is None
        if passed and learned.rank > 0 and all(check_at(*other, learned, ruler, place) for other in failed):
            return learned
        best = best or learned
        failed += [] if passed else [(ruler, place)]
    if best is None:
        assert trouble is not None
        raise trouble
    return best


def check_at(there: Crossings, other: Place, learned: LearnedFront, ruler: Crossings, place: Place) -> bool:
    """Whether it passes where an earlier result did not: a false W may pass at a place that shows too little of it."""
    apart = float(np.linalg.norm(other.origin - place.origin))
    error = there.distance * (learned.score_error / ruler.distance + learned.bound * (other.kappa + apart))
    return check_held_out_front_signs(there, replace(learned, score_error=error), other).evidence is None


def learn_at_crossing(ruler: Crossings, place: Place, goal: Goal, known: dict) -> LearnedFront:
    """Key bias and W, checked on fresh queries; with more bits if those are not enough for the accuracy asked for."""
    oracle, rng, d = ruler.oracle, ruler.rng, ruler.oracle.dim
    keys, queries = cone(ruler.normal, rng), orthonormal_frame(d, rng)
    q, u = place.probes(FLICKER_PROBES, rng)
    ruler.find_flicker(q, np.linalg.norm(u, axis=1, keepdims=True) * keys.vectors[np.arange(FLICKER_PROBES) % d])
    meter = SignMatchingMeter(oracle, ruler, keys, queries, place.origin, place.rho, place.kappa)
    learned = replace(read_front(meter, rng, goal, known, residual=True), bits=ruler.bits)
    wanted = goal.accuracy or math.inf
    if learned.bound > wanted and goal.bits is None and ruler.bits < MOST:
        missing = math.ceil(math.log2(learned.bound / wanted)) + 1 if math.isfinite(learned.bound) else BITS
        bits = min(MOST, ruler.bits + missing)
        return learn_at_crossing(ruler.with_bits(bits), place, replace(goal, bits=bits), known)
    return replace(learned, check=check_held_out_front_signs(ruler, learned, place))


def read_near_boundary(oracle: Oracle, rng: np.random.Generator) -> np.ndarray:
    """Sequences `(LAW_SEQUENCES, 4, d)` of tokens around one where the answer changes."""
    point, way = find_boundary_point(oracle, rng)
    tokens = rng.standard_normal((LAW_SEQUENCES, 4, oracle.dim))
    return point + 0.5 * float(np.linalg.norm(way)) * tokens / np.linalg.norm(tokens, axis=2, keepdims=True)
