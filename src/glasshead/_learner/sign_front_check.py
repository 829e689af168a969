"""The held-out check for yes and no: between fresh sequences, the answer and that to shorter ones change together."""

from __future__ import annotations

import numpy as np

from .._errors import Evidence
from .._meter.matching.crossing import Crossings
from .._meter.matching.place import Place
from .._oracle import Oracle
from .front_check import LENGTHS, FrontCheck
from .learned_front import LearnedFront

TRIES = 16  # sequences of each length, of which two with different answers are wanted
HALVINGS = 36
LEAST = 1e-6  # how near to a change of the answer shorter sequences are asked about, at best
CLEAR = 1e-3  # of the scores: nearer where these are small, or a wrong W would not show
FINEST = 2.0 ** (3 - HALVINGS)
SLACK = 4.0  # times what the bounds allow
QUERIES = len(LENGTHS) * (TRIES + HALVINGS + 2)


def held_out_front_signs(ruler: Crossings, learned: LearnedFront, place: Place) -> FrontCheck:
    """For each length from 2 to 8 a change of the answer between two fresh sequences, and shorter ones around it."""
    oracle = ruler.oracle
    oracle.stage = "checking on fresh queries"
    score = ruler.distance * place.kappa * learned.model.W_norm / oracle.dim
    blur = float(ruler.blur(place.origin[None], ruler.normal[None], ruler.distance)[0]) / ruler.distance
    nearest = max(FINEST, min(LEAST, CLEAR * score), blur)
    off = min(0.25, nearest + SLACK * learned.score_error)
    evidence, compared, wrong = None, 0, 0.0
    for length in LENGTHS:
        X = fresh(ruler, place, length)
        yes = np.asarray(oracle(X), bool)
        if yes.all() or not yes.any():
            continue
        no, other, share = between(oracle, X[~yes][0], X[yes][0])
        ends = np.stack([no + (share + side * off) * (other - no) for side in (-1, 1)])
        answers = np.asarray(learned.model(ends), bool)
        compared += 1
        if answers[0] or not answers[1]:
            wrong = off
            side = int(not answers[1])
            law = "a sequence and a shorter one with the same attention output are answered alike"
            evidence = Evidence(law, ends[side], f"expected {bool(side)}", f"{bool(answers[side])}")
    if compared == 0:
        return FrontCheck(None, None, "no fresh sequences with different answers were found to compare", 1)
    words = f"{compared} changes of the answer between fresh sequences of 2 to 8 tokens are those of shorter ones"
    return FrontCheck(wrong, evidence, f"{words}, to {off:.1e}", 1)


def fresh(ruler: Crossings, place: Place, length: int) -> np.ndarray:
    """Last tokens near the origin, the others scattered around where the answer changes."""
    rng, d = ruler.rng, len(place.origin)
    Z = rng.standard_normal((TRIES, length, d))
    Z /= np.linalg.norm(Z, axis=-1, keepdims=True)
    ahead = ruler.distance * rng.uniform(0.0, 4.0, (TRIES, 1, 1))
    X = place.origin + 0.5 * ruler.distance * Z + ahead * ruler.normal
    X[:, -1] = place.origin + place.kappa * Z[:, -1]
    return X


def between(oracle: Oracle, no: np.ndarray, yes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The two, and the share of the way from the first to the second at which the answer changes."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if bool(oracle((no + middle * (yes - no))[None])[0]) else (middle, high)
    return no, yes, (low + high) / 2
