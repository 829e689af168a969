"""From keys at one query token and the columns of W to heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...._checks import check_heads_everywhere
from ...._errors import BudgetExceeded, GlassheadError, NotConverged, TargetMismatch
from ...._learned import LearnedMultiHead
from ...._meters import Box, open_box
from ...._models import Attention, MultiHead
from ...._oracles import Oracle
from ...._types import Float
from .columns import Columns
from .fit import Even, Pairs, fitted
from .plane import WRONG, enough, more, off
from .starts import few_in_a_plane, in_a_plane, on_a_circle
from .turns import Turned, turned

NOTHING = 1e-8  # of the key: a key bias, if there is none


def assembled(
    face: Even, pairs: Pairs, values: Turned, W: Float[np.ndarray, "H d d"], ranks: list[int], accuracy: float | None
) -> LearnedMultiHead:
    biases = pairs.K - W @ face.q
    size = np.linalg.norm(pairs.K, axis=1) + np.linalg.norm(W @ face.q, axis=1)
    biased = bool((np.linalg.norm(biases, axis=1) > NOTHING * size).any())
    heads, found = [], []
    for sign, V in ((1.0, values.ahead), (-1.0, values.back)):
        for h in np.flatnonzero(V.any(axis=1)):
            heads.append(Attention(sign * W[h], V[h], key_bias=sign * biases[h] if biased else None))
            found.append(ranks[h])
    if values.mean.any():
        heads.append(Attention(np.zeros_like(W[0]), values.mean))
        found.append(0)
    model = MultiHead(heads, bias=face.box.bias)
    return LearnedMultiHead(model=model, rank=tuple(found), found=words(model), accuracy=accuracy)


def words(model: MultiHead) -> str:
    biases = " and ".join(["key biases"] * model.has_key_bias + ["a bias"] * bool(np.any(model.bias))) or "no bias"
    heads = "1 head" if len(model.heads) == 1 else f"{len(model.heads)} heads"
    return f"{heads} with {biases}, solved for together, since they cannot be told apart one by one"


PRECISE = 1e-13  # of fresh answers: fine as it is
SURPLUS = 1.25  # questions for each unknown, where all are solved for at once


def learn_joint(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None, before=None
) -> LearnedMultiHead:
    """All heads of a sum of them, whatever their values and however many there are in so few dimensions; `before` is
    what was known of bias and v before."""
    oracle.stage = "reading the sum of all v"
    box = open_box(oracle, rng, before)
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
            check = check_heads_everywhere(box.oracle, found, rng)
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
