"""Why a box that was refused may be none of the families: a few queries that tell the usual causes apart, in words.

A law that is broken says that something is wrong, and not what: dropout, a batch norm, positions or a window all break
the first law that asks about them. Each cause here has a question of its own, and one thing to try.
"""

from __future__ import annotations

import numpy as np

from .._errors import STRAIGHT_RAYS, GlassheadError, NotConverged, TargetMismatch, law_of
from .._oracles import DOUBLE, SINGLE, Oracle, law_token
from .promise import as_printed

REORDERED_TOKENS, WINDOW_TOKENS = 5, 48  # of a sequence whose order is changed, and of one that a window would cut
SHORT_LENGTH = 1.0  # of tokens, unless the box takes only shorter ones
ALIKE, ALIKE_ROUNDINGS = 1e-6, 64.0  # of the largest answer: what is closer is the same
FEW_DIGITS = 1e-9  # of the largest answer: numbers that are given to less than that are hardly rounded
TIMES_ASKED = 3  # times the same question
NEXT_ORDER = [1, 2, 3, 0, 4]  # of tokens, the last one in its place

UNSTEADY = (
    "the same sequence is answered differently each time, as with dropout left on: try it in evaluation mode, or say "
    "how large the noise is with tolerance="
)
BATCH_MATTERS = (
    "a sequence is answered differently beside others, as by a norm over the batch: try it one sequence at a time, as "
    "in lambda X: np.concatenate([f(x[None]) for x in X])"
)
FIRST_IS_QUERY = (
    "the order of all tokens but the first does not matter: the query token seems to be the first one; try "
    "lambda X: f(X[:, ::-1].copy())"
)
ORDER = (
    "the order of tokens matters, as with positions: rotary ones are found behind a norm, vectors that are added in "
    "front where nothing else depends on places, others in no family; try the box without them"
)
PRINTED = "answers are printed with few digits: promise {}={:g} to go on"
LAST_ONLY = "the first of many tokens do not count, as with a window, which no family has: try the box without it"
FIRST_ONLY = "the later of many tokens do not count, as if the box cut sequences off: try it with room for all of them"


def find_cause(oracle: Oracle, seed: int) -> str:
    """A sentence about the box, or nothing: up to a dozen queries."""
    rng = np.random.default_rng([seed, REORDERED_TOKENS])
    X = tokens(oracle, WINDOW_TOKENS + REORDERED_TOKENS, rng)
    x, others = X[:REORDERED_TOKENS], tokens(oracle, WINDOW_TOKENS, rng)
    again = np.stack([oracle(x[None])[0] for _ in range(TIMES_ASKED)])
    beside = np.asarray(
        oracle(np.stack([x, *others[: TIMES_ASKED * REORDERED_TOKENS].reshape(TIMES_ASKED, REORDERED_TOKENS, -1)]))[0]
    )
    if differ(oracle, again[0], *again[1:]):
        return UNSTEADY
    if differ(oracle, again[0], beside):
        return BATCH_MATTERS
    long, half = X[REORDERED_TOKENS:], WINDOW_TOKENS // 2
    whole = oracle(long[None])[0]
    pieces = [(others[:half], long[half:]), (long[:half], others[half:-1], long[-1:])]
    early, late = (differ(oracle, whole, oracle(np.concatenate(piece)[None])[0]) for piece in pieces)
    if early != late:
        return FIRST_ONLY if early else LAST_ONLY
    but_last, but_first = (oracle(x[order][None])[0] for order in (NEXT_ORDER, [0, 2, 3, 4, 1]))
    if differ(oracle, again[0], but_last):
        return ORDER if differ(oracle, again[0], but_first) else FIRST_IS_QUERY
    if oracle.narrow or not oracle.exact:  # halves and quarters have few decimals, too
        return ""
    answers = np.concatenate([np.ravel(y) for y in (again, beside, whole)])
    printed = as_printed(answers, "tolerance")
    return PRINTED.format(*printed) if printed is not None and printed[1] > FEW_DIGITS * np.abs(answers).max() else ""


def tokens(oracle: Oracle, count: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((count, oracle.dim))
    return min(SHORT_LENGTH, oracle.reach) * X / np.linalg.norm(X, axis=1, keepdims=True)


def differ(oracle: Oracle, one: np.ndarray | float, *others: np.ndarray | float) -> bool:
    size = max(float(np.abs(answer).max()) for answer in (one, *others))
    allowed = (ALIKE + ALIKE_ROUNDINGS * oracle.roundoff + 2 * oracle.rtol) * size + 2 * oracle.tolerance
    return bool(max(float(np.abs(other - one).max()) for other in others) > allowed)


def find_cause_of(error: GlassheadError, oracle: Oracle, seed: int) -> bool:
    """The refusal also says why, if that can be found out with the queries that are left. Noise that is always the
    same, and was measured, would pass for any of the causes. Returns whether it is the order of tokens: then
    `error.known["orders"]` are two sequences that show it, of the same tokens and with the same last one."""
    if law_of(error) == STRAIGHT_RAYS:
        return False
    try:
        cause = find_cause(oracle, seed) if oracle.answers == "value" else ""
    except GlassheadError:
        return False
    if cause:
        error.args = (f"{error.args[0]}; {cause}",)
    if cause == ORDER and isinstance(error, TargetMismatch | NotConverged):
        rng = np.random.default_rng([seed, REORDERED_TOKENS])
        x = tokens(oracle, WINDOW_TOKENS + REORDERED_TOKENS, rng)[:REORDERED_TOKENS]
        error.known["orders"] = x, x[NEXT_ORDER]
    return cause == ORDER


def find_unsteady(error: GlassheadError, oracle: Oracle, seed: int) -> None:
    """A refusal that finds too little in the answers also says where the same sequence gets another one: two queries.
    Where it speaks of noise, that is said already."""
    if oracle.answers != "value" or "noise" in str(error):
        return
    x = tokens(oracle, WINDOW_TOKENS, np.random.default_rng([seed, WINDOW_TOKENS]))[None]
    try:
        one, again = (np.asarray(oracle(x)[0]) for _ in range(2))
    except GlassheadError:  # a budget that ended, say
        return
    if differ(oracle, one, again):
        error.args = (f"{error.args[0]}; {UNSTEADY}",)


LONG_TOKEN = 2.0**20  # whose answers are not rounded away, and whose squares float32 still holds
UNSEEN, SHOWS = 2.0**-30, 2.0**-20  # changes of a token that float32 cannot tell from none, and that it can


def find_rounded_tokens(oracle: Oracle) -> bool:
    """Whether the box rounds its tokens to float32 although its answers have the digits of float64, as behind a
    read-out in float64: then it computes with fewer digits than it shows. Three queries; the box takes note."""
    if oracle.answers != "value" or not oracle.exact or oracle.roundoff > DOUBLE:
        return False
    # Long, or answers that are rounded would hide it; changed unevenly, since a norm forgets how long a token is.
    length, signs = min(oracle.reach, LONG_TOKEN) / (2 * min(1.0, oracle.reach)), (-1.0) ** np.arange(oracle.dim)
    token = (length * law_token(oracle, np.random.default_rng(0))).astype(np.float32).astype(np.float64)
    asked = token, token * (1 + UNSEEN * signs), token * (1 + SHOWS * signs)
    try:  # each alone: beside others an answer may be another one in its last digits
        one, alike, apart = (oracle(each[None, None]) for each in asked)
    except GlassheadError:  # a budget that ended, say: then nothing is known
        return False
    rounded = np.array_equal(one, alike) and not np.array_equal(one, apart)
    if rounded:
        oracle.box.rounds_tokens(SINGLE)
    return rounded
