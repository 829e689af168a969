"""A head with W = 0 and no key bias, which takes the mean of the tokens.

It never jumps, and on two tokens it is the same as other heads turned over. Copies of a very long key tell: a saturated
head only cares which token wins, the mean counts them.
"""

from __future__ import annotations

import numpy as np

from .._meter.frame import random_rotation
from .._meter.lever import REACH
from .._types import Float
from .box import Box
from .circle import Circle
from .deeper import Spot
from .gradients import arcs, on_circle, unit_vectors
from .jumps import Gap
from .saturated import Saturated

COPIES = 7  # the mean then has 7/8 of the key instead of 1/2; the last check asks about 8 tokens too
LONG = 1 / 4  # of the longest token, the keys' length: as saturated as can be
TRIES = 2
CLEARLY = 4.0  # times the error: less is no head


def without_mean(circle: Circle, jumps: list[Gap], rng: np.random.Generator) -> Box:
    """The box less such a head, where copies of one key show it and it is the same wherever it is looked for."""
    face = circle.face
    if face.box.mean is not None or not counts(circle, jumps):
        return face.box
    face.box.oracle.stage = "reading v of a head that takes the mean"
    short = float(np.linalg.norm(face.q))
    for length in (short, *[np.inf] * (TRIES - 1)):
        found = read_mean(face.box, length, rng)
        if found is not None:
            return face.box.without(*found)
    return face.box  # what counts is no mean: heads that do not saturate, say


def counts(circle: Circle, jumps: list[Gap]) -> bool:
    """Whether copies of a key, as far away from all jumps as there is one, are answered differently from one of it."""
    face = circle.face
    if jumps:
        spot = on_circle(circle, max(arcs(jumps), key=lambda arc: arc.half))
    else:
        z = circle.points(np.zeros(1))
        spot = Spot(z[0], float(face(z)[1][0]), 1.0, 1.0)
    _, y = face(spot.z[None], COPIES)
    return bool(abs(y[0] - spot.y) > (spot.growth + 1) * face.noise)


def read_mean(box: Box, length: float, rng: np.random.Generator) -> tuple[Float[np.ndarray, " d"], float] | None:
    """v of the mean, from a query token of that length at most, and how far a unit key may see it off.

    None if the longest query token has it otherwise, where a head shows whose W is so small that it passed for 0, or if
    nothing is left of it but error.
    """
    d = box.dim
    q, far = unit_vectors(2, d, rng)
    sent, seen, error = both_ways(Saturated(box, min(length, REACH) * q, LONG), random_rotation(d, rng))
    v = np.linalg.solve(sent, seen)
    there, y, more = once_and_often(Saturated(box, REACH * far, LONG), unit_vectors(1, d, rng))
    if abs(y[0] - there[0] @ v) > error + more or np.linalg.norm(v) <= CLEARLY * np.sqrt(d) * error:
        return None
    return v, error


def both_ways(face: Saturated, Z: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray, float]:
    """The keys, `z.v` of the mean for each, and its error: from copies of z, and of -z.

    Both together turn every other head on once, so what these answer is known: `z.total`, less the mean's part.
    """
    sent, y = face(Z, COPIES)
    back, opposite = face(-Z, COPIES)
    gain = (COPIES + 1) / (COPIES - 1)
    along = (sent - back) / 2
    return along, gain * (y - opposite - along @ face.box.total), 2 * gain * face.noise


def once_and_often(face: Saturated, Z: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray, float]:
    """The same from z and copies of it. Less accurate, but a small score changes both, while on z and -z it cancels."""
    sent, y = face(Z, COPIES)
    _, once = face(Z)
    gain = 1 / (COPIES / (COPIES + 1) - 1 / 2)
    return sent, gain * (y - once), 2 * gain * face.noise
