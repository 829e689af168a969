"""The held-out check of a head with an unknown network behind it, whose answers nobody can predict.

What W and the key bias do predict is which sequences have the same attention output: for each fresh one there is a
shorter one that the box must answer alike. Values are compared as they are; yes and no, next to where they change.
Last, a normalisation that was found in front of the head is tried on tokens of ordinary size.
"""

from __future__ import annotations

import numpy as np

from .._errors import SAME_OUTPUT, Evidence
from .._learned import HeldOut, LearnedFront
from .._linalg import LEAST_DIVISOR
from .._meters import Crossings, Place, floor
from .._models import FrontHead
from .._oracles import Normalised, Oracle
from .compared import Compared
from .held_out import CHECKING

FRONT_LENGTHS = range(2, 9)
SAME_LAST = 2  # with the same last token, so that they differ by what the head attends to
LOOSE_CHANGE = 1e-8  # of what attention changes in the answers: anything larger is no rounding
LOOSE_FAINT = 1e-6  # of the scores: where these are small, what a wrong W changes is smaller still
MOST_OF_CHANGE = 0.05  # of the same: a check that allows more would pass whatever W is
LONGER_TOKENS = 3.0  # times the tokens that W was read with: where scores of the order of one can be had
SCORE_TIMES, NOISE_TIMES = 2.0, 8.0  # times what the errors of scores suggest, and the noise of answers
ORDINARY_LENGTH = 1.0  # a head that was read with much shorter tokens is also tried on tokens of this length
MUCH_SHORTER = 1 / 16
ROUNDED_SCORE = 1e-2  # errors of scores by rounding: more, and tokens of that length tell nothing


def check_held_out_front(oracle: Oracle, learned: LearnedFront, rng: np.random.Generator) -> HeldOut:
    """Two sequences of each length from 2 to 8, and as many shorter ones; some more where W was read near zero."""
    oracle.stage = CHECKING
    reach = oracle.reach
    size, ordinary = front_token_size(learned, reach), min(ORDINARY_LENGTH, reach / 2)
    parts = [read_shortened(oracle, learned, size, FRONT_LENGTHS, rng)]
    # Tokens behind a normalisation have lengths of their own.
    if (
        size < MUCH_SHORTER * ordinary
        and not isinstance(oracle, Normalised)
        and score_rounding(oracle, learned, ordinary) < ROUNDED_SCORE
    ):
        parts.append(read_shortened(oracle, learned, ordinary, FRONT_LENGTHS[::3], rng))
    worst = max(parts, key=lambda part: float(part.excess.max()))
    residual = max(part.residual() for part in parts)
    compared = sum(len(part.X) for part in parts)
    words = f"{compared} fresh sequences of 2 to 8 tokens are answered like shorter ones, to {residual:.1e}"
    return HeldOut(residual, worst.evidence(SAME_OUTPUT), words, outputs=worst.apart.shape[1], compared=compared)


def read_shortened(
    oracle: Oracle, learned: LearnedFront, size: float, lengths: range, rng: np.random.Generator
) -> Compared:
    """Fresh sequences of tokens of that size, and the shorter ones that the head says are answered alike."""
    near = closeness(learned, size)
    fresh = [sequences_with_one_last(size, near, length, oracle.dim, rng) for length in lengths]
    got = np.stack([np.asarray(oracle(X)).reshape(SAME_LAST, -1) for X in fresh])
    want = np.concatenate([np.asarray(learned.model(X)).reshape(SAME_LAST, -1) for X in fresh])
    allowed = most_allowed(oracle, learned, size, near, got)
    return Compared([x for X in fresh for x in X], got.reshape(want.shape), want, allowed)


def most_allowed(oracle: Oracle, learned: LearnedFront, size: float, near: float, answers: np.ndarray) -> float:
    """As much as errors of scores move the answers, and noise; never as much as a head with any other W."""
    changed = float(np.ptp(answers, axis=1).max())
    apart = 2 * near * size
    noise = max(learned.noise, floor(oracle, float(np.abs(answers).max())))
    score = apart * (learned.bound * size + learned.bound_key_bias) + score_rounding(oracle, learned, size)
    loose = min(LOOSE_CHANGE, LOOSE_FAINT * apart * pull(learned, size))
    return min((loose + SCORE_TIMES * score) * changed + NOISE_TIMES * noise, MOST_OF_CHANGE * changed + 4 * noise)


def pull(learned: LearnedFront, size: float) -> float:
    """What a token's score differs by, for each unit of its length, typically."""
    head = learned.model
    return float(np.hypot(head.W_norm * size / np.sqrt(head.dim), np.linalg.norm(head.key_bias)) / np.sqrt(head.dim))


def score_rounding(oracle: Oracle, learned: LearnedFront, size: float) -> float:
    """How far rounding inside the box may move the scores of tokens of that size: `8 (d + 4)` roundings of them."""
    return 8 * (oracle.dim + 4) * oracle.roundoff * size * pull(learned, size)


def closeness(learned: LearnedFront, size: float) -> float:
    """How far other tokens lie from the last one, of their length, for scores that differ by one or less."""
    return float(min(1.0, 1 / max(size * pull(learned, size), LEAST_DIVISOR)))


def front_token_size(learned: LearnedFront, reach: float) -> float:
    """The length of check tokens: that of those W was read with, or longer if scores of size one want it."""
    d, L = learned.model.dim, learned.scale
    score = L * (L * learned.model.W_norm / d + float(np.linalg.norm(learned.model.key_bias)) / np.sqrt(d))
    wanted = L * float(np.clip(np.sqrt(1 / max(score, LEAST_DIVISOR)), 1.0, LONGER_TOKENS))
    return min(wanted, reach / 2)


def sequences_with_one_last(size: float, near: float, length: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian tokens of rms length `size`, none twice as long, all moved towards a last one that they share."""
    Z = rng.standard_normal((SAME_LAST, length, dim))
    norms = np.linalg.norm(Z, axis=-1, keepdims=True)
    X = Z * size * np.minimum(1 / np.sqrt(dim), 2 / norms)
    last = X[:1, -1:]
    X[:, :-1] = last + near * (X[:, :-1] - last)
    X[:, -1:] = last
    return X


SIDE_DRAWS = 16  # sequences of each length, of which two with different answers are wanted
SIDE_HALVINGS = 36
USUAL_SIDE = 1e-6  # how near to a change of the answer shorter sequences are asked about, at best
FAINT_CHANGE = 1e-3  # of the scores: nearer where these are small, or a wrong W would not show
FINEST_SIDE = 2.0 ** (3 - SIDE_HALVINGS)
SIDE_TIMES = 4.0  # times what the bounds allow


def check_held_out_front_signs(ruler: Crossings, learned: LearnedFront, place: Place) -> HeldOut:
    """For each length from 2 to 8 a change of the answer between two fresh sequences, and shorter ones around it."""
    oracle = ruler.oracle
    oracle.stage = CHECKING
    score = ruler.distance * place.kappa * learned.model.W_norm / oracle.dim
    blur = float(ruler.blur(place.origin[None], ruler.normal[None], ruler.distance)[0]) / ruler.distance
    nearest = max(FINEST_SIDE, min(USUAL_SIDE, FAINT_CHANGE * score), blur)
    off = min(0.25, nearest + SIDE_TIMES * learned.score_error)
    evidence, compared, wrong = None, 0, 0.0
    for length in FRONT_LENGTHS:
        X = around_the_change(ruler, place, length)
        yes = np.asarray(oracle(X), bool)
        if yes.all() or not yes.any():
            continue
        no, other, share = find_change(oracle, X[~yes][0], X[yes][0])
        ends = np.stack([no + (share + side * off) * (other - no) for side in (-1, 1)])
        answers = np.asarray(learned.model(ends), bool)
        compared += 1
        if answers[0] or not answers[1]:
            wrong = off
            side = int(not answers[1])
            evidence = Evidence(SAME_OUTPUT, ends[side], f"expected {bool(side)}", f"{bool(answers[side])}")
    if compared == 0:
        return HeldOut(None, None, "no fresh sequences with different answers were found to compare")
    words = f"{compared} changes of the answer between fresh sequences of 2 to 8 tokens are those of shorter ones"
    return HeldOut(wrong, evidence, f"{words}, to {off:.1e}", compared=compared)


def around_the_change(ruler: Crossings, place: Place, length: int) -> np.ndarray:
    """Last tokens near the origin, the others scattered around where the answer changes; none too long to be sent."""
    rng, d = ruler.rng, len(place.origin)
    Z = rng.standard_normal((SIDE_DRAWS, length, d))
    Z /= np.linalg.norm(Z, axis=-1, keepdims=True)
    ahead = ruler.distance * rng.uniform(0.0, 4.0, (SIDE_DRAWS, 1, 1))
    X = place.origin + 0.5 * ruler.distance * Z + ahead * ruler.normal
    X[:, -1] = place.origin + place.kappa * Z[:, -1]
    return X * np.minimum(1.0, ruler.oracle.reach / np.linalg.norm(X, axis=-1, keepdims=True))


def find_change(oracle: Oracle, no: np.ndarray, yes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Two sequences answered no and yes, and the share of the way between them at which the answer changes."""
    low, high = 0.0, 1.0
    for _ in range(SIDE_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if bool(oracle((no + middle * (yes - no))[None])[0]) else (middle, high)
    return no, yes, (low + high) / 2


ORDINARY_ENTRY = 0.5  # rms entries: far above any sqrt(eps)
ORDINARY_SCATTER = (1.0, 0.3, 0.1, 0.03)  # of the other tokens around the last one: less where scores are too large
ORDINARY_SEQUENCES, ORDINARY_TOKENS = 8, 4
ORDINARY_ENOUGH = 3
LOOSE_ORDINARY, ORDINARY_ROOTS = 1e-6, 4.0  # of the range of answers, or so many roots of a rounding where that is more


def check_ordinary_tokens(oracle: Oracle, model: FrontHead, rng: np.random.Generator) -> bool:
    """Whether sequences of ordinary tokens are answered like shorter ones with the same attention output."""
    size = min(ORDINARY_ENTRY, oracle.reach / (4 * np.sqrt(oracle.dim)))
    for scatter in ORDINARY_SCATTER:
        last = rng.standard_normal((ORDINARY_SEQUENCES, 1, oracle.dim))
        others = last + scatter * rng.standard_normal((ORDINARY_SEQUENCES, ORDINARY_TOKENS - 1, oracle.dim))
        X = size * np.concatenate([others, last], axis=1)
        fits = [which for which in range(ORDINARY_SEQUENCES) if model.can_shorten(X[which])]
        if len(fits) < ORDINARY_ENOUGH:
            continue
        answers = np.asarray(oracle(X[fits])).reshape(len(fits), -1)
        expected = np.asarray(model(X[fits])).reshape(len(fits), -1)
        loose = max(LOOSE_ORDINARY, ORDINARY_ROOTS * float(np.sqrt(oracle.roundoff)))
        return float(np.abs(answers - expected).max()) <= loose * float(np.ptp(answers, axis=0).max())
    return False
