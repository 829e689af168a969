"""From `[kappa W, key_bias]` in two factors to a head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...._errors import BudgetExceeded, NotConverged, TargetMismatch
from ...._learned import LearnedMultiHead
from ...._limits import still_needed
from ...._linalg import factored_svd
from ...._meters import Box, HeadValues, IsolatedHead, Room, isolated, make_room, open_box
from ...._models import Attention, MultiHead
from ...._oracles import Oracle
from ..saturated import NoSigns, best_circle, read_values, without_mean
from .columns import Part, read_part
from .refine import WORTH, check_expected, expected, refined, with_values
from .scales import Sizes, scaled
from .silence import complete

NOTHING = (
    1e4  # times the precision, of the largest singular value: what is left of a column that was the key bias alone
)


def head_from(left: np.ndarray, rows: np.ndarray, meter: IsolatedHead, v: np.ndarray) -> tuple[Attention, int]:
    """The head with `[kappa W, key_bias] = left @ rows`, and the rank of its W."""
    d = len(left)
    key_bias, Q = left @ rows[:, -1], rows[:, :-1] / meter.kappa
    floor = NOTHING * meter.oracle.roundoff
    U, s, Vt = factored_svd(Q, left.T)
    # The key bias is known no better than that, and W of a head that has nothing else is its error.
    faint = np.sqrt(meter.oracle.roundoff) * float(np.linalg.norm(key_bias)) / meter.kappa
    rank = int(np.sum(s > max(floor * s[0], faint))) if len(s) else 0
    tensors = {"v": v, "bias": np.zeros(())} | ({"key_bias": key_bias} if meter.biased else {})
    U, s, Vt = U[:, :rank], s[:rank], Vt[:rank]
    factors = {"K": (U * np.sqrt(s)).T, "Q": np.sqrt(s)[:, None] * Vt}
    scores = factors if 0 < 2 * rank < d else {"W": (U * s) @ Vt}
    return Attention.from_tensors(scores | tensors), rank


FAINT = 100.0  # times the usual error: a head that is known that much worse is worth a word
MEAN = "one that takes the mean of the tokens, as copies of very long keys show"
ATTEMPTS = 3  # two jumps may fall together on one circle; on the next they will not


def learn_multi_head(
    oracle: Oracle, rng: np.random.Generator, rank: int | None = None, accuracy: float | None = None, before=None
) -> LearnedMultiHead:
    """Every head of a sum of them, their number and ranks discovered, or the reason why not.

    Heads with equal W and key bias come out as one, silent ones not at all: what is found is the canonical form. It
    takes one query per free parameter and some hundred more per head. `rank` bounds every head's; `accuracy` is the
    largest `||W_hat - W||_F` that matters, `before` what was known of bias and v before.
    """
    known: dict = {}
    asked = oracle.queries
    try:
        return _learn(oracle, rng, rank, accuracy, known, before)
    except BudgetExceeded as error:
        least = still_needed(known, oracle.dim, len(error.known.get("b", ())))
        error.known = known
        error.needed = max(error.needed, least - (oracle.queries - asked))
        raise


def _learn(oracle: Oracle, rng, rank: int | None, accuracy: float | None, known: dict, before) -> LearnedMultiHead:
    if oracle.dim < 2:
        raise NotConverged("in dimension 1 all heads turn on at the same keys, so they cannot be told apart")
    oracle.stage = "reading the sum of all v"
    box = open_box(oracle, rng, before)
    known |= {"bias": box.bias, "v_sum": box.total}
    heads, failed = 0, None
    for _ in range(ATTEMPTS):
        try:
            circle, jumps = best_circle(box, rng)
            known["heads"] = len(jumps)
            box = without_mean(circle, jumps, rng)
            known |= {} if box.mean is None else {"mean": box.mean}
            values = read_values(box, circle, jumps, rng)
            if failed is not None and len(values) <= heads:
                break  # another circle shows no more heads: what was taken for one head is none
            heads = len(values)
            known |= {"v": values.v, "W": {}}
            return take_apart(box, values, rng, rank, accuracy, known)
        except (TargetMismatch, NoSigns) as error:
            failed = error
    assert failed is not None
    raise NotConverged(str(failed)) if isinstance(failed, NoSigns) else failed


def take_apart(
    box: Box, values: HeadValues, rng, rank: int | None, accuracy: float | None, known: dict
) -> LearnedMultiHead:
    if len(values) == 0:
        return mean_alone(box)
    box = replace(box, loud=loudness(box, values))
    room, meters = make_meters(box, values, rng)
    parts = []
    for h, meter in enumerate(meters):
        box.oracle.stage = f"reading W of head {h + 1} of {len(meters)}"
        parts.append(read_part(meter, rng, rank, accuracy))
        known["W"][h] = room.alone(h) @ (parts[h].U @ parts[h].R[:, :-1]) / parts[h].meter.kappa
    box.oracle.stage = "reading what lies along the others' values"
    factors = [complete(box, room, parts, h, rng, accuracy or 0.0) for h in range(len(parts))]
    return replace(assembled(box, room, parts, factors), accuracy=accuracy)


def loudness(box: Box, values: HeadValues) -> float:
    mean = 0.0 if box.mean is None else float(np.linalg.norm(box.mean))
    return float(np.hypot(np.linalg.norm(values.v), mean))


def make_meters(box: Box, values: HeadValues, rng: np.random.Generator) -> tuple[Room, list[IsolatedHead]]:
    """A meter for every head, at its scale; where it pays, after another look at the values."""
    room, sizes, meters = make_room(values), Sizes(1.0, 1.0), []
    for h in range(len(values)):
        box.oracle.stage = f"finding the scale of head {h + 1} of {len(values)}"
        meter, sizes = scaled(isolated(box, room, h, rng), sizes, rng)
        meters.append(meter)
    if len(values) > 1 and expected(room).max() > WORTH:
        room = make_room(refined(box, room, meters, rng))
        meters = with_values(room, meters)
    check_expected(box, room)
    return room, meters


def assembled(box: Box, room: Room, parts: list[Part], factors: list) -> LearnedMultiHead:
    made = [
        head_from(left, rows, part.meter, v)
        for (left, rows), part, v in zip(factors, parts, room.values.v, strict=True)
    ]
    heads, ranks = [head for head, _ in made], tuple(rank for _, rank in made)
    said = words(MultiHead(heads, bias=box.bias), ranks, room)
    if box.mean is not None:
        heads, ranks, said = [*heads, mean_head(box.mean)], (*ranks, 0), f"{said}, beside {MEAN}"
    return LearnedMultiHead(model=MultiHead(heads, bias=box.bias), rank=ranks, found=said)


def mean_alone(box: Box) -> LearnedMultiHead:
    """The box of one head that takes the mean: its v is the sum of all v, which is known best."""
    assert box.mean is not None
    model = MultiHead([mean_head(box.total + box.mean)], bias=box.bias)
    return LearnedMultiHead(model=model, rank=(0,), found=f"1 head, {MEAN}")


def mean_head(v: np.ndarray) -> Attention:
    return Attention(np.zeros((len(v), len(v))), v)


def words(model: MultiHead, ranks: tuple[int, ...], room: Room) -> str:
    heads = "1 head" if len(ranks) == 1 else f"{len(ranks)} heads"
    low, high = min(ranks), max(ranks)
    rank = f"rank {low}" if low == high else f"ranks {low} to {high}"
    biases = " and ".join(["key biases"] * model.has_key_bias + ["a bias"] * bool(np.any(model.bias))) or "no bias"
    worst = expected(room)
    faint = f", W of the faintest to about {worst.max():.0e} only" if worst.max() > FAINT * np.median(worst) else ""
    return f"{heads} of {rank} with {biases}, told apart by where very long keys turn each of them on{faint}"
