"""All heads at once: the whole way from a box to every head.

First guesses of all pairs (k_h, v_h) at one query token come from a plane of keys, where heads are few, or from the
jumps of a circle, where they are many; the pairs are then solved for together, and must explain fresh answers. From
there on every column of every W is a small change of the pairs at another query token (`columns`), and three tokens
tell the sign of each pair (`orientation`). The first guess whose heads pass the held-out check is handed back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...._checks import check_heads_everywhere
from ...._errors import BudgetExceeded, GlassheadError, NotConverged, TargetMismatch
from ...._learned import LearnedMultiHead
from ...._limits import heads_left
from ...._linalg import random_rotation
from ...._meters import SumOfHeads, read_head_sum
from ...._models import Attention, MultiHead
from ...._oracles import Oracle
from ...._types import Float
from .columns import ColumnReader
from .even import EvenPart, allowed_misfit, find_even_part, read_around, read_misfit
from .jumps import find_pairs_by_jumps
from .orientation import Oriented, find_orientation
from .pairs import CONTRADICTED, FOLLOWED, PRECISE, Pairs, fitted_pairs
from .plane import Plane, find_heads_in, read_outside_plane

# A first guess: the even part at a query token, all pairs there, and the usual length of keys to ask about.
Start = tuple[EvenPart, Pairs, float]

PAIRS_SURPLUS = 1.25  # questions for each unknown, where all are solved for at once


def learn_joint(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None, before=None
) -> LearnedMultiHead | None:
    """All heads of a sum of them, whatever their values and however many there are in so few dimensions; `before` is
    what was known of bias and v before.

    None where there is nothing to be seen: no head prefers any token to another, whatever the lengths of tokens.
    """
    oracle.stage = "reading the sum of all v"
    box = read_head_sum(oracle, rng, before)
    try:
        return learn_from_starts(box, rng, rank, accuracy)
    except BudgetExceeded as error:
        error.known = {"bias": box.bias, "v_sum": box.total} | error.known
        raise


def learn_from_starts(
    box: SumOfHeads, rng: np.random.Generator, rank: int | None, accuracy: float | None
) -> LearnedMultiHead | None:
    """The heads of the first guess that explain fresh answers; else what went wrong with the first, or None if it saw
    nothing."""
    failed: list[GlassheadError | None] = []
    for find in (find_few_in_plane, find_few_in_plane, find_on_circle, find_in_plane):
        try:
            start = find(box, rng)
            if start is None:
                failed.append(None)
                continue
            found = learn_from_pairs(*start, rng, rank, accuracy)
            check = check_heads_everywhere(box.oracle, found, rng)
            if check.evidence is None:
                return replace(found, check=check)
            failed.append(NotConverged(f"heads that were found do not explain fresh answers ({check.evidence})"))
        except (NotConverged, TargetMismatch) as error:
            failed.append(error)
        except np.linalg.LinAlgError as error:  # what was taken for heads leaves a system that says nothing
            failed.append(NotConverged(f"heads that were found do not determine all others: {error}"))
    if failed[0] is None:
        return None
    raise failed[0]


def learn_from_pairs(
    even: EvenPart, pairs: Pairs, length: float, rng, rank: int | None, accuracy: float | None
) -> LearnedMultiHead:
    even.box.oracle.stage = f"solving for {len(pairs)} heads at once"
    pairs = refuse_empty(read_precise(even, pairs, length, rng))
    even.box.oracle.stage = f"reading W of {len(pairs)} heads at once"
    even.box.oracle.expect(heads_left(even.box.dim, len(pairs), rank))
    columns = ColumnReader(even, pairs, rng, rank)
    W = columns.read_all()
    even.box.oracle.stage = "telling which way heads are turned"
    return from_pairs(even, pairs, find_orientation(even, pairs, length, rng), W, columns.ranks, accuracy)


def read_precise(even: EvenPart, pairs: Pairs, length: float, rng: np.random.Generator) -> Pairs:
    """The pairs, solved for once more from keys in all directions where that helps; they explain fresh answers."""
    each = round(PAIRS_SURPLUS * even.box.dim) + 1
    for _ in range(2):
        if read_misfit(even, pairs, length, rng) <= PRECISE:
            return pairs
        pairs, _ = fitted_pairs(pairs, *read_around(even, pairs, length, each, rng), PRECISE)
    if read_misfit(even, pairs, length, rng) > CONTRADICTED + allowed_misfit(even, length):
        raise NotConverged("the heads that some keys show do not explain the others")
    return pairs


def refuse_empty(pairs: Pairs) -> Pairs:
    """The pairs, where each of them is a head: one without a key or a value is what a fit may end with elsewhere."""
    sizes = np.linalg.norm([pairs.K, pairs.V], axis=2)
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        raise NotConverged("some of the heads that explain the answers have no key or no value")
    return pairs


FEW_IN_PLANE, MOST_IN_PLANE = 7, 14  # heads, where guesses are quick, and where they still find what there is
USUAL_SCORE = 6.0  # the usual score that tells heads apart


def find_few_in_plane(box: SumOfHeads, rng: np.random.Generator) -> Start | None:
    """A first guess for few heads, which is quick."""
    return find_in_plane(box, rng, FEW_IN_PLANE)


def find_in_plane(box: SumOfHeads, rng: np.random.Generator, most: int = MOST_IN_PLANE) -> Start | None:
    """A first guess from a plane of keys; None where there is nothing to be seen at any length."""
    box.oracle.stage = "counting heads in a plane"
    found = find_even_part(box, rng)
    if found is None:
        return None
    even, length = found
    return even, find_from_plane(even, length, rng, most), length


def find_from_plane(
    even: EvenPart, length: float, rng: np.random.Generator, most: int, known: Pairs | None = None
) -> Pairs:
    """All heads, from those that keys of a random plane show."""
    frame = random_rotation(even.box.dim, rng)
    plane = Plane(even, frame[:2], length, rng)
    seen = None if known is None else Pairs(known.K @ plane.basis.T, known.V @ plane.basis.T)
    flat = find_heads_in(plane, allowed_misfit(even, length), most, seen)
    if flat is None or len(flat) == 0:  # none at all, where answers are lost in their errors
        raise NotConverged(f"no {most} heads explain the answers to keys of a plane")
    return read_outside_plane(plane, flat, frame[2:], allowed_misfit(even, length))


def find_on_circle(box: SumOfHeads, rng: np.random.Generator) -> Start:
    """A first guess from the jumps of a circle. Heads may hide from it, if few do: then a plane shows them as well."""
    if box.dim < 2:
        raise NotConverged("in dimension 1 there are no circles")
    even, pairs = find_pairs_by_jumps(box, rng)
    length = USUAL_SCORE * np.sqrt(box.dim) / float(np.median(np.linalg.norm(pairs.K, axis=1)))
    if read_misfit(even, pairs, length, rng) > CONTRADICTED + allowed_misfit(even, length):
        pairs = find_from_plane(even, length, rng, len(pairs) + FEW_IN_PLANE, pairs)
    return even, pairs, length


def from_pairs(
    even: EvenPart,
    pairs: Pairs,
    values: Oriented,
    W: Float[np.ndarray, "H d d"],
    ranks: list[int],
    accuracy: float | None,
) -> LearnedMultiHead:
    biases = pairs.K - W @ even.q
    size = np.linalg.norm(pairs.K, axis=1) + np.linalg.norm(W @ even.q, axis=1)
    biased = bool((np.linalg.norm(biases, axis=1) > FOLLOWED * size).any())
    heads, found = [], []
    for sign, V in ((1.0, values.positive), (-1.0, values.negative)):
        for h in np.flatnonzero(V.any(axis=1)):
            heads.append(Attention(sign * W[h], V[h], key_bias=sign * biases[h] if biased else None))
            found.append(ranks[h])
    if values.mean.any():
        heads.append(Attention(np.zeros_like(W[0]), values.mean))
        found.append(0)
    if not heads:
        raise NotConverged("none of the heads that explain the answers has a value")
    model = MultiHead(heads, bias=even.box.bias)
    return LearnedMultiHead(model=model, rank=tuple(found), found=sentence_together(model), accuracy=accuracy)


def sentence_together(model: MultiHead) -> str:
    biases = " and ".join(["key biases"] * model.has_key_bias + ["a bias"] * bool(np.any(model.bias))) or "no bias"
    heads = "1 head" if len(model.heads) == 1 else f"{len(model.heads)} heads"
    return f"{heads} with {biases}, solved for together, since they cannot be told apart one by one"
