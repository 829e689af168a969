"""The held-out check: fresh random sequences, and for each a shorter one that must be answered alike if W is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import Evidence
from .._learned import FrontCheck, LearnedFront
from .._meters import Crossings, Place, floor
from .._models import FrontHead
from .._oracles import Normalised, Oracle

LENGTHS = range(2, 9)
EACH = 2  # with the same last token, so that they differ by what the head attends to
FRONT_QUERIES = 2 * len(LENGTHS) * EACH
LOOSE = 1e-8  # of what attention changes in the answers: anything larger is no rounding
CLEAR = 1e-6  # of the scores: where these are small, what a wrong W changes is smaller still
CEILING = 0.05  # of the same: a check that allows more would pass whatever W is
WIDER = 3.0  # times the tokens that W was read with: where scores of the order of one can be had
SLACK, NOISES = 2.0, 8.0  # times what the errors of scores suggest, and the noise of answers
ORDINARY, SMALL = 1.0, 1 / 16  # a head read with tokens that much shorter is also tried on tokens of this length
ROUNDED = 1e-2  # errors of scores by rounding: more, and tokens of that length tell nothing


def held_out_front(oracle: Oracle, learned: LearnedFront, rng: np.random.Generator) -> FrontCheck:
    """Two sequences of each length from 2 to 8, and as many shorter ones; some more where W was read near zero."""
    oracle.stage = "checking on fresh queries"
    reach = oracle.reach
    size, ordinary = token_size(learned, reach), min(ORDINARY, reach / 2)
    parts = [compare(oracle, learned, size, LENGTHS, rng)]
    # Tokens behind a normalisation have lengths of their own.
    if size < SMALL * ordinary and not isinstance(oracle, Normalised) and rounding(oracle, learned, ordinary) < ROUNDED:
        parts.append(compare(oracle, learned, ordinary, LENGTHS[::3], rng))
    worst = max(parts, key=lambda part: part.excess)
    residual = max(part.residual for part in parts)
    compared = sum(part.compared for part in parts)
    words = f"{compared} fresh sequences of 2 to 8 tokens are answered like shorter ones, to {residual:.1e}"
    return FrontCheck(residual, worst.evidence if worst.excess > 1 else None, words, "", compared, worst.outputs)


@dataclass(frozen=True)
class Compared:
    """The largest error over the largest answer and over what is allowed; where that is; numbers per answer."""

    residual: float
    excess: float
    evidence: Evidence
    compared: int
    outputs: int


def compare(oracle: Oracle, learned: LearnedFront, size: float, lengths: range, rng: np.random.Generator) -> Compared:
    """Fresh sequences of tokens of that size against the shorter ones that the head says are answered alike."""
    near = closeness(learned, size)
    fresh = [sequences(size, near, length, oracle.dim, rng) for length in lengths]
    answers = np.stack([np.asarray(oracle(X)).reshape(EACH, -1) for X in fresh])
    expected = np.stack([np.asarray(learned.model(X)).reshape(EACH, -1) for X in fresh])
    off = np.abs(answers - expected).max(axis=2)
    allowed = most_allowed(oracle, learned, size, near, answers)
    i, j = np.unravel_index(int(np.argmax(off)), off.shape)
    evidence = Evidence(
        "a sequence and a shorter one with the same attention output are answered alike",
        fresh[i][j],
        f"expected {expected[i, j]} within {allowed:.2g}",
        f"{answers[i, j]}",
    )
    excess = off[i, j] / allowed if allowed > 0 else np.inf * (off[i, j] > 0)
    residual = float(off.max()) / (float(np.abs(answers).max()) or 1.0)
    return Compared(residual, float(excess), evidence, off.size, answers.shape[2])


def most_allowed(oracle: Oracle, learned: LearnedFront, size: float, near: float, answers: np.ndarray) -> float:
    """As much as errors of scores move the answers, and noise; never as much as a head with any other W."""
    changed = float(np.ptp(answers, axis=1).max())
    apart = 2 * near * size
    noise = max(learned.noise, floor(oracle, float(np.abs(answers).max())))
    score = apart * (learned.bound * size + learned.bound_key_bias) + rounding(oracle, learned, size)
    loose = min(LOOSE, CLEAR * apart * pull(learned, size))
    return min((loose + SLACK * score) * changed + NOISES * noise, CEILING * changed + 4 * noise)


def pull(learned: LearnedFront, size: float) -> float:
    """What a token's score differs by, for each unit of its length, typically."""
    head = learned.model
    return float(np.hypot(head.W_norm * size / np.sqrt(head.dim), np.linalg.norm(head.key_bias)) / np.sqrt(head.dim))


def rounding(oracle: Oracle, learned: LearnedFront, size: float) -> float:
    """Of the scores of tokens of that size."""
    return 8 * (oracle.dim + 4) * oracle.roundoff * size * pull(learned, size)


def closeness(learned: LearnedFront, size: float) -> float:
    """How far other tokens lie from the last one, of their length, for scores that differ by one or less."""
    return float(min(1.0, 1 / max(size * pull(learned, size), 1e-300)))


def token_size(learned: LearnedFront, reach: float) -> float:
    """Tokens as long as those W was read with, or longer if scores of size one want it."""
    d, L = learned.model.dim, learned.scale
    score = L * (L * learned.model.W_norm / d + float(np.linalg.norm(learned.model.key_bias)) / np.sqrt(d))
    wanted = L * float(np.clip(np.sqrt(1 / max(score, 1e-300)), 1.0, WIDER))
    return min(wanted, reach / 2)


def sequences(size: float, near: float, length: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian tokens of rms length `size`, none twice as long, all moved towards a last one that they share."""
    Z = rng.standard_normal((EACH, length, dim))
    norms = np.linalg.norm(Z, axis=-1, keepdims=True)
    X = Z * size * np.minimum(1 / np.sqrt(dim), 2 / norms)
    last = X[:1, -1:]
    X[:, :-1] = last + near * (X[:, :-1] - last)
    X[:, -1:] = last
    return X


TRIES = 16  # sequences of each length, of which two with different answers are wanted
HALVINGS = 36
LEAST = 1e-6  # how near to a change of the answer shorter sequences are asked about, at best
CLEAR_SIDE = 1e-3  # of the scores: nearer where these are small, or a wrong W would not show
FINEST = 2.0 ** (3 - HALVINGS)
SIGN_SLACK = 4.0  # times what the bounds allow
SIGN_FRONT_QUERIES = len(LENGTHS) * (TRIES + HALVINGS + 2)


def held_out_front_signs(ruler: Crossings, learned: LearnedFront, place: Place) -> FrontCheck:
    """For each length from 2 to 8 a change of the answer between two fresh sequences, and shorter ones around it."""
    oracle = ruler.oracle
    oracle.stage = "checking on fresh queries"
    score = ruler.distance * place.kappa * learned.model.W_norm / oracle.dim
    blur = float(ruler.blur(place.origin[None], ruler.normal[None], ruler.distance)[0]) / ruler.distance
    nearest = max(FINEST, min(LEAST, CLEAR_SIDE * score), blur)
    off = min(0.25, nearest + SIGN_SLACK * learned.score_error)
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
        return FrontCheck(None, None, "no fresh sequences with different answers were found to compare")
    words = f"{compared} changes of the answer between fresh sequences of 2 to 8 tokens are those of shorter ones"
    return FrontCheck(wrong, evidence, f"{words}, to {off:.1e}", compared=compared)


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


SIZE = 0.5  # rms entries: far above any sqrt(eps)
SCATTER = (1.0, 0.3, 0.1, 0.03)  # of the other tokens around the last one: less where scores are too large
SEQUENCES, TOKENS = 8, 4
ENOUGH = 3
LOOSE_ORDINARY = 1e-6  # of the range of answers


def holds_for_ordinary_tokens(oracle: Oracle, model: FrontHead, rng: np.random.Generator) -> bool:
    """Whether sequences of ordinary tokens are answered like shorter ones with the same attention output."""
    size = min(SIZE, oracle.reach / (4 * np.sqrt(oracle.dim)))
    for scatter in SCATTER:
        last = rng.standard_normal((SEQUENCES, 1, oracle.dim))
        others = last + scatter * rng.standard_normal((SEQUENCES, TOKENS - 1, oracle.dim))
        X = size * np.concatenate([others, last], axis=1)
        fits = [which for which in range(SEQUENCES) if can_be_shortened(model, X[which])]
        if len(fits) < ENOUGH:
            continue
        answers = np.asarray(oracle(X[fits])).reshape(len(fits), -1)
        expected = np.asarray(model(X[fits])).reshape(len(fits), -1)
        return float(np.abs(answers - expected).max()) <= LOOSE_ORDINARY * float(np.ptp(answers, axis=0).max())
    return False


def can_be_shortened(model: FrontHead, X: np.ndarray) -> bool:
    try:
        return len(list(model.shorter(X))) > 0
    except ValueError:
        return False
