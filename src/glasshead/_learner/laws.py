"""Laws that every attention head obeys, checked with a handful of queries before the expensive ones."""

from __future__ import annotations

import numpy as np

from .._errors import Evidence, TargetMismatch
from .._meter.lever import longest
from .._meter.value import WEIGHT
from .._meter.values import Values
from .._oracle import Oracle
from .noise import notice
from .straight import STRAIGHT

ONE_TOKEN = "one token alone is answered by x.v + bias"
SAME, COPIES = "the same query gets the same answer", "two copies of a token are answered like one"
ORDER = "the order of the other tokens does not matter"
MIXED = "a mixture of two keys has the mixture of their logits"
ALL_HEADS = (SAME, COPIES, ORDER, STRAIGHT)  # however many of them there are
ANY_RANK = (WEIGHT, MIXED)  # laws of one head that are about one query token, where the rank of W plays no role
LOOSE = 1e-6  # of the values' size: these laws are about what the box is, not about its last digits


def law_token(oracle: Oracle, rng: np.random.Generator) -> np.ndarray:
    token = rng.standard_normal(oracle.dim)
    return token * min(1.0, longest(oracle)) / np.linalg.norm(token)


def check_laws(oracle: Oracle, values: Values, token: np.ndarray, first: np.ndarray, rng: np.random.Generator) -> None:
    """`first` is what the box answered to the one-row query `[token]`, before v was read."""
    length = float(np.linalg.norm(token))
    size = abs(values.bias) + float(np.linalg.norm(values.v)) * length
    predicted = values.bias_error(oracle) + np.sqrt(oracle.dim) * length * values.entry_error(oracle)
    allowed = 2 * values.promise(oracle, size) + predicted + LOOSE * size
    row = token[None]
    other, another = (law_token(oracle, rng) for _ in range(2))
    one, two, three = row, np.stack([token, token]), np.stack([other, another, token])
    again = float(values.of(oracle(one[None]))[0])
    earlier = float(values.of(first[None])[0])
    if oracle.exact:
        notice(oracle, values, one, earlier, again, size)
    copies = float(values.of(oracle(two[None]))[0])
    order, swapped = (float(y) for y in values.of(oracle(np.stack([three, three[[1, 0, 2]]]))))
    laws = [
        (SAME, one, earlier, again),
        (ONE_TOKEN, one, float(token @ values.v + values.bias), again),
        (COPIES, two, again, copies),
        (ORDER, three, order, swapped),
    ]
    for law, query, expected, got in laws:
        if abs(expected - got) > allowed:
            evidence = Evidence(law, query, f"expected {expected:.9g} within {allowed:.2g}", f"{got:.9g}")
            less = "" if oracle.exact else ", or its answers are less accurate than promised"
            raise TargetMismatch(f"the box is not a single attention head{less}", evidence)
