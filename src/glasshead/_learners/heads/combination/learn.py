"""Heads from one combination of the outputs, then the values of all outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...._errors import AccuracyUnreachable, BudgetExceeded
from ...._learned import LearnedCombined, LearnedMultiHead, Promise
from ...._models import MultiHead
from ...._oracles import Oracle, Recorded
from .values import OutputSizes, ValueMaps, combined, generic_weights, promise_for_each, read_sizes, read_value_maps

LearnSum = Callable[..., LearnedMultiHead]

REFUSED_VALUES = 1e-3  # of an output's size: values further off are no recovery
NO_RANK = 8.0  # times the error to expect: a singular value below that is none


def learn_combined(
    oracle: Oracle, rng: np.random.Generator, rank: int | None, accuracy: float | None, learn_sum: LearnSum
) -> LearnedCombined:
    """Every head of a sum of them, from answers of k numbers, for what one number per answer would take, by
    `learn_sum(oracle, rng, rank, accuracy)`.

    `BudgetExceeded.known` then holds the `readout`: the v in it are `B_h @ readout`.
    """
    sizes = read_sizes(oracle, rng)
    record = Recorded(oracle)
    one = combined(record, generic_weights(sizes, oracle.tolerance, rng), sizes)
    try:
        learned = learn_sum(one, rng, rank, accuracy)
        maps = read_value_maps(learned.model, record, sizes, rng)
    except BudgetExceeded as error:
        error.known |= {"readout": one.weights}
        raise
    return accurate_values(with_value_maps(learned, maps, sizes, promise_for_each(one, sizes)), maps.error)


def with_value_maps(
    learned: LearnedMultiHead, maps: ValueMaps, sizes: OutputSizes, promise: Promise
) -> LearnedCombined:
    heads = [head.with_values(B) for head, B in zip(learned.model.heads, maps.B, strict=True)]
    size = sizes.each
    ranks = tuple(rank_of(B[:, size > 0] / size[size > 0], maps.error) for B in maps.B)
    said = f"{learned.words}, in one combination of all {len(size)} outputs"
    return LearnedCombined(
        model=MultiHead(heads, bias=sizes.bias),
        rank=learned.rank,
        found=f"{said}; values of each to about {maps.error:.0e}",
        accuracy=learned.accuracy,
        value_rank=ranks,
        promise=promise,
        garbage=tuple(bool(small) for small in size == 0),
    )


def rank_of(B: np.ndarray, error: float) -> int:
    """The rank of a value map whose outputs are all of size about 1."""
    return int(np.sum(np.linalg.svd(B, compute_uv=False) > NO_RANK * error * np.sqrt(B.size))) if B.size else 0


def accurate_values(found: LearnedCombined, error: float) -> LearnedCombined:
    if error > REFUSED_VALUES:
        raise AccuracyUnreachable(
            f"the heads were told apart, but their values would be off by up to {error:.1e} of an output's size, and "
            f"more than {REFUSED_VALUES:g} is no recovery: these answers say too little",
            found,
        )
    return found
