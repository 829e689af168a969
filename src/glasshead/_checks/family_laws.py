"""Laws of boxes that are more than heads with values in hand: sums of heads, networks behind a head, yes and no."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from .._errors import (
    ANY_ORDER,
    ASKED_AGAIN,
    EVERY_TOKEN_TWICE,
    HALF_PROBE,
    NOT_BLOCK,
    NOT_FRONT_HEAD,
    ONE_TOKEN_SIDE,
    OPPOSITE_TOKENS,
    OR_NOISY,
    STRAIGHT_RAYS,
    THREE_COPIES,
    TWO_COPIES,
    Evidence,
    TargetMismatch,
)
from .._meters import Halfspace, OneRow, Place, Ruler
from .._oracles import DOUBLE, Oracle, law_token
from .laws import Asked, Claim, Slack, refuse_broken

# Recorded sums of heads break laws by up to 1e-14 of the largest answer, other boxes one of them by 8e-5 at least.
SUM_SLACK = Slack(loose=1e-6, roundings=32.0)
# Heads with networks behind break theirs by up to 1e-14, others one by 1e-3 at least; a network may make little of it.
FRONT_SLACK = Slack(loose=1e-8, roundings=64.0)
SIGN_SEQUENCES = 4  # for each law: a coin passes one in 16 times
SUM_LENGTHS = 1.0, 2.0**-10  # of tokens, over the usual one: at one of them scores may be too flat or too steep to tell
SEEN_TIMES = 8.0  # times the error of an answer: less of a change is none

TYPICAL = 8  # sequences whose answers say how large one typically is


def law_sequences(oracle: Oracle, rng: np.random.Generator, count: int = 1) -> np.ndarray:
    """Random sequences of four tokens as long as `law_token`."""
    X = rng.standard_normal((count, 4, oracle.dim))
    return X * (min(1.0, oracle.reach) / np.linalg.norm(X, axis=-1, keepdims=True))


FRONT_LAWS = (ASKED_AGAIN, ANY_ORDER, EVERY_TOKEN_TWICE)


def check_front_laws(
    oracle: Oracle,
    rng: np.random.Generator,
    sequences: np.ndarray | None = None,
    laws: tuple[str, ...] = FRONT_LAWS,
) -> float:
    """The laws of a head whatever lies behind it, for values and for yes and no. Returns the size of answers.

    `sequences (B, N, d)` are drawn unless given: yes and no say most near where the answer changes.
    """
    sequences = law_sequences(oracle, rng) if sequences is None else sequences
    claims = [Claim(law, sequences) for law in laws]
    outcomes = Asked(oracle).read(*claims)
    size = max(float(np.abs(side).max()) for outcome in outcomes[:2] for side in (outcome.got, outcome.want))
    if oracle.answers == "value" and oracle.roundoff > DOUBLE:
        # What is left of an answer that cancels may be hardly more than rounding, which goes with the others.
        size = max(size, float(np.abs(oracle(law_sequences(oracle, rng.spawn(1)[0], TYPICAL))).max()))
    refuse_broken(claims, outcomes, partial(FRONT_SLACK.allowed, oracle, size), NOT_FRONT_HEAD)
    return size


def check_block_laws(oracle: Oracle, rng: np.random.Generator, positions: bool = False) -> int:
    """The laws of heads whatever lies behind them, and how many numbers an answer has; with `positions` those that
    hold where the order of tokens matters."""
    outputs = np.asarray(oracle(law_sequences(oracle, rng)[:, :1])).reshape(1, -1).shape[1]
    try:
        check_front_laws(oracle, rng, laws=FRONT_LAWS[:1] if positions else FRONT_LAWS)
    except TargetMismatch as mismatch:
        raise TargetMismatch(NOT_BLOCK, mismatch.evidence) from None
    return outputs


def check_sign_laws(oracle: Oracle, space: Halfspace, rng: np.random.Generator) -> None:
    """The laws of one head in yes and no; `oracle` is seen from an origin on the plane that `space` describes."""
    size = min(oracle.reach, max(1.0, space.shift)) / (2 * np.sqrt(oracle.dim))
    tokens = rng.standard_normal((SIGN_SEQUENCES, 3, oracle.dim))
    tokens *= size / np.maximum(1.0, np.linalg.norm(tokens, axis=-1, keepdims=True) / (2 * np.sqrt(oracle.dim)))
    one = tokens[:, :1]
    side = one[:, 0] @ space.v
    sure = np.abs(side) > 2 * np.linalg.norm(one[:, 0], axis=1) * space.error + space.value_error(oracle, size)
    claims = [
        Claim(ASKED_AGAIN, one),
        Claim(ONE_TOKEN_SIDE, one, np.where(sure, side > 0, np.nan)),
        Claim(TWO_COPIES, one),
        Claim(ANY_ORDER, tokens),
    ]
    outcomes = Asked(oracle).read(*claims)
    refuse_broken(claims, outcomes, lambda _: 0.0, "the box is not a single attention head", space.origin)


def check_sum_laws(oracle: Oracle, rng: np.random.Generator) -> bool:
    """Whether a box of one number obeys the laws of any sum of heads, with short tokens and with shorter ones."""
    return all(check_sum_laws_at(oracle, length, rng) for length in SUM_LENGTHS)


def check_sum_laws_at(oracle: Oracle, length: float, rng: np.random.Generator) -> bool:
    x, y, z = (length * law_token(oracle, rng) / 2 for _ in range(3))
    one, two, three = (np.stack(tokens)[None] for tokens in ([x], [x, z], [x, y, z]))
    claims = [Claim(STRAIGHT_RAYS, one), Claim(THREE_COPIES, one), Claim(ANY_ORDER, three), Claim(OPPOSITE_TOKENS, two)]
    return check_claims(oracle, claims, SUM_SLACK)


def check_claims(oracle: Oracle, claims: list[Claim], slack: Slack) -> bool:
    """Whether the box obeys them, judged by the largest answer."""
    asked = Asked(oracle)
    outcomes = asked.read(*claims)
    allowed = [slack.allowed(oracle, asked.largest, claim) for claim in claims]
    return all(replace(outcome, allowed=most).holds for outcome, most in zip(outcomes, allowed, strict=True))


def read_largest_change(oracle: Oracle, rng: np.random.Generator) -> float:
    """By how much the answer to three tokens differs from that to the zero token; 0 where rounding would explain it."""
    X = np.array([[length * law_token(oracle, rng) for _ in range(3)] for length in SUM_LENGTHS])
    zero, answers = oracle(np.zeros((1, 1, oracle.dim))), oracle(X)
    change, largest = np.abs(answers - zero), np.maximum(np.abs(answers), np.abs(zero))
    allowed = SEEN_TIMES * (oracle.tolerance + (oracle.rtol + oracle.roundoff) * largest)
    return float(np.max(change, where=change > allowed, initial=0.0))


# Is there more behind the head than its output?

MATCHING_PROBES = 3
AGREEING = 2  # of them are enough
LOOSE_SCORE = 1e-8  # of a score of one, where matched scores are known far better


def check_last_token(ruler: Ruler, place: Place) -> bool:
    """Whether the answer depends on more than the attention output, or `TargetMismatch` where scores make no sense.

    Scores found with the last token fixed are right in any case. If one-row matching finds the same ones, the last
    token does not matter; if not, they must at least be linear in the probe.
    """
    q, u = place.probes(MATCHING_PROBES, ruler.rng)
    copies = ruler.read_matches(q, u)
    alone = ruler.along(OneRow()).read_matches(q, u)
    agree = np.abs(copies.s - alone.s) <= LOOSE_SCORE + 8 * (copies.error + alone.error)
    clear = copies.good & alone.good
    if (clear & agree).sum() >= AGREEING:  # by chance not even one would
        return False
    half = ruler.read_matches(q, u / 2)
    clear = copies.good & half.good
    off = np.abs(copies.s - 2 * half.s) - 8 * (copies.error + 2 * half.error) - LOOSE_SCORE
    off[~clear] = -np.inf
    worst = int(np.argmax(off))
    if off[worst] > 0:
        evidence = Evidence(
            HALF_PROBE,
            ruler.curve.reference(q, u, np.ones(MATCHING_PROBES))[worst],
            f"expected {copies.s[worst] / 2:.6g}",
            f"{half.s[worst]:.6g}",
        )
        raise TargetMismatch(f"{NOT_FRONT_HEAD}, {OR_NOISY}", evidence)
    return True
