"""First guesses of all heads at one query token: from a plane of keys, or from the jumps of a circle of them."""

from __future__ import annotations

import numpy as np

from .._errors import NotConverged
from .._meter.frame import random_rotation
from .._multi.box import Box
from .fresh import WRONG, enough, off
from .lengths import suited
from .lift import lifted
from .pairs import Even, Pairs
from .plane import Plane, heads_in
from .zoom import from_jumps

FEW, MOST = 7, 14  # heads, where guesses are quick, and where they still find what there is
SCORES = 6.0  # the usual score that tells heads apart


def few_in_a_plane(box: Box, rng: np.random.Generator) -> tuple[Even, Pairs, float]:
    return in_a_plane(box, rng, FEW)


def in_a_plane(box: Box, rng: np.random.Generator, most: int = MOST) -> tuple[Even, Pairs, float]:
    box.oracle.stage = "counting heads in a plane"
    face, length = suited(box, rng)
    return face, from_plane(face, length, rng, most), length


def from_plane(face: Even, length: float, rng: np.random.Generator, most: int, known: Pairs | None = None) -> Pairs:
    """All heads, from those that keys of a random plane show."""
    frame = random_rotation(face.box.dim, rng)
    plane = Plane(face, frame[:2], length, rng)
    seen = None if known is None else Pairs(known.K @ plane.basis.T, known.V @ plane.basis.T)
    flat = heads_in(plane, enough(face, length), most, seen)
    if flat is None or len(flat) == 0:  # none at all, where answers are lost in their errors
        raise NotConverged(f"no {most} heads explain the answers to keys of a plane")
    return lifted(plane, flat, frame[2:], enough(face, length))


def on_a_circle(box: Box, rng: np.random.Generator) -> tuple[Even, Pairs, float]:
    """Heads may hide from a circle, if few do: then a plane shows them beside the others."""
    if box.dim < 2:
        raise NotConverged("in dimension 1 there are no circles")
    face, pairs = from_jumps(box, rng)
    length = SCORES * np.sqrt(box.dim) / float(np.median(np.linalg.norm(pairs.K, axis=1)))
    if off(face, pairs, length, rng) > WRONG + enough(face, length):
        pairs = from_plane(face, length, rng, len(pairs) + FEW, pairs)
    return face, pairs, length
