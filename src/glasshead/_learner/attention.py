"""One head from value answers: bias and v, key bias if any, then W through a scheme."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import BudgetExceeded
from .._meter import ValueMeter
from .._meter.frame import cone
from .._meter.values import Values, outputs_error
from .._oracle import Oracle
from .._scheme import Measured, full, low_rank
from .better_origin import from_a_better_origin
from .key_bias import find_key_bias, look_for_key_bias
from .laws import check_laws, law_token
from .learned import Learned
from .one_row import read_values
from .scene import with_key_bias, without_key_bias

MOVED = 4  # up to this dimension a head with key bias is measured again from an origin where the bias vanishes
SMALL = 2  # up to this dimension no rank could save a query


def learn_attention(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> Learned:
    """Recover one head, or say why not: about as many queries as it has free parameters, and some forty more."""
    known: dict = {}
    try:
        return _learn(oracle, rng, rank, accuracy, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def _learn(oracle: Oracle, rng: np.random.Generator, rank: int | None, accuracy: float | None, known: dict) -> Learned:
    oracle.stage = "reading v"
    token = law_token(oracle, rng)
    values, v, bias, first = read_values(oracle, token)
    known |= {"v": v, "bias": bias}
    oracle.stage = "checking that it is a head"
    check_laws(oracle, values, token, first, rng)
    meter = learn_key_bias(oracle, values, rng, known)
    meter, found = read_W(meter, rng, rank, accuracy)
    head = found.head(v, meter.key_bias, bias)
    v_error, bias_error = outputs_error(oracle, v, bias, values.step)
    return Learned(head, found.rank, found.bound, v_error, meter.key_bias_error, bias_error, found.confidence)


def learn_key_bias(
    oracle: Oracle, values: Values, rng: np.random.Generator, known: dict, around: np.ndarray | None = None
) -> ValueMeter:
    """A meter for W, with the key bias if there is one, of a head whose values are known.

    It may stand in front of a network, if queries are to lie `around` some direction: then the laws of a plain head
    hold as well as that network is known, and are not looked at.
    """
    alone = around is None
    oracle.stage = "looking for a key bias"
    meter = ValueMeter(oracle, values, keys=cone(values.v / np.linalg.norm(values.v), rng))
    present, unseen = look_for_key_bias(meter)
    if not present:
        return without_key_bias(replace(meter, key_bias_error=unseen), rng, alone)
    meter = find_key_bias(meter, rng, alone)
    known["key_bias"] = meter.key_bias
    return with_key_bias(meter, rng, around)


def read_W(meter: ValueMeter, rng, rank: int | None, accuracy: float | None) -> tuple[ValueMeter, Measured]:
    meter.oracle.stage = "reading W"
    d = meter.oracle.dim
    if meter.key_bias is not None and d <= MOVED:
        first = full(meter)
        try:
            return from_a_better_origin(meter, first, rng)
        except BudgetExceeded as error:
            error.known["W"] = first.W
            raise
    return meter, scheme(meter, rng, rank, accuracy)


def scheme(meter: ValueMeter, rng: np.random.Generator, rank: int | None, accuracy: float | None) -> Measured:
    if meter.oracle.dim <= SMALL or rank == meter.oracle.dim:
        return full(meter)
    return low_rank(meter, rng, rank, accuracy)
