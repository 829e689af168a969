"""Every v_h from the jumps of one circle, with its sign."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from ...._errors import GlassheadError, NotConverged, NotIdentifiable, TargetMismatch
from ...._linalg import random_rotation
from ...._meters import Box, HeadValues
from ...._oracles import REACH
from ...._types import Float
from .circle import Circle, Saturated
from .gradients import Spot, arcs, on_circle, roomy, slopes, unit_vectors
from .jumps import Gap, find_jumps

CIRCLES = 4  # at most
LENGTHS = 1.0, 2.0**10, 2.0**20  # of query tokens
AGAIN = (
    3  # circles more, where tokens may not be that long: heads are smeared out, which hurts more on some than others
)
ROOMY = 0.02  # an arc so much narrower than usual is reason enough for another circle
PLAUSIBLE = 4.0  # times the error: what may be left of all v where a mean explains everything
ONE, UNSIGNED = 1e-3, 0.3  # how far a coefficient should be from ±1 at most, and where its sign says nothing


def read_values(box: Box, circle: Circle, jumps: list[Gap], rng: np.random.Generator) -> HeadValues:
    """v of every head that jumps on the circle: d queries per head, and a few dozen more.

    The circle may still be that of a box with a head that takes the mean, which adds the same to all slopes.
    """
    error = np.sqrt(box.dim) * (circle.face.noise + box.unsure)
    if len(jumps) == 0:
        check_silent(box, error)
        return HeadValues(np.empty((0, box.dim)), np.empty(0))
    if len(jumps) == 1:
        return HeadValues(box.total[None].copy(), np.array([error]))
    box.oracle.stage = "reading v of every head"
    g, errors = slopes(circle, jumps, rng)
    return signed(box, np.diff(g, axis=0), np.hypot(errors[:-1], errors[1:]))


def best_circle(box: Box, rng: np.random.Generator) -> tuple[Circle, list[Gap]]:
    """The circle with the most jumps, and of those the one whose narrowest arc is widest."""
    box.oracle.stage = "counting heads"
    best: tuple[Circle, list[Gap]] | None = None
    for _ in range(CIRCLES):
        circle, jumps = saturated_circle(box, rng)
        if best is None or worth(jumps) > worth(best[1]):
            best = circle, jumps
        if worth(best[1])[1] >= ROOMY:
            break
    assert best is not None
    return best


def saturated_circle(box: Box, rng: np.random.Generator) -> tuple[Circle, list[Gap]]:
    """A circle and its jumps; with longer query tokens where keys alone are not long enough to saturate."""
    failed: GlassheadError | None = None
    again = 0 if box.oracle.max_norm is None else AGAIN
    for length in LENGTHS + LENGTHS[-1:] * again:
        circle = Circle(Saturated(box, length * direction(box.dim, rng)), rng)
        try:
            jumps = find_jumps(circle, rng)
        except (TargetMismatch, NotConverged) as error:
            failed = failed or error
            continue
        if failed is None or jumps:
            return circle, jumps
    assert failed is not None
    raise failed


def worth(jumps: list[Gap]) -> tuple[int, float]:
    return len(jumps), roomy(jumps) if len(jumps) > 1 else np.inf


def direction(dim: int, rng: np.random.Generator) -> np.ndarray:
    g = rng.standard_normal(dim)
    return g / np.linalg.norm(g)


def signed(box: Box, changes: np.ndarray, errors: np.ndarray) -> HeadValues:
    """`sum_h s_h changes_h = total` with signs s_h: anything else is no sum of heads that each jump once."""
    size = np.linalg.norm(changes, axis=1)
    if len(changes) > box.dim:
        refuse_many(len(changes), box.dim)
    coefficients = np.linalg.lstsq((changes / size[:, None]).T, box.total, rcond=None)[0] / size
    off = np.abs(np.abs(coefficients) - 1)
    left = float(np.linalg.norm(np.sign(coefficients) @ changes - box.total))
    if (off > UNSIGNED).any() or ((off > ONE).any() and left > 10 * np.linalg.norm(errors)):
        refuse_signs(coefficients)
    return HeadValues(np.sign(coefficients)[:, None] * changes, errors)


def check_silent(box: Box, error: float) -> None:
    """Where no head jumps, one that takes the mean has to explain everything."""
    if box.mean is not None and np.linalg.norm(box.total) <= PLAUSIBLE * error:
        return
    if box.mean is None and np.linalg.norm(box.total) <= error:
        raise NotIdentifiable(
            "v = 0 for every head: no answer depends on any token, so no learner could read W from them"
        )
    raise NotConverged(
        "no head prefers any token to another, as far as the longest tokens show, but answers are not those of a plain "
        "mean of the tokens either: some W or key bias is too small to be seen"
    )


def refuse_many(heads: int, dim: int) -> NoReturn:
    raise NotConverged(
        f"{heads} heads in dimension {dim}: their values are linearly dependent, so no token shows one of them alone; "
        f"up to {dim - 2} heads can be taken apart"
    )


class NoSigns(NotConverged):
    """The values do not add up. On another circle they may, if this one met two jumps as one."""


def refuse_signs(coefficients: np.ndarray) -> NoReturn:
    worst = coefficients[np.abs(np.abs(coefficients) - 1).argmax()]
    raise NoSigns(
        f"{len(coefficients)} jumps were found, but the values read from them do not add up to those of one token "
        f"alone (a coefficient should be 1 or -1 and is {worst:.3g}): there are heads with parallel values or with "
        "proportional W, which hide behind each other"
    )


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
