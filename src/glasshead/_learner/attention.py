"""One head from value answers: bias and v, key bias if any, then W through a scheme, then the held-out check."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from .._errors import BudgetExceeded
from .._meter import ValueMeter
from .._meter.frame import Frame, cone, orthonormal, squeezed
from .._meter.lever import largest_product, longest, split
from .._meter.scale import find_scale
from .._models import Attention
from .._oracle import Oracle
from .._scheme import full
from .better_origin import from_a_better_origin
from .key_bias import SCORE, find_key_bias, has_key_bias, read_key_bias
from .laws import check_laws, law_token
from .one_row import read_values

OFFSET = 0.7  # rms of the logits that the key bias alone gives to keys squeezed along it
TWICE = 16  # up to this dimension the key bias is read again, with keys that hardly see it,
LONGER = 4.0  # and then these may be longer by this factor
MOVED = 4  # up to this dimension everything is measured again from an origin without key bias


@dataclass(frozen=True)
class Learned:
    """A head and how far each of its parameters may be off."""

    model: Attention
    bound: float
    bound_v: float
    bound_key_bias: float
    bound_bias: float

    def allowed(self, X: np.ndarray, oracle: Oracle) -> np.ndarray:
        """How far the box's answers to `X (B, N, d)` may lie from the model's if the box is the head it was taken for.

        Scores off by at most e move a softmax by at most `exp(2e) - 1` in total; the values' half range does the rest.
        """
        head, d, u = self.model, oracle.dim, oracle.roundoff
        norms = np.linalg.norm(X, axis=-1)
        longest, last = norms.max(axis=1), norms[:, -1]
        values = (X @ head.v).reshape(*X.shape[:2], -1)
        half_range = (values.max(axis=1) - values.min(axis=1)).max(axis=-1) / 2
        size = np.abs(values).max(axis=(1, 2)) + float(np.abs(head.bias).max())
        keys = np.linalg.norm(head.W) * last + np.linalg.norm(head.key_bias)
        score = longest * (self.bound * last + self.bound_key_bias) + 8 * (d + 4) * u * longest * keys
        moved = half_range * np.minimum(2.0, np.expm1(np.minimum(2 * score, 700.0)))
        rounding = u * (2 * (d + 8) * longest * np.linalg.norm(head.v) + 16 * size)
        promise = oracle.tolerance + oracle.rtol * size
        return moved + longest * self.bound_v + self.bound_bias + promise + rounding


def learn_attention(oracle: Oracle, rng: np.random.Generator) -> Learned:
    """Recover one head, or say why not. Asks about d^2 + d queries (+ d + 1 with biases) and some forty more."""
    known: dict = {}
    try:
        return _learn(oracle, rng, known)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise


def _learn(oracle: Oracle, rng: np.random.Generator, known: dict) -> Learned:
    oracle.stage = "reading v"
    token = law_token(oracle, rng)
    values, v, bias, first = read_values(oracle, token)
    known |= {"v": v, "bias": bias}
    oracle.stage = "checking that it is a head"
    check_laws(oracle, values, token, first, rng)
    axis = values.v / np.linalg.norm(values.v)
    keys = cone(axis, rng)
    meter = ValueMeter(oracle, values)
    oracle.stage = "looking for a key bias"
    if has_key_bias(meter, keys):
        meter = find_key_bias(meter, keys, rng)
        known["key_bias"] = meter.key_bias
        meter, keys, queries = with_key_bias(meter, axis, rng)
    else:
        queries = orthonormal(oracle.dim, rng)
        meter = without_key_bias(meter, keys, queries, rng)
    oracle.stage = "reading W"
    W, bound = full(meter, keys, queries)
    if meter.key_bias is not None and oracle.dim <= MOVED:
        meter, W, bound = from_a_better_origin(meter, W, bound, queries, rng)
    if bound > 0 and np.linalg.norm(W) <= bound:  # no entry can be told from zero
        bound, W = bound + float(np.linalg.norm(W)), np.zeros_like(W)
    head = Attention(W, v, key_bias=meter.key_bias, bias=bias)
    entry = np.sqrt(v.size) * values.entry_error(oracle)
    return Learned(head, bound, float(entry), meter.key_bias_error, values.bias_error(oracle))


def without_key_bias(meter: ValueMeter, keys: Frame, queries: Frame, rng: np.random.Generator) -> ValueMeter:
    """Only the product `rho kappa` matters to the scores: a few pilots find it, the lever splits it."""

    def at(product: float) -> ValueMeter:
        return meter.at(*split(product, meter.oracle, meter.values))

    def pilot(product: float, count: int):
        return pilot_scores(at(product), keys, queries, count, rng)

    cap = largest_product(meter.oracle)
    return at(find_scale(pilot, 1.0, cap, meter.oracle.roundoff, meter.saturated))


def pilot_scores(meter: ValueMeter, keys: Frame, queries: Frame, count: int, rng: np.random.Generator):
    a = meter.rho * keys.vectors[rng.integers(len(keys), size=count)]
    q = meter.kappa * queries.vectors[rng.integers(len(queries), size=count)]
    s, lo, hi = meter.read(q, a[:, None])
    offset = 0.0 if meter.key_bias is None else (a @ meter.key_bias)[:, None]
    width = np.maximum(hi - s, s - lo) + meter.rho * meter.key_bias_error
    return np.where(np.abs(s) > meter.saturated, s, s - offset)[:, 0], width[:, 0]


def with_key_bias(meter: ValueMeter, axis: np.ndarray, rng: np.random.Generator):
    """Keys shortened along the bias, so that they can be long elsewhere; queries in a cone, so that the error of the
    bias, the same in every column, lands in one direction of d."""
    oracle, d = meter.oracle, meter.oracle.dim
    assert meter.key_bias is not None
    size = float(np.linalg.norm(meter.key_bias))
    # Balances the answers' error, which falls with rho, against the bias's, which rises with it.
    twice = MOVED < d <= TWICE
    rho = min((LONGER if twice else 1.0) * SCORE * d**0.75 / size, longest(oracle) / 2)
    keys = squeezed_keys(meter.key_bias, axis, rho, rng)
    if twice:
        meter = read_key_bias(meter, keys, rho)
    queries = cone(across(axis, rng), rng)

    def pilot(kappa: float, count: int):
        return pilot_scores(meter.at(rho, kappa), keys, queries, count, rng)

    kappa = find_scale(pilot, 1.0, longest(oracle) - rho, oracle.roundoff, meter.saturated)
    return meter.at(rho, kappa), keys, queries


def squeezed_keys(key_bias: np.ndarray, axis: np.ndarray, rho: float, rng: np.random.Generator) -> Frame:
    """A cone around v, squeezed until keys of length `rho` have logits of rms `OFFSET` on the key bias alone."""
    size, d = float(np.linalg.norm(key_bias)), len(axis)
    along = key_bias / size
    cosine = float(axis @ along)

    def excess(factor: float) -> float:
        leaning = (factor * cosine) ** 2 / (max(0.0, 1 - cosine**2) + (factor * cosine) ** 2)
        return rho * size * factor * np.sqrt((leaning + (1 - leaning) / max(1, d - 1)) / 2) - OFFSET

    return squeezed(axis, along, 1.0 if excess(1.0) <= 0 else float(brentq(excess, 1e-9, 1.0)), rng)


def across(axis: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random unit vector orthogonal to `axis`: query tokens along it do not move the values."""
    if len(axis) == 1:
        return axis
    g = rng.standard_normal(len(axis))
    g -= (g @ axis) * axis
    return g / np.linalg.norm(g)
