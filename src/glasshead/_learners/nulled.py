"""One head with a key bias whose answers have few digits, read where they nearly vanish.

A format with few digits rounds an answer by a share of itself, so an answer of which nearly everything cancels loses
next to nothing. Where `x.v + bias` is nearly 0 for single tokens x, the bias costs no digits, and v shows its
proportions to twice as many digits as at first; how large v and the bias are together stays unsure by one rounding,
which scales all answers and moves no score. A query whose last token is answered with minus half of what the key adds
is answered with 0 at a weight of a half: there W is read, with queries that differ in directions v does not see. With
the negative of a key answers vanish at another place, as far from there as the key reaches along v: the key biases at
both tell what W makes of v.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .._linalg import Frame, cone, numerical_rank, rms, simplex
from .._meters import TARGET_LOGIT, Interval, Scores, ValueMeter, Values
from .._oracles import HALF, Oracle, Translated
from .._schemes import Measured, full, measured_matrix, read_W
from .._types import Float
from .frames import (
    KEY_BIAS_LOGIT,
    SQUEEZED_LOGIT,
    check_key_bias,
    find_frames,
    find_frames_without_bias,
    find_key_bias,
    find_scale_or_refuse,
    pilots_for,
    read_key_bias,
    read_pilots,
    squeezed_keys,
)

FAR_QUERY = 0.05  # of what a key adds to an answer: how far off the error of v may make that to a query token
CONFIRMED = 4  # single tokens that are answered as the proportions have it
# Longer keys show better what W makes of v, by their square, and have to be squeezed more along the key bias, which
# costs as much in its direction: the cube root of this share balances the two. Anything from 0.1 to 1 gives W within a
# fifth of the least error, for d = 4 to 32 in bfloat16.
BALANCED = 0.25


@dataclass(frozen=True)
class Proportions(Values):
    """v and the bias seen from some origin, known far better than answers but for a factor that they share: this one is
    off by a share `scale_off` at most, v by `v_off` and the bias by `bias_off` beside it."""

    scale_off: float = 0.0
    v_off: float = 0.0
    bias_off: float = 0.0

    def promise(self, oracle: Oracle, size: float | np.ndarray) -> float | np.ndarray:
        """How far an answer may lie from that of a head with exactly this factor."""
        share = oracle.rtol + self.scale_off
        return ((1 + self.scale_off) * oracle.tolerance + share * size) / (1 - oracle.rtol)

    def bias_error(self, oracle: Oracle) -> float:
        return self.bias_off

    def entry_error(self, oracle: Oracle) -> float:
        return self.v_off / float(np.sqrt(len(self.v)))

    def seen_from(self, shift: np.ndarray) -> Proportions:
        """What they are if the origin moves by that."""
        far = float(np.linalg.norm(shift))
        bias, bias_off = self.bias + float(shift @ self.v), self.bias_off + far * self.v_off
        return replace(self, bias=bias, bias_off=bias_off, ground=self.ground + far * self.length)


def read_proportions(oracle: Oracle, values: Values, rng: np.random.Generator) -> tuple[Proportions, np.ndarray] | None:
    """v and the bias from where single tokens are answered with nearly 0, and that place; None where it is too far away
    for tokens that the box allows, v too uncertain, or answers are not as exact as that. It takes d + 5 queries."""
    d, v_norm = oracle.dim, float(np.linalg.norm(values.v))
    u = values.v / v_norm
    origin = -values.bias / v_norm * u
    far = float(np.linalg.norm(origin))
    step = min(values.step, oracle.reach - far)
    off = (values.along_error(oracle) + values.bias_error(oracle)) / values.step + values.rounding(oracle)
    if step < far or 2 * off > v_norm:
        return None
    corners = simplex(u, rng)
    answers = Translated(oracle, origin)(np.concatenate([np.zeros((1, d)), step * corners])[:, None])
    v = float(values.v @ u) * u + (d - 1) / d * (corners.T @ answers[1:]) / step
    ground = max(abs(values.bias), far * v_norm)
    found = Proportions(v, float(answers[0]), values.step, ground=ground, scale_off=off / (v_norm - off))
    each = np.asarray(found.promise(oracle, np.abs(answers)))
    rounding = oracle.roundoff * ((d + 8) * (step + far) * v_norm + 2 * ground)
    each += rounding
    found = replace(found, v_off=float(np.linalg.norm(each[1:])) / step, bias_off=float(each[0]))
    # What computes with few digits, too, is off by far more than its answers' rounding there, and is none of these.
    fresh = rng.standard_normal((CONFIRMED, d))
    fresh *= step / np.linalg.norm(fresh, axis=1, keepdims=True)
    fresh -= np.outer(fresh @ u, u)
    answers = Translated(oracle, origin)(fresh[:, None])
    allowed = found.promise(oracle, np.abs(answers)) + step * found.v_off + found.bias_off + rounding
    return (found, origin) if np.all(np.abs(answers - fresh @ v - found.bias) <= allowed) else None


@dataclass(frozen=True)
class NulledMeter(ValueMeter):
    """Measures scores where answers nearly vanish, with query tokens that v does not see. What W makes of v, `of_v` for
    a vector of length 1, is known within `of_v_error`."""

    oracle: Translated
    values: Proportions
    of_v: Float[np.ndarray, " d"] = field(default_factory=lambda: np.empty(0))
    of_v_error: float = 0.0

    @property
    def u(self) -> Float[np.ndarray, " d"]:
        return self.values.v / np.linalg.norm(self.values.v)

    @property
    def settled_bias(self) -> Float[np.ndarray, " d"]:
        """The key bias, where it has been read."""
        assert self.key_bias is not None
        return self.key_bias

    @property
    def drift(self) -> float:
        """The error of `W b` that is the same for every b of the frame, which all lean to v by as much."""
        return super().drift + self.of_v_error

    def columns(self, B: Float[np.ndarray, "m d"], A: Float[np.ndarray, "*m n d"]) -> Scores:
        """`a^T W b`, of which the part of b along v is known, and the other one measured."""
        along = B @ self.u
        scores, known = super().columns(B - np.outer(along, self.u), A), along[:, None] * (A @ self.of_v)
        return replace(scores, t=scores.t + known, lo=scores.lo + known, hi=scores.hi + known)

    @property
    def suited_length(self) -> float:
        """How long keys are to which the key bias gives logits of rms `SQUEEZED_LOGIT`."""
        seen, longest = rms(self.keys.vectors @ self.settled_bias), self.oracle.reach / 2
        return min(SQUEEZED_LOGIT / seen, longest) if seen > 0 else longest

    def best_length(self, product: float) -> float:
        """How long keys are read best, where keys times queries of that length have logits near `TARGET_LOGIT`."""
        seen, alike = rms(self.keys.vectors @ self.settled_bias), float(np.sqrt(product))
        return min(alike, float(np.cbrt(BALANCED * product / seen))) if seen > 0 else alike

    def halfway(self, rho: float) -> NulledMeter:
        """The meter where a token is answered with minus half of what keys of that length add; the key bias there is
        yet to be read."""
        swing = rho * float(np.mean(self.keys.vectors @ self.values.v))
        shift = -(swing / 2 + self.values.bias) / float(np.linalg.norm(self.values.v)) * self.u
        oracle = Translated(self.oracle.inner, self.oracle.origin + shift)
        far = float(np.linalg.norm(oracle.origin))
        return replace(self, oracle=oracle, values=self.values.seen_from(shift), shift=far)


def find_nulled_frames(oracle: Oracle, values: Values, rng: np.random.Generator, known: dict) -> ValueMeter:
    """A meter for W. Where there is a key bias, and tokens may be long enough, it is a `NulledMeter`, and has the key
    bias as it is at an origin of its own."""
    oracle.stage = "looking for a key bias"
    meter = ValueMeter(oracle, values, keys=cone(values.v / np.linalg.norm(values.v), rng))
    present, unseen = check_key_bias(meter)
    if not present:
        return find_frames_without_bias(replace(meter, key_bias_error=unseen), rng)
    read = read_proportions(oracle, values, rng)
    if read is None:
        return find_frames(oracle, values, rng, known)
    near, origin = read
    start = NulledMeter(Translated(oracle, origin), near, cone(near.v / np.linalg.norm(near.v), rng))
    nulled = as_nulled(find_key_bias(start, rng))
    product = find_product(nulled, rng)
    rho = nulled.best_length(product)
    if not np.isfinite(nulled.key_bias_error) or rho + product / rho > nulled.oracle.reach / 2:
        return find_frames(oracle, values, rng, known)
    nulled = nulled.halfway(rho)
    nulled = as_nulled(read_key_bias(nulled, min(rho, nulled.suited_length)))
    key_bias = nulled.settled_bias
    keys = squeezed_keys(key_bias, nulled.u, rho, rng) if np.any(key_bias) else nulled.keys
    across = np.sqrt(0.5) if oracle.dim > 1 else 1.0  # of a query of the frame: what the values do not see of it
    clutter = float(np.linalg.norm(key_bias)) + oracle.dim * TARGET_LOGIT / product * nulled.shift
    nulled = replace(nulled, keys=keys, queries=cone(nulled.u, rng), clutter=clutter)
    return read_both_sides(replace(nulled, rho=rho, kappa=product / rho / across))


def as_nulled(meter: ValueMeter) -> NulledMeter:
    """A meter that a function for all of them hands back as it came."""
    assert isinstance(meter, NulledMeter)
    return meter


def find_product(meter: NulledMeter, rng: np.random.Generator) -> float:
    """How long keys times queries are for logits near `TARGET_LOGIT`, by pilots with queries that the values do not
    see, none so long that the error of v matters."""
    d, rho = meter.oracle.dim, meter.suited_length
    corners = simplex(meter.u, rng)
    queries = Frame(corners, (d - 1) / d * corners.T, 1.0) if d > 1 else cone(meter.u, rng)
    # Of one key, which is one of those that the key bias was read with.
    pilot = replace(meter, queries=queries, key_bias_error=meter.key_bias_error / (meter.keys.gain * np.sqrt(d)))
    swing = rho * float(np.abs(meter.keys.vectors @ meter.values.v).min())
    cap = meter.oracle.reach - rho
    if meter.values.v_off > 0:
        cap = min(cap, FAR_QUERY * swing / meter.values.v_off)

    def read_pilot(kappa: float, count: int) -> Interval:
        return read_pilots(pilot.at(rho, kappa), count, rng, alone=True)

    return rho * find_scale_or_refuse(pilot, read_pilot, cap, pilots=pilots_for(meter.keys))


def read_both_sides(meter: NulledMeter) -> NulledMeter:
    """The meter halfway with its key bias, and what W makes of v: 2 d queries, d with keys and d with their negatives,
    at the two places where answers vanish with them."""
    keys = meter.keys
    sides = keys, Frame(-keys.vectors, -keys.inverse, keys.gain)
    here, there = (as_nulled(read_key_bias(replace(meter, keys=side).halfway(meter.rho), meter.rho)) for side in sides)
    apart = -meter.rho * float(np.mean(keys.vectors @ meter.u))
    of_v = (here.settled_bias - there.settled_bias) / apart
    return replace(here, of_v=of_v, of_v_error=(here.key_bias_error + there.key_bias_error) / abs(apart))


def read_whole(meter: NulledMeter, rng: np.random.Generator) -> Measured:
    """W from all scores; the mean of two readings, each with tokens of its own, where digits are very few."""
    found = full(meter)
    if meter.oracle.rtol <= HALF or found.rank == 0:
        return found
    keys = (
        squeezed_keys(meter.settled_bias, meter.u, meter.rho, rng) if np.any(meter.settled_bias) else cone(meter.u, rng)
    )
    again = full(read_both_sides(replace(meter, keys=keys, queries=cone(meter.u, rng))))
    W, bound = (found.W + again.W) / 2, (found.bound + again.bound) / 2
    return measured_matrix(W, bound, numerical_rank(np.linalg.svd(W, compute_uv=False), len(W), bound))


def read_nulled(
    meter: NulledMeter, rng: np.random.Generator, rank: int | None, accuracy: float | None
) -> tuple[ValueMeter, Measured]:
    """W, and a meter at the box's own origin with the key bias there: by W, or from d queries if these bound it better.

    What a discovered rank leaves out is looked for one score at a time, and few digits say too little of one: W is read
    whole unless its rank is given.
    """
    found = read_whole(meter, rng) if rank is None else read_W(meter, rng, rank, accuracy)
    oracle, origin = meter.oracle.inner, meter.oracle.origin
    key_bias = meter.settled_bias - found.W @ origin
    error = meter.key_bias_error + found.bound * float(np.linalg.norm(origin))
    there = ValueMeter(oracle, meter.values.seen_from(-origin), cone(meter.u, rng))
    by_W, seen = replace(there, key_bias=key_bias, key_bias_error=error), rms(there.keys.vectors @ key_bias)
    if seen * oracle.reach < KEY_BIAS_LOGIT:
        return by_W, found
    return min(by_W, read_key_bias(there, KEY_BIAS_LOGIT / seen), key=lambda each: each.key_bias_error), found
