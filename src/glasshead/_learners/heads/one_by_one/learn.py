"""Heads one by one: the whole way from a box to every head.

The jumps of a circle give the number of heads and their values (`saturated`), a meter for each its scale (`meters`),
isolated keys most of its matrix (`projection`), steered keys the rest (`steering`); two factors make a head. Where a
circle met two jumps as one the values contradict each other, or one head is none: then another circle is tried.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...._errors import BudgetExceeded, NotConverged, TargetMismatch
from ...._learned import LearnedMultiHead
from ...._limits import USUAL_SEVERAL, heads_left, information_limit
from ...._linalg import factored_svd
from ...._meters import HeadValues, IsolatedHead, SumOfHeads, ValueSpace, read_head_sum
from ...._models import Attention, MultiHead
from ...._oracles import Oracle
from ..saturated import NoSigns, find_circle, read_head_values, read_without_mean
from .meters import expected_error, find_meters
from .projection import ProjectedHead, read_projected
from .steering import read_completed

# Roundings of the largest singular value: what is left in W of a column that was the key bias alone.
BIAS_ALONE = 1e4


def head_from(left: np.ndarray, rows: np.ndarray, meter: IsolatedHead, v: np.ndarray) -> tuple[Attention, int]:
    """The head with `[kappa W, key_bias] = left @ rows`, and the rank of its W."""
    d = len(left)
    key_bias, Q = left @ rows[:, -1], rows[:, :-1] / meter.kappa
    floor = BIAS_ALONE * meter.oracle.roundoff
    U, s, Vt = factored_svd(Q, left.T)
    # The key bias is known no better than that, and W of a head that has nothing else is its error.
    faint = np.sqrt(meter.oracle.roundoff) * float(np.linalg.norm(key_bias)) / meter.kappa
    rank = int(np.sum(s > max(floor * s[0], faint))) if len(s) else 0
    tensors = {"v": v, "bias": np.zeros(())} | ({"key_bias": key_bias} if meter.biased else {})
    U, s, Vt = U[:, :rank], s[:rank], Vt[:rank]
    factors = {"K": (U * np.sqrt(s)).T, "Q": np.sqrt(s)[:, None] * Vt}
    scores = factors if 0 < 2 * rank < d else {"W": (U * s) @ Vt}
    return Attention.from_tensors(scores | tensors), rank


WORTH_A_WORD = 100.0  # times the usual error: a head that is known that much worse is worth a word
MEAN_WORDS = "one that takes the mean of the tokens, as copies of very long keys show"
CIRCLE_ATTEMPTS = 3  # two jumps may fall together on one circle; on the next they will not


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
        return learn_on_circles(oracle, rng, rank, accuracy, known, before)
    except BudgetExceeded as error:
        least = still_needed(known, oracle.dim, len(error.known.get("b", ())))
        error.known = known
        error.needed = max(error.needed, least - (oracle.queries - asked))
        raise


RANK_ROUNDED = 1e-9  # of its norm: W was made with so many columns, and its other singular values are rounding


def still_needed(known: dict, dim: int, columns: int = 0) -> int:
    """A lower estimate of all queries together: heads that were not counted yet may be only one, and those not looked
    at yet have the lowest rank of those that were, or 1. So many `columns` are known of the head being read."""
    matrices = known.get("W", {}).values()
    ranks = [int(np.linalg.matrix_rank(W, tol=RANK_ROUNDED * np.linalg.norm(W))) for W in matrices]
    begun = [columns - 1] * (columns > 1)  # one of them may be the key bias
    unseen = min(ranks or begun, default=1)
    ranks += begun
    ranks += [unseen] * (known.get("heads", 1) - len(ranks))
    return dim + 2 * dim * ("mean" in known) + sum(information_limit(dim, rank) + USUAL_SEVERAL for rank in ranks)


def learn_on_circles(
    oracle: Oracle, rng, rank: int | None, accuracy: float | None, known: dict, before
) -> LearnedMultiHead:
    if oracle.dim < 2:
        raise NotConverged("in dimension 1 all heads turn on at the same keys, so they cannot be told apart")
    oracle.stage = "reading the sum of all v"
    box = read_head_sum(oracle, rng, before)
    known |= {"bias": box.bias, "v_sum": box.total}
    heads, failed = 0, None
    for _ in range(CIRCLE_ATTEMPTS):
        try:
            circle, jumps = find_circle(box, rng)
            known["heads"] = len(jumps)
            box = read_without_mean(circle, jumps, rng)
            known |= {} if box.mean is None else {"mean": box.mean}
            values = read_head_values(box, circle, jumps, rng)
            if isinstance(values, NoSigns):
                failed = NotConverged(str(values))
                continue
            if failed is not None and len(values) <= heads:
                break  # another circle shows no more heads: what was taken for one head is none
            heads = len(values)
            known |= {"v": values.v, "W": {}}
            return learn_with_values(box, values, rng, rank, accuracy, known)
        except TargetMismatch as error:
            failed = error
    assert failed is not None
    raise failed


def learn_with_values(
    box: SumOfHeads, values: HeadValues, rng, rank: int | None, accuracy: float | None, known: dict
) -> LearnedMultiHead:
    if len(values) == 0:
        return mean_alone(box)
    box = replace(box, v_norm=values_norm(box, values))
    space, meters = find_meters(box, values, rng)
    parts = []
    for h, meter in enumerate(meters):
        box.oracle.stage = f"reading W of head {h + 1} of {len(meters)}"
        ranks = [len(part.R) for part in parts]
        box.oracle.expect(heads_left(box.dim, len(meters) - h, max(ranks, default=rank)))
        parts.append(read_projected(meter, rng, rank, accuracy))
        known["W"][h] = space.complement(h) @ (parts[h].U @ parts[h].R[:, :-1]) / parts[h].meter.kappa
    box.oracle.stage = "reading what lies along the others' values"
    factors = [read_completed(box, space, parts, h, rng, accuracy or 0.0) for h in range(len(parts))]
    return replace(from_factors(box, space, parts, factors), accuracy=accuracy)


def values_norm(box: SumOfHeads, values: HeadValues) -> float:
    mean = 0.0 if box.mean is None else float(np.linalg.norm(box.mean))
    return float(np.hypot(np.linalg.norm(values.v), mean))


def from_factors(box: SumOfHeads, space: ValueSpace, parts: list[ProjectedHead], factors: list) -> LearnedMultiHead:
    made = [
        head_from(left, rows, part.meter, v)
        for (left, rows), part, v in zip(factors, parts, space.values.v, strict=True)
    ]
    heads, ranks = [head for head, _ in made], tuple(rank for _, rank in made)
    said = sentence_alone(MultiHead(heads, bias=box.bias), ranks, space)
    if box.mean is not None:
        heads, ranks, said = [*heads, mean_head(box.mean)], (*ranks, 0), f"{said}, beside {MEAN_WORDS}"
    return LearnedMultiHead(model=MultiHead(heads, bias=box.bias), rank=ranks, found=said)


def mean_alone(box: SumOfHeads) -> LearnedMultiHead:
    """The box of one head that takes the mean: its v is the sum of all v, which is known best."""
    assert box.mean is not None
    model = MultiHead([mean_head(box.total + box.mean)], bias=box.bias)
    return LearnedMultiHead(model=model, rank=(0,), found=f"1 head, {MEAN_WORDS}")


def mean_head(v: np.ndarray) -> Attention:
    return Attention(np.zeros((len(v), len(v))), v)


def sentence_alone(model: MultiHead, ranks: tuple[int, ...], space: ValueSpace) -> str:
    heads = "1 head" if len(ranks) == 1 else f"{len(ranks)} heads"
    low, high = min(ranks), max(ranks)
    rank = f"rank {low}" if low == high else f"ranks {low} to {high}"
    biases = " and ".join(["key biases"] * model.has_key_bias + ["a bias"] * bool(np.any(model.bias))) or "no bias"
    worst = expected_error(space)
    faint = (
        f", W of the faintest to about {worst.max():.0e} only" if worst.max() > WORTH_A_WORD * np.median(worst) else ""
    )
    return f"{heads} of {rank} with {biases}, told apart by where very long keys turn each of them on{faint}"
