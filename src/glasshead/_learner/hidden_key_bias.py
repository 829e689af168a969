"""Is there a key bias? Without one `f(-X) = -f(X)`, so it is what the two sides of the plane answer differently.

One that is too small to show may be there all the same: how small, and how far it could have moved W, is proved here.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from .._meter.bisect import exponents
from .._meter.probes import Probes
from .._meter.sign import KeyBias, SignMeter
from .._scheme import Measured

PILOTS = 4  # scores looked at for their size
PILOT_BITS = 10
LOWEST, HIGHEST = -120, 120  # exponents of scores that unit vectors may have
CERTIFIED = 6  # bits by which a key bias that could have hidden is below the width of a score


def pilot_scores(meter: SignMeter, rng: np.random.Generator) -> tuple[Probes, np.ndarray, np.ndarray]:
    """A few scores of keys against queries, to `PILOT_BITS` bits each."""
    d = meter.oracle.dim
    k, q = rng.integers(d, size=(2, PILOTS))
    probes = Probes(meter, meter.keys.vectors, meter.queries.vectors, k, q)
    # Tokens of length 2 / sqrt(t) ask about a score of t.
    highest = min(HIGHEST, 2 - 2 * math.ceil(math.log2(meter.shortest)))
    size = 2.0 ** exponents(probes.above, PILOTS, LOWEST, highest)
    if np.any(size == 2.0**highest):
        raise probes.refusal(int(np.argmax(size)))
    return probes, *probes.bracket(np.zeros(PILOTS), size, size * 2.0 ** (1 - PILOT_BITS))


def differs(probes: Probes, lo: np.ndarray, hi: np.ndarray) -> bool:
    """Whether scores found between `lo` and `hi` on one side of the plane are elsewhere on the other."""
    other = replace(probes.meter, side=-probes.meter.side)
    mirrored = Probes(other, probes.keys, probes.queries, probes.k, probes.q)
    from_below, from_above = np.flatnonzero(np.isfinite(lo)), np.flatnonzero(np.isfinite(hi))
    return not mirrored.above(from_below, lo[from_below]).all() or bool(
        mirrored.above(from_above, hi[from_above]).any()
    )


def has_key_bias(probes: Probes, lo: np.ndarray, hi: np.ndarray) -> bool:
    everyone = np.arange(len(lo))
    return differs(probes, probes.ends(everyone, lo)[0], probes.ends(everyone, hi)[1])


def could_hide(meter: SignMeter, W: np.ndarray) -> KeyBias | None:
    """How large a key bias can be that was taken to be zero; None if it is not.

    One score of each key is bisected a little further and the last two answers are asked for again from the other side.
    v and its error are the same there, so only rounding can tell the two sides apart if there is no bias.
    """
    d = meter.oracle.dim
    probes = Probes(meter, meter.keys.vectors, meter.queries.vectors, np.arange(d), np.zeros(d, int))
    center = probes.sign * (meter.keys.vectors @ (W @ meter.queries.vectors[0]))
    width = np.full(d, meter.width)
    everyone = np.arange(d)
    lo, hi = probes.bracket(center, width, width * 2.0**-CERTIFIED)
    same_v = replace(meter, space=replace(meter.space, error=0.0))
    rounds = Probes(same_v, probes.keys, probes.queries, probes.k, probes.q)
    slack = meter.rounding(float(np.linalg.norm(W)))
    least, most = rounds.ends(everyone, lo)[0] - slack, rounds.ends(everyone, hi)[1] + slack
    if differs(probes, least, most):
        return None
    # Both `score + k / kappa` and `score - k / kappa` lie between these ends, the second up to its rounding.
    _, kappa = probes.lengths(everyone, center)
    return KeyBias(np.zeros(d), meter.keys.inverse, kappa * (0.75 * (most - least) + slack))


def with_hidden(meter: SignMeter, found: Measured, bias: KeyBias) -> float:
    """The bound on W if there is a key bias within these widths: it may have moved each score by `width / kappa`."""
    d, W = meter.oracle.dim, found.W
    k, q = np.divmod(np.arange(d * d), d)
    probes = Probes(meter, meter.keys.vectors, meter.queries.vectors, k, q)
    scores = probes.sign * (meter.keys.vectors @ W @ meter.queries.vectors.T).ravel()
    _, kappa = probes.lengths(np.arange(d * d), scores)
    moved = float(np.linalg.norm(bias.widths[k] / kappa))
    if found.right is None:
        return found.bound + meter.keys.gain * meter.queries.gain * moved
    # A low-rank scheme combines scores, but its bound grows in proportion to their errors; other keys see up to twice.
    known = (meter.width + probes.blur) / 2 + meter.rounding(float(np.linalg.norm(W)))
    return found.bound * (1 + 2 * moved / float(np.linalg.norm(known)))
