"""Every v_h from the jumps of one circle, with its sign; and the v of a head that takes the mean of the tokens.

The gradient of F changes by `+v_h` or `-v_h` at the jump of head h. All v add up to `total`, which is known, and for
independent v only one combination of the changes does: its coefficients are the signs. A head with W = 0 and no key
bias jumps nowhere; it answers `z.v / 2` to one key beside q, and `c z.v / (c + 1)` to c copies of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ...._errors import GlassheadError, NotConverged, NotIdentifiable, TargetMismatch
from ...._linalg import random_rotation
from ...._meters import HeadValues, SumOfHeads
from ...._oracles import REACH
from ...._types import Float
from .circle import Bracket, KeyCircle, Saturated, find_jumps
from .gradients import CellPoint, arcs, random_units, read_arc_point, read_gradients, relative_width

CIRCLES_TRIED = 4  # at most
QUERY_LENGTHS = 1.0, 2.0**10, 2.0**20  # of query tokens
# Further circles where tokens may not be that long: heads are smeared out, which hurts more on some than on others.
MORE_CIRCLES = 3
WIDE_ENOUGH = 0.02  # an arc so much narrower than usual is reason enough for another circle
MEAN_PLAUSIBLE = 4.0  # times the error: what may be left of all v where a mean explains everything
# How far a coefficient may be from ±1 without asking what is left, and where its sign says nothing at all. A
# coefficient is ±1 or, where two jumps were met as one or values are dependent, any other number.
SIGN_OFF, NO_SIGN = 1e-3, 0.3


def read_head_values(
    box: SumOfHeads, circle: KeyCircle, jumps: list[Bracket], rng: np.random.Generator
) -> HeadValues | NoSigns:
    """v of every head that jumps on the circle: d queries per head, and a few dozen more.

    The circle may still be that of a box with a head that takes the mean, which adds the same to all slopes.
    """
    error = np.sqrt(box.dim) * (circle.saturated.noise + box.mean_error)
    if len(jumps) == 0:
        refuse_unless_mean(box, error)
        return HeadValues(np.empty((0, box.dim)), np.empty(0))
    if len(jumps) == 1:
        return HeadValues(box.total[None].copy(), np.array([error]))
    box.oracle.stage = "reading v of every head"
    g, errors = read_gradients(circle, jumps, rng)
    return signed(box, np.diff(g, axis=0), np.hypot(errors[:-1], errors[1:]))


def find_circle(box: SumOfHeads, rng: np.random.Generator) -> tuple[KeyCircle, list[Bracket]]:
    """The circle with the most jumps, and of those the one whose narrowest arc is widest."""
    box.oracle.stage = "counting heads"
    best: tuple[KeyCircle, list[Bracket]] | None = None
    for _ in range(CIRCLES_TRIED):
        circle, jumps = find_saturated_circle(box, rng)
        if best is None or circle_quality(jumps) > circle_quality(best[1]):
            best = circle, jumps
        if circle_quality(best[1])[1] >= WIDE_ENOUGH:
            break
    assert best is not None
    return best


def find_saturated_circle(box: SumOfHeads, rng: np.random.Generator) -> tuple[KeyCircle, list[Bracket]]:
    """A circle and its jumps; with longer query tokens where keys alone are not long enough to saturate."""
    failed: GlassheadError | None = None
    again = 0 if box.oracle.max_norm is None else MORE_CIRCLES
    for length in QUERY_LENGTHS + QUERY_LENGTHS[-1:] * again:
        circle = KeyCircle(Saturated(box, length * random_unit(box.dim, rng)), rng)
        try:
            jumps = find_jumps(circle, rng)
        except (TargetMismatch, NotConverged) as error:
            failed = failed or error
            continue
        if failed is None or jumps:
            return circle, jumps
    assert failed is not None
    raise failed


def circle_quality(jumps: list[Bracket]) -> tuple[int, float]:
    return len(jumps), relative_width(jumps) if len(jumps) > 1 else np.inf


def random_unit(dim: int, rng: np.random.Generator) -> np.ndarray:
    g = rng.standard_normal(dim)
    return g / np.linalg.norm(g)


def signed(box: SumOfHeads, changes: np.ndarray, errors: np.ndarray) -> HeadValues | NoSigns:
    """`sum_h s_h changes_h = total` with signs s_h: anything else is no sum of heads that each jump once."""
    size = np.linalg.norm(changes, axis=1)
    if len(changes) > box.dim:
        refuse_dependent(len(changes), box.dim)
    coefficients = np.linalg.lstsq((changes / size[:, None]).T, box.total, rcond=None)[0] / size
    off = np.abs(np.abs(coefficients) - 1)
    left = float(np.linalg.norm(np.sign(coefficients) @ changes - box.total))
    if (off > NO_SIGN).any() or ((off > SIGN_OFF).any() and left > 10 * np.linalg.norm(errors)):
        return NoSigns(coefficients)
    return HeadValues(np.sign(coefficients)[:, None] * changes, errors)


def refuse_unless_mean(box: SumOfHeads, error: float) -> None:
    """Where no head jumps, one that takes the mean has to explain everything."""
    if box.mean is not None and np.linalg.norm(box.total) <= MEAN_PLAUSIBLE * error:
        return
    if box.mean is None and np.linalg.norm(box.total) <= error:
        raise NotIdentifiable(
            "v = 0 for every head: no answer depends on any token, so no learner could read W from them"
        )
    raise NotConverged(
        "no head prefers any token to another, as far as the longest tokens show, but answers are not those of a plain "
        "mean of the tokens either: some W or key bias is too small to be seen"
    )


def refuse_dependent(heads: int, dim: int) -> NoReturn:
    raise NotConverged(
        f"{heads} heads in dimension {dim}: their values are linearly dependent, so no token shows one of them alone; "
        f"up to {dim - 2} heads can be taken apart"
    )


@dataclass(frozen=True)
class NoSigns:
    """The changes do not add up to the sum of all v. On another circle they may, if this one met two jumps as one."""

    coefficients: Float[np.ndarray, " H"]

    def __str__(self) -> str:
        worst = self.coefficients[np.abs(np.abs(self.coefficients) - 1).argmax()]
        return (
            f"{len(self.coefficients)} jumps were found, but the values read from them do not add up to those of one "
            f"token alone (a coefficient should be 1 or -1 and is {worst:.3g}): there are heads with parallel values "
            "or with proportional W, which hide behind each other"
        )


KEY_COPIES = 7  # the mean then has 7/8 of the key instead of 1/2; the last check asks about 8 tokens too
LONG_KEYS = 1 / 4  # of the longest token, the keys' length: as saturated as can be
MEAN_TRIES = 2
MEAN_CLEAR = 4.0  # times the error: less is no head


def read_without_mean(circle: KeyCircle, jumps: list[Bracket], rng: np.random.Generator) -> SumOfHeads:
    """The box less a head that takes the mean, where copies of one key show one, the same wherever it is looked for;
    else the box itself."""
    saturated = circle.saturated
    if saturated.box.mean is not None or not find_copy_effect(circle, jumps):
        return saturated.box
    saturated.box.oracle.stage = "reading v of a head that takes the mean"
    short = float(np.linalg.norm(saturated.q))
    for length in (short, *[np.inf] * (MEAN_TRIES - 1)):
        found = read_mean(saturated.box, length, rng)
        if found is not None:
            return saturated.box.without_mean_head(*found)
    return saturated.box  # what counts is no mean: heads that do not saturate, say


def find_copy_effect(circle: KeyCircle, jumps: list[Bracket]) -> bool:
    """Whether copies of a key, as far away from all jumps as there is one, are answered differently from one of it."""
    saturated = circle.saturated
    if jumps:
        point = read_arc_point(circle, max(arcs(jumps), key=lambda arc: arc.half))
    else:
        z = circle.points(np.zeros(1))
        point = CellPoint(z[0], float(saturated(z)[1][0]), 1.0, 1.0)
    _, y = saturated(point.z[None], KEY_COPIES)
    return bool(abs(y[0] - point.y) > (point.growth + 1) * saturated.noise)


def read_mean(box: SumOfHeads, length: float, rng: np.random.Generator) -> tuple[Float[np.ndarray, " d"], float] | None:
    """v of the mean, from a query token of that length at most, and how far a unit key may see it off.

    None if the longest query token has it otherwise, where a head shows whose W is so small that it passed for 0, or if
    nothing is left of it but error.
    """
    d = box.dim
    q, far = random_units(2, d, rng)
    sent, seen, error = read_opposite_copies(Saturated(box, min(length, REACH) * q, LONG_KEYS), random_rotation(d, rng))
    v = np.linalg.solve(sent, seen)
    there, y, more = read_single_and_copies(Saturated(box, REACH * far, LONG_KEYS), random_units(1, d, rng))
    if abs(y[0] - there[0] @ v) > error + more or np.linalg.norm(v) <= MEAN_CLEAR * np.sqrt(d) * error:
        return None
    return v, error


def read_opposite_copies(saturated: Saturated, Z: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray, float]:
    """The keys, `z.v` of the mean for each, and its error: from copies of z, and of -z.

    Both together turn every other head on once, so what these answer is known: `z.total`, less the mean's part.
    """
    sent, y = saturated(Z, KEY_COPIES)
    back, opposite = saturated(-Z, KEY_COPIES)
    gain = (KEY_COPIES + 1) / (KEY_COPIES - 1)
    along = (sent - back) / 2
    return along, gain * (y - opposite - along @ saturated.box.total), 2 * gain * saturated.noise


def read_single_and_copies(saturated: Saturated, Z: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray, float]:
    """The keys, `z.v` of the mean for each, and its error: from z alone and from copies of it.

    Less accurate than z against -z, but a small score changes what is found, while on z and -z it cancels.
    """
    sent, y = saturated(Z, KEY_COPIES)
    _, once = saturated(Z)
    gain = 1 / (KEY_COPIES / (KEY_COPIES + 1) - 1 / 2)
    return sent, gain * (y - once), 2 * gain * saturated.noise
