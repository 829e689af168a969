"""Several heads at once, where they cannot be told apart one by one.

At one query token every head is a key and a value. They are found together, by least squares: in a plane of keys, where
guesses are cheap, then in all directions; or, where heads are many, from the jumps of very long keys. From there
columns of W follow one by one, since the keys change little from one query token to a near one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import BudgetExceeded, GlassheadError, NotConverged, TargetMismatch
from .._meter.frame import random_rotation
from .._multi.asleep import checked_heads
from .._multi.box import Box, open_box
from .._multi.learned import LearnedMultiHead
from .._oracle import Oracle
from .assemble import assembled
from .columns import Columns
from .fit import fitted
from .lengths import suited
from .lift import lifted, more
from .pairs import Even, Pairs
from .plane import Plane, heads_in
from .turns import turned
from .zoom import from_jumps

FEW, MOST = 7, 14  # heads, where guesses are quick, and where they still find what there is
FOUND = 1e-9  # of the largest answer: a set of heads that explains all but this is the right one
ERRORS = 30.0  # times the error of an answer, where that is more
FRESH = 2  # questions to check with, for each head and kind
PRECISE, WRONG = 1e-13, 1e-7  # of fresh answers: fine as it is; and another function
SURPLUS = 1.25  # questions for each unknown, where all are solved for at once
SCORES = 6.0  # the usual score that tells heads apart


def learn_joint(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None
) -> LearnedMultiHead:
    """All heads of a sum of them, whatever their values and however many there are in so few dimensions."""
    oracle.stage = "reading the sum of all v"
    box = open_box(oracle, rng)
    try:
        return first_that_fits(box, rng, rank, accuracy)
    except BudgetExceeded as error:
        error.known = {"bias": box.bias, "v_sum": box.total} | error.known
        raise


def first_that_fits(box: Box, rng: np.random.Generator, rank: int | None, accuracy: float | None) -> LearnedMultiHead:
    """The heads of the first start that explain fresh answers."""
    failed: GlassheadError | None = None
    for start in (few_in_a_plane, few_in_a_plane, on_a_circle, in_a_plane):
        try:
            found = learned(*start(box, rng), rng, rank, accuracy)
            check = checked_heads(box.oracle, found, rng)
            if check.evidence is None:
                return replace(found, check=check)
            failed = failed or NotConverged(f"heads that were found do not explain fresh answers ({check.evidence})")
        except (NotConverged, TargetMismatch) as error:
            failed = failed or error
        except np.linalg.LinAlgError as error:  # what was taken for heads leaves a system that says nothing
            failed = failed or NotConverged(f"heads that were found do not determine all others: {error}")
    assert failed is not None
    raise failed


def learned(face: Even, pairs: Pairs, length: float, rng, rank: int | None, accuracy: float | None) -> LearnedMultiHead:
    face.box.oracle.stage = f"solving for {len(pairs)} heads at once"
    pairs = real(precise(face, pairs, length, rng))
    face.box.oracle.stage = f"reading W of {len(pairs)} heads at once"
    columns = Columns(face, pairs, rng, rank)
    W = columns.all()
    face.box.oracle.stage = "telling which way heads are turned"
    return assembled(face, pairs, turned(face, pairs, length, rng), W, columns.ranks, accuracy)


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


def enough(face: Even, length: float) -> float:
    keys = length * np.eye(face.box.dim)[:1]
    return FOUND + ERRORS * float(face.noise(keys)[0]) / (length * face.loud)


def precise(face: Even, pairs: Pairs, length: float, rng: np.random.Generator) -> Pairs:
    """The pairs, solved for once more from keys in all directions where that helps; they explain fresh answers."""
    each = round(SURPLUS * face.box.dim) + 1
    for _ in range(2):
        if off(face, pairs, length, rng) <= PRECISE:
            return pairs
        pairs, _ = fitted(pairs, *more(face, pairs, length, each, rng), PRECISE)
    if off(face, pairs, length, rng) > WRONG + enough(face, length):
        raise NotConverged("the heads that some keys show do not explain the others")
    return pairs


def real(pairs: Pairs) -> Pairs:
    """The pairs, where each of them is a head: one without a key or a value is what a fit may end with elsewhere."""
    sizes = np.linalg.norm([pairs.K, pairs.V], axis=2)
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        raise NotConverged("some of the heads that explain the answers have no key or no value")
    return pairs


def off(face: Even, pairs: Pairs, length: float, rng: np.random.Generator) -> float:
    Z, y, weight = more(face, pairs, length, FRESH, rng)
    return float(np.abs(weight * (y - pairs(Z))).max())
