"""Several recoveries of the same head, averaged; how far they scatter says how far their average is off."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f as F

from .._checks import Unpromised
from .._learned import BOUNDS, LearnedHead, Quiet, Sampled
from .._linalg import numerical_rank
from .._models import Attention
from .._oracles import DOUBLE, Narrow, Oracle, Scaled

INTERVAL_CONFIDENCE = 0.95  # of the intervals, as is usual; `interval` says what they are
FEWEST_PASSES = 4  # with 3 of the same noise the interval would be 1.3 times as wide, with 2 of them 2.2 times
SHARED_ROUNDINGS = 2.0**7  # of what is read: all passes may share them
PREDICTION_MARGIN = 1.2  # for an interval predicted from few passes
# The error has as many degrees of freedom as numbers are read independently. Errors that many of them share leave
# fewer: half of them, and 3 at most, make the interval a little too wide.
FREE = 3.0


@dataclass(frozen=True)
class Spoiled:
    """A pass that noise spoiled, or passes that were not enough: with that many `repeats` they might do."""

    repeats: int = 1


# A learner that takes the oracle's promise for granted: `learn(oracle, rng, rank, accuracy)`.
LearnAsPromised = Callable[[Oracle, np.random.Generator, int | None, float | None], LearnedHead | Unpromised]


def hidden(learned: LearnedHead) -> bool:
    """Whether noise made a W of 0 of it, or nearly did: passes that just escaped are too large on average."""
    close = learned.bound > learned.model.W_norm / 2 and exact_rank(learned.model) == learned.model.dim
    return learned.rank == 0 or close


def learn_passes(
    learn_pass: Callable[[], Attention | Spoiled], passes: list[Attention], accuracy: float | None, most: int
) -> list[Attention] | Spoiled:
    """Runs until the average of all passes is that accurate, or the first one that is spoiled.

    At least `FEWEST_PASSES`; no more than those if `most` of them would not do either.
    """
    wanted = FEWEST_PASSES
    while len(passes) < wanted <= max(most, FEWEST_PASSES):
        while len(passes) < wanted:
            another = learn_pass()
            if isinstance(another, Spoiled):
                return another
            passes = [*passes, another]
        wanted = wanted_passes(passes, accuracy)
    return passes


def wanted_passes(passes: list[Attention], accuracy: float | None) -> int:
    """How many passes would be enough, judging by these. More of them also make the quantile smaller."""
    P, W = len(passes), passes[0].W
    if accuracy is None or interval(passes, "W") <= accuracy:
        return P
    each, wanted = P * interval(passes, "W") ** 2 / quantile(P, W.size), P
    for _ in range(4):
        wanted = max(P + 1, math.ceil(PREDICTION_MARGIN * each * quantile(wanted, W.size) / accuracy**2))
    return wanted


def interval(passes: list[Attention], name: str, roundoff: float = DOUBLE) -> float:
    """How far the average is off in that parameter, at most, with `INTERVAL_CONFIDENCE`.

    For P independent values `sum |x - mean|^2 / (P (P - 1))` estimates the mean square of that error; the two have
    k (P - 1) and k degrees of freedom, so their ratio follows an F distribution. `roundoff` is the box's.
    """
    values = np.stack([np.asarray(getattr(head, name)) for head in passes])
    P = len(values)
    squares = np.atleast_1d(np.sum((values - values.mean(axis=0)) ** 2, axis=0))
    rounding = SHARED_ROUNDINGS * roundoff * values[0].size * float(np.linalg.norm(values[0]))
    return math.sqrt(quantile(P, evenly(squares)) * float(squares.sum()) / (P * (P - 1))) + rounding


def evenly(squares: np.ndarray) -> float:
    """How many numbers that scatter alike would scatter as these do: one, if one of them does nearly all of it."""
    return float(squares.sum() ** 2 / max(float(np.sum(squares**2)), np.finfo(float).tiny))


def quantile(passes: int, numbers: float) -> float:
    free = max(1.0, min(FREE, numbers / 2))
    return float(F.ppf(INTERVAL_CONFIDENCE, free, free * (passes - 1)))


def average(passes: list[Attention]) -> Attention:
    """The mean of all parameters; W of the rank that most of them have."""
    W = np.mean([head.W for head in passes], axis=0)
    rank = Counter(exact_rank(head) for head in passes).most_common(1)[0][0]
    U, s, Vt = np.linalg.svd(W)
    W = W if rank == len(W) else U[:, :rank] * s[:rank] @ Vt[:rank]
    v, bias, key_bias = (
        np.mean([getattr(head, name) for head in passes], axis=0) for name in ("v", "bias", "key_bias")
    )
    biased = 2 * sum(head.has_key_bias for head in passes) > len(passes)
    return Attention(W, v, key_bias=key_bias if biased else None, bias=bias)


def exact_rank(head: Attention) -> int:
    return numerical_rank(np.linalg.svd(head.W, compute_uv=False), head.dim)


def sampled(passes: list[Attention], quiet: Quiet, lacking: str, one: LearnedHead, roundoff: float = DOUBLE) -> Sampled:
    """The average of the passes, with intervals from their spread."""
    head = average(passes)
    bounds: dict[str, Any] = {name: interval(passes, parameter, roundoff) for name, parameter in BOUNDS.items()}
    rank, given = exact_rank(head), " for a head of that rank"
    if rank == head.dim:
        rank, given = numerical_rank(np.linalg.svd(head.W, compute_uv=False), rank, bounds["bound"]), ""
    interval_words = f"a {INTERVAL_CONFIDENCE:.0%} confidence interval{given}"
    return Sampled(
        model=head,
        rank=rank,
        **bounds,
        confidence=INTERVAL_CONFIDENCE,
        quiet=quiet,
        caveat=f"; {interval_words} from the spread of {len(passes)} passes, no guarantee",
        needed=lacking,
        one=one,
    )


MORE_DIGITS = "a format with more digits"
MOST_DITHERED = 64  # passes: past that, what they have in common would show
DITHER = 2.0  # scales differ by up to that factor


def learn_from_narrow(
    learn: LearnAsPromised, oracle: Narrow, rng: np.random.Generator, rank: int | None, accuracy: float | None
) -> LearnedHead | Unpromised:
    """One pass, bounded by the rounding of the answers; more where that does not prove the accuracy asked for.

    Every further pass scales all tokens by a factor of its own, so that answers are rounded elsewhere.
    """

    def learn_pass() -> Attention | Spoiled:
        factor = float(DITHER ** -rng.random())
        learned = learn(Scaled(oracle, factor), rng, rank, None)
        return Spoiled() if isinstance(learned, Unpromised) or hidden(learned) else undone(learned.model, factor)

    one = learn(oracle, rng, rank, accuracy)
    if isinstance(one, Unpromised):
        return one
    words = f"its answers were taken to be rounded once, to {oracle.name}"
    alone = Sampled.from_one(one, Narrow, words, MORE_DIGITS)
    if accuracy is None or one.bound <= accuracy or hidden(one):
        return alone
    passes = learn_passes(learn_pass, [], accuracy, MOST_DITHERED)
    return alone if isinstance(passes, Spoiled) else sampled(passes, Narrow, MORE_DIGITS, one)


def undone(head: Attention, factor: float) -> Attention:
    """The head of which `head` is what shows through `Scaled`."""
    tensors = {"W": head.W / factor**2, "v": head.v / factor, "bias": np.asarray(head.bias)}
    return Attention.from_tensors(tensors | ({"key_bias": head.key_bias / factor} if head.has_key_bias else {}))
