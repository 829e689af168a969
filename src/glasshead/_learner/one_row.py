"""bias from the zero token, v from one long token per coordinate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import NotIdentifiable
from .._meter.lever import HEADROOM, longest
from .._meter.values import Values
from .._oracle import Oracle


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
        return longest(oracle)
    wanted = 1.0 if bias == 0 else HEADROOM * max(1.0, bias / slope if slope > 0 else np.inf)
    return float(2.0 ** np.floor(np.log2(min(wanted, longest(oracle)))))


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
