"""bias from the zero token, v from one long token per coordinate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._checks import check_laws, law_token
from .._errors import BudgetExceeded, NotIdentifiable
from .._learned import LearnedHead
from .._meters import HEADROOM, ValueMeter, Values, cone, outputs_error
from .._oracles import Oracle, Translated
from .._schemes import Measured, full, low_rank
from .key_bias import SCORE, find_key_bias, look_for_key_bias, read_key_bias, with_key_bias, without_key_bias


def read_values(oracle: Oracle, token: np.ndarray) -> tuple[Values, np.ndarray, np.ndarray, np.ndarray]:
    """`Values`, all of v and bias (where there are several outputs), and the answer to `[token]`: d + 2 queries."""
    d = oracle.dim
    zero, first = (np.asarray(y) for y in oracle(np.stack([np.zeros((1, d)), token[None]])))
    step = token_length(oracle, float(np.abs(zero).max()), float(np.abs(first - zero).max()))
    answers = oracle((step * np.eye(d))[:, None])
    v = (answers - zero) / step
    size = float(np.abs(zero).max())
    noise = 2 * ((oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol) + 4 * oracle.roundoff * size) / step
    if np.abs(v).max() <= noise:
        raise NotIdentifiable(why_silent(oracle, step, noise))
    readout = None if v.ndim == 1 else np.linalg.svd(v, full_matrices=False)[2][0]
    scalar = (v, zero) if readout is None else (v @ readout, zero @ readout)
    values = Values(scalar[0], float(scalar[1]), step, readout)
    return values if oracle.exact else along_itself(oracle, values), v, zero, first


def along_itself(oracle: Oracle, values: Values) -> Values:
    """One more query: an adversary could have spoiled every entry of v in favour of one direction, and none matters to
    the scores as much as v's own."""
    u = values.v / np.linalg.norm(values.v)
    length = (float(values.of(oracle(values.step * u[None, None]))[0]) - values.bias) / values.step
    if length <= 0:
        raise NotIdentifiable(why_silent(oracle, values.step, float(np.abs(values.v).max())))
    return replace(values, v=values.v + (length - values.v @ u) * u, along=True)


def token_length(oracle: Oracle, bias: float, slope: float) -> float:
    """Long enough that neither bias nor tolerance hides v. A power of two, so that nothing is rounded."""
    if oracle.tolerance > 0:
        return oracle.reach
    wanted = 1.0 if bias == 0 else HEADROOM * max(1.0, bias / slope if slope > 0 else np.inf)
    return float(2.0 ** np.floor(np.log2(min(wanted, oracle.reach))))


def why_silent(oracle: Oracle, step: float, noise: float) -> str:
    if oracle.exact:
        return (
            "v = 0: every one-row answer equals the answer to the zero token, so the attention weights never reach the "
            "output and no learner could read W from it"
        )
    promise = f"tolerance = {oracle.tolerance:g}, rtol = {oracle.rtol:g}"
    return (
        f"v cannot be told from 0: with {promise} and tokens up to {step:.3g} every entry of v is below {noise:.3g}, "
        "so a head with v = 0, which hides W from everybody, would answer the same; "
        "a larger max_norm or a smaller tolerance is needed"
    )


def from_a_better_origin(meter: ValueMeter, first: Measured, rng: np.random.Generator) -> tuple[ValueMeter, Measured]:
    """Meter and result of the second measurement where it is the better one, else those of the first."""
    assert meter.key_bias is not None
    if first.rank == 0:
        return meter, first
    W, queries = first.W, meter.queries
    values, v_norm = meter.values, float(np.linalg.norm(meter.values.v))
    origin = -np.linalg.lstsq(W, meter.key_bias, rcond=1e-6)[0]
    far, reach = float(np.linalg.norm(origin)), meter.oracle.reach
    if far > reach / 2:
        return meter, first
    ground = abs(values.bias) + far * v_norm
    clutter = float(np.linalg.norm(meter.key_bias) + np.linalg.norm(W) * far)
    unsure = far * float(np.sqrt(meter.oracle.dim)) * values.entry_error(meter.oracle)
    bias = values.bias + float(origin @ values.v)
    moved_values = replace(values, bias=bias, ground=ground, unsure=unsure)
    keys = cone(values.v / v_norm, rng)
    product = SCORE / float(np.sqrt(np.mean((keys.vectors @ W @ queries.vectors.T) ** 2)))
    # The answers' rounding costs (ground / |v| + kappa) / rho, that of the cancelled key bias clutter * rho.
    rho = min(max(np.sqrt(ground / v_norm / clutter), np.cbrt(product / clutter)), (reach - far) / 2)
    kappa = min(product / rho, (reach - far) / 2)
    scene = Translated(meter.oracle, origin)
    moved = ValueMeter(scene, moved_values, keys, queries, rho, kappa, shift=far, clutter=clutter)
    moved = read_key_bias(moved, rho)
    second = full(moved)
    if second.bound >= first.bound:
        return meter, first
    error = moved.key_bias_error + second.bound * far
    if error < meter.key_bias_error:
        key_bias = moved.key_bias - second.W @ origin  # type: ignore[operator]
        meter = replace(meter, key_bias=key_bias, key_bias_error=float(error))
    return meter, second


MOVED = 4  # up to this dimension a head with key bias is measured again from an origin where the bias vanishes
SMALL = 2  # up to this dimension no rank could save a query


def learn_attention(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedHead:
    """Recover one head, or say why not: about as many queries as it has free parameters, and some forty more."""
    known: dict = {}
    try:
        return _learn(oracle, rng, rank, accuracy, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def _learn(
    oracle: Oracle, rng: np.random.Generator, rank: int | None, accuracy: float | None, known: dict
) -> LearnedHead:
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
    return LearnedHead(
        model=head,
        rank=found.rank,
        bound=found.bound,
        bound_v=v_error,
        bound_key_bias=meter.key_bias_error,
        bound_bias=bias_error,
        confidence=found.confidence,
    )


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
