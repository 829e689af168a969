"""A meter for every head, at its own scale; and, where faint heads or few digits ask for it, every v once more.

The scale of a head is how long its keys and query tokens have to be for logits of about `TARGET_LOGIT`: found from a
few pilot logits, with the guess of the head before. The values that the meters rest on come from gradients, as good as
the width of a cell allowed. Once each head's key is known for one query token, along what no head's value sees, there
is a key that turns head h fully on and all others fully off: around it the answer is `z.v_h`. That takes a column of
every head and `H (d + 1)` queries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...._errors import NotConverged
from ...._linalg import random_rotation, rms
from ...._meters import (
    RATIO,
    SAFETY,
    SATURATED,
    TARGET_LOGIT,
    AlwaysSaturated,
    HeadValues,
    Interval,
    IsolatedHead,
    SumOfHeads,
    ValueSpace,
    find_logit_scale,
    isolated_meter,
    value_space,
)
from ...._oracles import HEADROOM
from ...._types import Float
from ..saturated import Saturated, random_unit
from .steering import least_distance


def find_meters(box: SumOfHeads, values: HeadValues, rng: np.random.Generator) -> tuple[ValueSpace, list[IsolatedHead]]:
    """A meter for every head, at its scale; where it pays, after another look at the values."""
    space, sizes, meters = value_space(values), ScoreSizes(1.0, 1.0), []
    for h in range(len(values)):
        box.oracle.stage = f"finding the scale of head {h + 1} of {len(values)}"
        meter, sizes = find_scaled_meter(isolated_meter(box, space, h, rng), sizes, rng)
        if not (0 < meter.rho < np.inf and 0 < meter.kappa < np.inf):
            raise NotConverged(f"no length of tokens suits the scores of head {h + 1} of {len(values)}")
        meters.append(meter)
    if len(values) > 1 and expected_error(space).max() > WORTH_REFINING:
        space = value_space(read_values_again(box, space, meters, rng))
        meters = [replace(meter, space=space) for meter in meters]
    refuse_faint(box, space)
    return space, meters


BIAS_LOOKS = 2  # for a key bias, with the longest keys
SCALE_PILOTS = 2
SETTLING, MISJUDGED = 3, 8.0  # a few logits more at the scale found, and how far that may be off
W_SHOWS = 2.0**-10  # of the longest tokens: a W that needs longer ones to show is 0
LINEAR_WITHIN = 1e-5  # of a logit: a box that is that close to one head there is left to the final check
BIAS_COUNTS = 0.5  # how much an error of the key bias counts, beside one of W


@dataclass(frozen=True)
class ScoreSizes:
    """What a unit key sees, as an rms: of the key bias, and of W and a unit token."""

    key_bias: float
    W: float


class KeyPilots:
    """Logits of random keys of the frame against tokens of some length in random directions."""

    def __init__(self, meter: IsolatedHead, rng: np.random.Generator):
        self.meter, self.rng = meter, rng
        self.complement = meter.space.complement(meter.h)

    def __call__(self, key: float, token: float, count: int) -> Interval:
        q, z = self.drawn(key, token, count)
        return self.meter.read(q, z)

    def read_odd_part(self, key: float, token: float, count: int) -> Interval:
        """What is odd in the token: the key bias drops out."""
        q, z = self.drawn(key, token, count)
        s, lo, hi = self.meter.read(np.concatenate([q, -q]), np.concatenate([z, z]))
        return (s[:count] - s[count:]) / 2, (lo[:count] - hi[count:]) / 2, (hi[:count] - lo[count:]) / 2

    def drawn(self, key: float, token: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        q = self.rng.standard_normal((count, self.meter.box.dim))
        q *= token / np.linalg.norm(q, axis=1, keepdims=True)
        chosen = self.rng.permutation(len(self.meter.keys))[np.arange(count) % len(self.meter.keys)]
        return q, (key * self.meter.keys.vectors[chosen] @ self.complement.T)[:, None]


def find_scaled_meter(
    meter: IsolatedHead, guess: ScoreSizes, rng: np.random.Generator
) -> tuple[IsolatedHead, ScoreSizes]:
    """The meter at its scales; `guess` is what another head of the same box had."""
    pilots, cap = KeyPilots(meter, rng), meter.oracle.reach / 4
    try:
        sizes = (
            find_sizes_with_bias(pilots, guess, cap)
            if find_biased(pilots, cap)
            else find_sizes_without_bias(pilots, guess, cap)
        )
    except AlwaysSaturated:
        meter.refuse(np.zeros(meter.box.dim), pilots.complement[:, 0], "0 or 1 at any length")
    key, token = best_lengths(meter, sizes)
    return replace(at_lengths(meter, find_key_length(pilots, key, token), token), biased=sizes.key_bias > 0), sizes


def find_key_length(pilots: KeyPilots, key: float, token: float) -> float:
    """The length of keys whose logits are as large as they should be, from a few at these lengths; and a law.

    A key twice as long has twice the logit, if it is one head that answers.
    """
    q, z = pilots.drawn(key, token, SETTLING)
    s, lo, hi = pilots.meter.read(np.concatenate([q, q[:1]]), np.concatenate([z, 2 * z[:1]]))
    single, double, width = float(s[0, 0]), float(s[-1, 0]), float(np.max((hi - lo)[[0, -1]]))
    if abs(double - 2 * single) > 3 * width + LINEAR_WITHIN * max(1.0, abs(double)):
        pilots.meter.refuse(q[0], 2 * z[0, 0], f"a logit of {double:.6g} where half the key has {single:.6g}")
    typical = rms(np.append(s[:-1], double / 2))
    return key * float(np.clip(TARGET_LOGIT / max(typical, np.finfo(float).tiny), 1 / MISJUDGED, MISJUDGED))


def find_biased(pilots: KeyPilots, cap: float) -> bool:
    _, lo, hi = pilots(cap, 0.0, BIAS_LOOKS)
    return bool(np.any((lo > 0) | (hi < 0)))


def find_sizes_with_bias(pilots: KeyPilots, guess: ScoreSizes, cap: float) -> ScoreSizes:
    key = find_length(pilots, lambda scale, count: pilots(scale, 0.0, count), guess.key_bias, cap)
    token = find_length(pilots, lambda scale, count: pilots.read_odd_part(key, scale, count), guess.W * key, cap)
    return ScoreSizes(TARGET_LOGIT / key, TARGET_LOGIT / (key * token) if token < W_SHOWS * cap else 0.0)


def find_sizes_without_bias(pilots: KeyPilots, guess: ScoreSizes, cap: float) -> ScoreSizes:
    def read_pilot(product: float, count: int) -> Interval:
        return pilots(np.sqrt(product * RATIO), np.sqrt(product / RATIO), count)

    return ScoreSizes(0.0, TARGET_LOGIT / find_length(pilots, read_pilot, guess.W, cap**2 / RATIO))


def find_length(pilots: KeyPilots, read_pilot, guess: float, cap: float) -> float:
    oracle = pilots.meter.oracle
    start = TARGET_LOGIT / guess if guess > 0 else 1.0
    return find_logit_scale(read_pilot, min(start, cap), cap, oracle.roundoff, SATURATED, TARGET_LOGIT, SCALE_PILOTS)


# Lengths of a token that are compared, over that at which W adds as much to a key as the key bias: four decades either
# way, since errors of the two weigh differently, and finer than it matters.
TOKENS_TRIED = np.geomspace(1e-4, 1e4, 161)


def best_lengths(meter: IsolatedHead, sizes: ScoreSizes) -> tuple[float, float]:
    """Lengths of keys and of tokens.

    Without a key bias only their product counts: long keys, short tokens. With one, the error of W is about that of a
    score times `|k| / |W q|`, that of the key bias a score's times `|k| / |key_bias|`.
    """
    if sizes.W == 0:
        return float(TARGET_LOGIT / sizes.key_bias), float(TARGET_LOGIT / sizes.key_bias)
    if sizes.key_bias == 0:
        wanted = HEADROOM * abs(meter.box.bias) / meter.space.gains[meter.h]
        key = min(max(np.sqrt(RATIO / sizes.W), wanted), meter.oracle.reach / 8)
        return float(key), float(1 / (sizes.W * key))
    token = TOKENS_TRIED * min(sizes.key_bias / sizes.W, meter.oracle.reach / 1e6)
    size = np.hypot(token * sizes.W, sizes.key_bias)
    rounding = meter.oracle.roundoff * meter.box.v_norm
    tokens_count = 2 * rounding / (rounding + meter.space.crosstalk)  # errors of v come with the key alone
    error = (1 + tokens_count * token * size) * (size / (token * sizes.W) + BIAS_COUNTS * size / sizes.key_bias)
    best = int(np.argmin(error))
    return float(TARGET_LOGIT / size[best]), float(token[best])


def at_lengths(meter: IsolatedHead, key: float, token: float) -> IsolatedHead:
    """All queries of the frame have `beta = 1/sqrt(m)` and a token part of `sqrt(1 - 1/m)`."""
    m = meter.dim
    return replace(meter, rho=key * np.sqrt(m), kappa=token / np.sqrt(max(1, m - 1)))


# The relative error of some W, as expected from the errors of v, past which v is read again: the goal for a float64 box
# is 1e-9, and gradients alone reach it unless a head is faint.
WORTH_REFINING = 1e-9
FAINTEST = 1e-2  # the relative error of W past which a head is refused: answers hardly depend on it
W_PER_V = 3.0  # how much larger than the errors of v over the signal those of W usually are
STEP_DEVIATIONS = 8.0  # standard deviations that a step may reach across a random direction
VALUE_PLAUSIBLE = 100.0  # times the expected errors: a v that moves further was read across a jump


def expected_error(space: ValueSpace) -> Float[np.ndarray, " H"]:
    """The relative error of every W that the errors of v lead to."""
    return W_PER_V * space.crosstalk / space.gains


def refuse_faint(box: SumOfHeads, space: ValueSpace) -> None:
    """Refuses a head that the box's digits say too little about: no check on answers would notice."""
    worst = expected_error(space)
    if worst.max() > FAINTEST:
        size = np.linalg.norm(space.values.v, axis=1)
        faint = size[worst.argmax()] / size.max()
        raise NotConverged(
            f"one of {len(size)} heads has a v of {faint:.1g} times the largest: with answers good to "
            f"{box.oracle.roundoff:.1g} its W would be off by up to {worst.max():.0%}"
        )


def read_values_again(
    box: SumOfHeads, space: ValueSpace, meters: list[IsolatedHead], rng: np.random.Generator
) -> HeadValues:
    """The values, read again at one query token, where that worked."""
    box.oracle.stage = "reading v again"
    token = float(np.median([meter.kappa * np.sqrt(meter.dim) for meter in meters]))
    saturated = Saturated(box, token * random_unit(box.dim, rng))
    keys = np.array([read_key(meter, saturated.q) for meter in meters])
    if not np.isfinite(keys).all():  # a logit that saturated: the scale of that head is not right for this token
        return space.values
    v, errors = space.values.v.copy(), space.values.error.copy()
    for h in range(len(v)):
        found = read_value_again(saturated, space, keys, h, rng)
        allowed = VALUE_PLAUSIBLE * (float(np.linalg.norm(space.values.error)) + (found[1] if found else 0.0))
        if found and np.linalg.norm(found[0] - v[h]) <= allowed:
            v[h], errors[h] = found
    return HeadValues(v, errors)


def read_key(meter: IsolatedHead, q: Float[np.ndarray, " d"]) -> Float[np.ndarray, " m"]:
    """The head's key for a query token, as far as its own keys see it."""
    x = np.append(q / meter.kappa, 1.0)
    size = float(np.linalg.norm(x))
    return meter.keys.inverse @ meter.read_against(x[None] / size, meter.keys.vectors).t[0] * size


def read_value_again(
    saturated: Saturated, space: ValueSpace, keys: np.ndarray, h: int, rng
) -> tuple[np.ndarray, float] | None:
    """v_h from steps around a key that only head h is on for, and its error."""
    d = saturated.box.dim
    signs = np.where(np.arange(len(keys)) == h, 1.0, -1.0)
    n = least_distance(signs[:, None] * keys[:, 1:] / np.linalg.norm(keys, axis=1, keepdims=True))
    if n is None:
        return None
    length = float(np.linalg.norm(n))
    centre, step = space.kernel @ n / length, float(np.sqrt(d) / STEP_DEVIATIONS / length)
    sent, y = saturated(np.vstack([centre, centre + step * random_rotation(d, rng)]) / (1 + step))
    v = np.linalg.lstsq(sent, y, rcond=None)[0]
    noise = SAFETY * np.sqrt(d) * saturated.box.oracle.roundoff * float(np.linalg.norm(v))
    return v, noise * (1 + step) / step
