"""One attention head from value answers: `f(X) = softmax_i(x_i . (W x_N + key_bias)) . (X v) + bias`.

The method, in the order in which it asks: the bias from the zero token and v from one long token per coordinate; a few
laws that every head obeys; which tokens show scores best, and the key bias if there is one (`frames`); and W
from scores, through a scheme. Answers with noise that was not promised are averaged instead (`noise`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from .._checks import Unpromised, check_head_laws, find_promise
from .._errors import BudgetExceeded, NotIdentifiable, TargetMismatch, Tried
from .._learned import LearnedHead, Sampled
from .._linalg import cone, rms
from .._meters import ValueMeter, Values, outputs_error
from .._oracles import Narrow, Opening, Oracle, Translated, read_opening, read_rows
from .._schemes import Measured, full, read_W
from .frames import KEY_BIAS_LOGIT, find_frames, read_key_bias
from .noise import learn_from_noise
from .nulled import NulledMeter, find_nulled_frames, read_nulled
from .passes import MORE_DIGITS

# Queries that a second measurement may cost, d (d + 1) of them: up to d = 3. It makes W 25 to 100 times more accurate
# beside a key bias that is 100 times as large as a column of W, but not more than twice beside one as large as that,
# and from d = 4 on all checks together would take more than `OVERHEAD`.
SECOND = 12


def learn_attention(
    oracle: Oracle, rng, rank: int | None = None, accuracy: float | None = None, opening: Opening | None = None
) -> LearnedHead:
    """Recover one head, or say why not: about as many queries as it has free parameters, and some forty more.

    Answers may be less accurate than promised: where the same query is answered differently, or answers are rounded to
    a narrow format, the result is an average with an interval for its error.
    """
    if promises_rounding(oracle):
        return learn_as_rounded(oracle, rng, rank, accuracy)
    narrow = oracle.narrow
    tried = Tried.of(learn_or_explain, oracle, rng, rank, accuracy, opening)
    # In few dimensions it takes the answers up to here to recognise their format.
    recognised = oracle.narrow and not narrow
    mismatch = isinstance(tried.refusal, TargetMismatch)
    if (mismatch and recognised) or (tried.found is not None and promises_rounding(oracle)):
        return learn_attention(oracle, rng, rank, accuracy)
    found = tried.result()
    if isinstance(found, Unpromised):
        return learn_from_noise(learn_as_promised, oracle, found, rng, rank, accuracy)
    return replace(found, strict=oracle.exact and accuracy is None)


def learn_or_explain(
    oracle: Oracle, rng, rank: int | None, accuracy: float | None, opening: Opening | None
) -> LearnedHead | Unpromised:
    """One head from answers as they are promised; a mismatch says which promise would let the box pass."""
    try:
        return learn_as_promised(oracle, rng, rank, accuracy, opening)
    except TargetMismatch as mismatch:
        reason = find_promise(oracle, mismatch, rng)
        reason.known = mismatch.known
        raise reason from None


def promises_rounding(oracle: Oracle) -> bool:
    """Whether answers come in a narrow format, and what is promised of them covers that they are rounded to it, which
    then needs no allowance of its own."""
    return oracle.narrow and oracle.rtol >= oracle.roundoff


def learn_as_rounded(oracle: Oracle, rng, rank: int | None, accuracy: float | None) -> LearnedHead:
    """One head from answers in a narrow format, whose promise covers their rounding."""
    found = learn_as_promised(Narrow(oracle), rng, rank, accuracy)
    assert isinstance(found, LearnedHead)  # noise is looked for where nothing is promised
    return replace(Sampled.from_one(found, Narrow, "", MORE_DIGITS), caveat=found.caveat)


def learn_as_promised(
    oracle: Oracle, rng, rank: int | None = None, accuracy: float | None = None, opening: Opening | None = None
) -> LearnedHead | Unpromised:
    """One head from answers that are as accurate as the oracle promises, or the noise that shows them not to be."""
    known: dict = {}
    try:
        oracle.stage = "reading v"
        opening = opening or read_opening(oracle, rng)
        values, v = read_v(oracle, opening)
        bias = opening.zero
        known |= {"v": v, "bias": bias}
        oracle.stage = "checking that it is a head"
        noise = check_head_laws(oracle, values, opening.token, opening.first, rng)
        if noise is not None:
            return noise
        meter, found = read_W_with_key_bias(oracle, values, rng, known, rank, accuracy)
    except (BudgetExceeded, TargetMismatch) as error:
        error.known = known | error.known
        raise
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
        sure=found.sure,
    )


def read_W_with_key_bias(
    oracle: Oracle, values: Values, rng: np.random.Generator, known: dict, rank: int | None, accuracy: float | None
) -> tuple[ValueMeter, Measured]:
    """W, and the meter that read it, with the key bias if there is one: where answers vanish, if these are rounded, but
    where they do not as those of a head would, since the box is coarser than that."""
    if oracle.rounded and values.readout is None:
        with suppress(TargetMismatch):
            meter = find_nulled_frames(oracle, values, rng, known)
            oracle.stage = "reading W"
            return read_W_once_or_twice(meter, rng, rank, accuracy)
    meter = find_frames(oracle, values, rng, known)
    oracle.stage = "reading W"
    return read_W_once_or_twice(meter, rng, rank, accuracy)


def read_W_once_or_twice(
    meter: ValueMeter, rng: np.random.Generator, rank: int | None, accuracy: float | None
) -> tuple[ValueMeter, Measured]:
    """W, and the meter that read it: twice beside a key bias, where that is cheap."""
    d = meter.oracle.dim
    if isinstance(meter, NulledMeter):
        return read_nulled(meter, rng, rank, accuracy)
    if meter.key_bias is None or d * (d + 1) > SECOND:
        return meter, read_W(meter, rng, rank, accuracy)
    first = full(meter)
    try:
        return read_from_null_origin(meter, first, rng)
    except BudgetExceeded as error:
        error.known["W"] = first.W
        raise


def read_v(oracle: Oracle, opening: Opening) -> tuple[Values, np.ndarray]:
    """`Values`, and v for all outputs where there are several: d queries, one long token per coordinate."""
    zero = opening.zero
    v, step = read_rows(oracle, opening)
    size = float(np.abs(zero).max())
    noise = 2 * ((oracle.tolerance + oracle.rtol * size) / (1 - oracle.rtol) + 4 * oracle.roundoff * size) / step
    if np.abs(v).max() <= noise:
        raise NotIdentifiable(why_silent(oracle, step, noise))
    readout = None if v.ndim == 1 else np.linalg.svd(v, full_matrices=False)[2][0]
    if readout is None:
        values = Values(v, float(zero), step)
    else:
        values = Values(v @ readout, float(zero @ readout), step, readout, outputs=(v, zero))
    return values if oracle.exact else read_along_itself(oracle, values), v


def read_along_itself(oracle: Oracle, values: Values) -> Values:
    """One more query: an adversary could have spoiled every entry of v in favour of one direction, and none matters to
    the scores as much as v's own."""
    u = values.v / np.linalg.norm(values.v)
    length = (float(values.of(oracle(values.step * u[None, None]))[0]) - values.bias) / values.step
    v = values.v + (length - values.v @ u) * u
    if length <= 0 or not v.any():
        raise NotIdentifiable(why_silent(oracle, values.step, float(np.abs(values.v).max())))
    return replace(values, v=v, along=True)


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


NULL = 1e-6  # of the largest singular value of W: smaller ones would send the origin far away, for hardly any gain


def read_from_null_origin(meter: ValueMeter, first: Measured, rng: np.random.Generator) -> tuple[ValueMeter, Measured]:
    """W, and the meter with its key bias, from a second measurement if that bounds W better, else from the `first`."""
    assert meter.key_bias is not None
    if first.rank == 0:
        return meter, first
    W, queries = first.W, meter.queries
    values, v_norm = meter.values, float(np.linalg.norm(meter.values.v))
    origin = -np.linalg.lstsq(W, meter.key_bias, rcond=NULL)[0]
    far, reach = float(np.linalg.norm(origin)), meter.oracle.reach
    if far > reach / 2:
        return meter, first
    ground = values.backdrop + far * values.length
    clutter = float(np.linalg.norm(meter.key_bias) + np.linalg.norm(W) * far)
    unsure = far * float(np.sqrt(meter.oracle.dim)) * values.entry_error(meter.oracle)
    bias = values.bias + float(origin @ values.v)
    moved_values = replace(values, bias=bias, ground=ground, unsure=unsure)
    keys = cone(values.v / v_norm, rng)
    product = KEY_BIAS_LOGIT / rms(keys.vectors @ W @ queries.vectors.T)
    # The answers' rounding costs (ground / |v| + kappa) / rho, that of the cancelled key bias clutter * rho.
    rho = min(max(np.sqrt(ground / v_norm / clutter), np.cbrt(product / clutter)), (reach - far) / 2)
    kappa = min(product / rho, (reach - far) / 2)
    moved = ValueMeter(
        Translated(meter.oracle, origin), moved_values, keys, queries, rho, kappa, shift=far, clutter=clutter
    )
    moved = read_key_bias(moved, rho)
    second = full(moved)
    if second.bound >= first.bound:
        return meter, first
    error = moved.key_bias_error + second.bound * far
    if error < meter.key_bias_error:
        key_bias = moved.key_bias - second.W @ origin  # type: ignore[operator]
        meter = replace(meter, key_bias=key_bias, key_bias_error=float(error))
    return meter, second
