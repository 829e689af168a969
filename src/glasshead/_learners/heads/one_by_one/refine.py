"""Every v_h once more, with all other heads silenced.

The slopes of F are as good as the room around a point of a circle allowed. Once each head's key is known for one query
token, along what no head sees, there is a key that turns head h fully on and all others fully off, with room on all
sides: around it F is `z.v_h`. It takes a column of every head and `H (d + 1)` queries, so it is done where faint heads
or few digits ask for it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...._errors import NotConverged
from ...._linalg import random_rotation
from ...._meters import SAFETY, Box, HeadValues, IsolatedHead, Room
from ...._types import Float
from ..saturated import Saturated, direction
from .silence import shortest

WORTH = 1e-9  # the error of some W, as expected from those of v, past which it is worth it
TOO_LITTLE = 1e-2
TWICE = 3.0  # how much larger than the errors of v over the signal those of W usually are
ACROSS = 8.0  # standard deviations that a step may reach across a random direction
PLAUSIBLE = 100.0  # times the expected errors: a v that moves further was read across a jump


def expected(room: Room) -> Float[np.ndarray, " H"]:
    """The relative error of every W that the errors of v lead to."""
    return TWICE * room.leak / room.reach


def check_expected(box: Box, room: Room) -> None:
    """Refuses a head that the box's digits say too little about: no check on answers would notice."""
    worst = expected(room)
    if worst.max() > TOO_LITTLE:
        size = np.linalg.norm(room.values.v, axis=1)
        faint = size[worst.argmax()] / size.max()
        raise NotConverged(
            f"one of {len(size)} heads has a v of {faint:.1g} times the largest: with answers good to "
            f"{box.oracle.roundoff:.1g} its W would be off by up to {worst.max():.0%}"
        )


def refined(box: Box, room: Room, meters: list[IsolatedHead], rng: np.random.Generator) -> HeadValues:
    """The values, read again at one query token, where that worked."""
    box.oracle.stage = "reading v again"
    token = float(np.median([meter.kappa * np.sqrt(meter.dim) for meter in meters]))
    face = Saturated(box, token * direction(box.dim, rng))
    keys = np.array([key_at(meter, face.q) for meter in meters])
    if not np.isfinite(keys).all():  # a logit that saturated: the scale of that head is not right for this token
        return room.values
    v, errors = room.values.v.copy(), room.values.error.copy()
    for h in range(len(v)):
        found = read_again(face, room, keys, h, rng)
        allowed = PLAUSIBLE * (float(np.linalg.norm(room.values.error)) + (found[1] if found else 0.0))
        if found and np.linalg.norm(found[0] - v[h]) <= allowed:
            v[h], errors[h] = found
    return HeadValues(v, errors)


def key_at(meter: IsolatedHead, q: Float[np.ndarray, " d"]) -> Float[np.ndarray, " m"]:
    """The head's key for a query token, as far as its own keys see it."""
    x = np.append(q / meter.kappa, 1.0)
    size = float(np.linalg.norm(x))
    return meter.keys.inverse @ meter.against(x[None] / size, meter.keys.vectors).t[0] * size


def read_again(face: Saturated, room: Room, keys: np.ndarray, h: int, rng) -> tuple[np.ndarray, float] | None:
    """v_h from steps around a key that only head h is on for, and its error."""
    d = face.box.dim
    signs = np.where(np.arange(len(keys)) == h, 1.0, -1.0)
    n = shortest(signs[:, None] * keys[:, 1:] / np.linalg.norm(keys, axis=1, keepdims=True))
    if n is None:
        return None
    length = float(np.linalg.norm(n))
    centre, step = room.unseen @ n / length, float(np.sqrt(d) / ACROSS / length)
    sent, y = face(np.vstack([centre, centre + step * random_rotation(d, rng)]) / (1 + step))
    v = np.linalg.lstsq(sent, y, rcond=None)[0]
    noise = SAFETY * np.sqrt(d) * face.box.oracle.roundoff * float(np.linalg.norm(v))
    return v, noise * (1 + step) / step


def with_values(room: Room, meters: list[IsolatedHead]) -> list[IsolatedHead]:
    """The meters for better values."""
    return [replace(meter, room=room) for meter in meters]
