"""Why a box that was refused may be none of the families: a few queries that tell the usual causes apart, in words.

A law that is broken says that something is wrong, and not what: dropout, a batch norm, positions or a window all break
the first law that asks about them. Each cause here has a question of its own, and one thing to try.
"""

from __future__ import annotations

import numpy as np

from .._errors import STRAIGHT_RAYS, GlassheadError
from .._oracles import Oracle

TOKENS, LONG = 5, 48  # of a sequence whose order is changed, and of one that a window would cut
SHORT_LENGTH = 1.0  # of tokens, unless the box takes only shorter ones
ALIKE, ROUNDINGS = 1e-6, 64.0  # of the largest answer: what is closer is the same
AGAIN = 3  # times the same question

UNSTEADY = (
    "the same sequence is answered differently each time, as with dropout left on: try it in evaluation mode, or say "
    "how large the noise is with tolerance="
)
BATCH = (
    "a sequence is answered differently beside others, as by a norm over the batch: try it one sequence at a time, as "
    "in lambda X: np.concatenate([f(x[None]) for x in X])"
)
FIRST = (
    "the order of all tokens but the first does not matter: the query token seems to be the first one; try "
    "lambda X: f(X[:, ::-1])"
)
ORDER = "the order of tokens matters, as with positions, which no family has: try the box without them"
LAST_ONLY = "the first of many tokens do not count, as with a window, which no family has: try the box without it"
FIRST_ONLY = "the later of many tokens do not count, as if the box cut sequences off: try it with room for all of them"


def find_cause(oracle: Oracle, seed: int) -> str:
    """A sentence about the box, or nothing: up to a dozen queries."""
    rng = np.random.default_rng([seed, TOKENS])
    X = tokens(oracle, LONG + TOKENS, rng)
    x, others = X[:TOKENS], tokens(oracle, LONG, rng)
    again = np.stack([oracle(x[None])[0] for _ in range(AGAIN)])
    beside = np.asarray(oracle(np.stack([x, *others[: AGAIN * TOKENS].reshape(AGAIN, TOKENS, -1)]))[0])
    if differ(oracle, again[0], *again[1:]):
        return UNSTEADY
    if differ(oracle, again[0], beside):
        return BATCH
    long, half = X[TOKENS:], LONG // 2
    whole = oracle(long[None])[0]
    pieces = [(others[:half], long[half:]), (long[:half], others[half:-1], long[-1:])]
    early, late = (differ(oracle, whole, oracle(np.concatenate(piece)[None])[0]) for piece in pieces)
    if early != late:
        return FIRST_ONLY if early else LAST_ONLY
    but_last, but_first = (oracle(x[order][None])[0] for order in ([1, 2, 3, 0, 4], [0, 2, 3, 4, 1]))
    if differ(oracle, again[0], but_last):
        return ORDER if differ(oracle, again[0], but_first) else FIRST
    return ""


def tokens(oracle: Oracle, count: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((count, oracle.dim))
    return min(SHORT_LENGTH, oracle.reach) * X / np.linalg.norm(X, axis=1, keepdims=True)


def differ(oracle: Oracle, one: np.ndarray | float, *others: np.ndarray | float) -> bool:
    size = max(float(np.abs(answer).max()) for answer in (one, *others))
    allowed = (ALIKE + ROUNDINGS * oracle.roundoff + 2 * oracle.rtol) * size + 2 * oracle.tolerance
    return bool(max(float(np.abs(other - one).max()) for other in others) > allowed)


def add_cause(error: GlassheadError, oracle: Oracle, seed: int) -> None:
    """The refusal also says why, if that can be found out with the queries that are left. Noise that is always the
    same, and was measured, would pass for any of the causes."""
    evidence = getattr(error, "evidence", None)
    if evidence is not None and evidence.law == STRAIGHT_RAYS:
        return
    try:
        cause = find_cause(oracle, seed) if oracle.answers == "value" else ""
    except GlassheadError:
        return
    if cause:
        error.args = (f"{error.args[0]}; {cause}",)
