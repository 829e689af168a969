"""One head from signs: the plane where one-row answers change, key bias if any, then W through a scheme.

What signs determine. Multiplying v and the bias by the same positive number changes no sign; nothing else is hidden.
Both signs occur exactly if some token lies on either side of the plane `x.v + bias = 0`, and then one-row queries show
that plane. Seen from an origin on it the head has no bias, and for a key k and a query q on opposite sides the answers
to `[rho k + q ; q]`, rho > 0, show `k.(W q + key_bias)` wherever it is not below `-0.278 k.v / |q.v|`. That is an
open set of keys and queries, and a bilinear function is known everywhere if it is known there: W and key_bias follow.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..._checks import check_sign_laws
from ..._errors import BudgetExceeded
from ..._learned import LearnedFromSigns
from ..._limits import BITS, MOST, Goal
from ..._linalg import NO_FRAME, cone, rms
from ..._meters import RANGE_RMS, KeyBias, SignMeter
from ..._oracles import Oracle, Translated, Voting
from ..._schemes import Measured, read_W
from .halfspace import find_halfspace, read_direction_finer
from .key_bias import bound_with_hidden, check_sign_key_bias, find_hidden_key_bias, find_sign_key_bias, read_sign_pilots

HIDDEN_MARGIN = 1.125  # for what a hidden key bias may add to the bound
BEYOND_BITS = 10.0  # by how much the error of v is kept below that of the bits, in a score near 0


def learn_sign_attention(
    oracle: Oracle,
    rng: np.random.Generator,
    rank: int | None = None,
    accuracy: float | None = None,
    bits: int | None = None,
) -> LearnedFromSigns:
    """Recover one head up to the scale of its values: about `bits` queries for every free parameter.

    `bits` is how often the range of a score is halved, by default as often as `accuracy` asks for, or 40 times.
    """
    known: dict = {}
    sure = Voting(oracle) if oracle.flips > 0 else oracle
    try:
        found = learn_from_answers(sure, rng, Goal(rank, accuracy, bits), known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise
    if isinstance(sure, Voting):
        return replace(found, confidence=found.confidence * sure.confidence, sure=voted(found.sure, sure))
    return found


def voted(before: str, votes: Voting) -> str:
    """How the confidence was obtained where answers were voted on."""
    said = f"{votes.decided:,} answers were each asked for until wrong in {votes.doubt:.1g} of cases at most"
    return f"{before}; {said}" if before else said


def learn_from_answers(oracle: Oracle, rng: np.random.Generator, goal: Goal, known: dict) -> LearnedFromSigns:
    oracle.stage = "reading v"
    space = find_halfspace(oracle, rng)
    known |= {"v": space.v, "bias": space.bias}
    seen = Translated(oracle, space.origin) if space.shift > 0 else oracle
    oracle.stage = "checking that it is a head"
    check_sign_laws(seen, space, rng)
    oracle.stage = "looking for a key bias"
    meter = framed(SignMeter(seen, space, NO_FRAME), rng)
    if space.shift == 0:  # from another origin there is a key bias if there is none from zero
        probes, lo, hi = read_sign_pilots(meter, rng)
        if not check_sign_key_bias(probes, lo, hi):
            meter = read_v_again(ranged(meter, lo, hi, goal), rng)
            known["v"] = meter.space.v
            oracle.stage = "reading W"
            meter, found = read_to_accuracy(meter, rng, goal)
            nearly_none = find_hidden_key_bias(meter, found.W)
            if nearly_none is not None:
                return seen_from_zero(meter, found, nearly_none)
            oracle.stage = "looking for a key bias"
    meter = read_v_again(replace(meter, bits=goal.bits or BITS), rng)
    known["v"] = meter.space.v
    meter = replace(meter, key_bias=find_sign_key_bias(meter, rng), reach=0.0)
    oracle.stage = "reading W"
    meter = read_v_again(ranged(meter, *read_sign_pilots(meter, rng)[1:], goal), rng)
    return seen_from_zero(*read_to_accuracy(meter, rng, goal), None)


def framed(meter: SignMeter, rng: np.random.Generator) -> SignMeter:
    """Orthonormal keys and queries that all lean to one side of the plane alike."""
    v, lean = meter.space.v, 1 / np.sqrt(meter.oracle.dim)
    return replace(meter, keys=cone(v, rng, lean), queries=cone(v, rng, lean))


def ranged(meter: SignMeter, lo: np.ndarray, hi: np.ndarray, goal: Goal) -> SignMeter:
    """The meter with the range that a few scores suggest, and the bits that give the accuracy asked for."""
    reach = RANGE_RMS * rms(np.maximum(np.abs(lo), np.abs(hi)))
    bits, exacting = goal.bits_of(meter.oracle.dim, reach), goal.accuracy is not None
    return replace(meter, reach=reach, bits=bits, exacting=exacting)


def read_v_again(meter: SignMeter, rng: np.random.Generator) -> SignMeter:
    """The meter with v known so well that the bits of its scores count.

    Its keys stay as they are: what is known of a key bias is known best along the keys that it was read with.
    """
    d = meter.oracle.dim
    # An error e of every coordinate of v moves what a score is compared with by 2 d e / product.
    width = 2.0 ** (1 - meter.bits) / (BEYOND_BITS * d) * meter.freedom
    return replace(meter, space=read_direction_finer(meter.oracle, meter.space, width, rng))


def read_to_accuracy(meter: SignMeter, rng: np.random.Generator, goal: Goal) -> tuple[SignMeter, Measured]:
    """W, and the meter that read it: with more bits if those for the accuracy asked for turn out not to be enough."""
    accuracy = goal.accuracy
    found = read_W(meter, rng, goal.rank, accuracy)
    if accuracy is None or HIDDEN_MARGIN * found.bound <= accuracy or meter.finest:
        return meter, found
    missing = math.ceil(math.log2(min(found.bound / accuracy, 2.0**MOST))) + 1
    return read_to_accuracy(read_v_again(replace(meter, bits=meter.bits + missing), rng), rng, goal)


def seen_from_zero(meter: SignMeter, found: Measured, nearly_none: KeyBias | None) -> LearnedFromSigns:
    """Everything as it is from zero instead of from the origin of the meter."""
    space, W = meter.space, found.W
    bound = float(found.bound if nearly_none is None else bound_with_hidden(meter, found, nearly_none))
    seen = nearly_none or meter.key_bias
    assert seen is not None
    key_bias = seen.vector - W @ space.origin
    key_bias_error = seen.total + (bound * space.shift if space.shift > 0 else 0.0)
    size = float(np.linalg.norm(key_bias))
    if size <= key_bias_error:  # a bias that cannot be told from none is none
        key_bias, key_bias_error = None, key_bias_error + size
    head = found.head(space.v, key_bias, space.bias)
    return LearnedFromSigns(
        model=head,
        rank=found.rank,
        bound=bound,
        bound_v=space.error,
        bound_key_bias=key_bias_error,
        bound_bias=space.bias_error,
        confidence=found.confidence,
        sure=found.sure,
        bits=meter.bits,
    )
