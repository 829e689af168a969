"""Laws that the signs of every attention head obey, checked with a handful of queries before the expensive ones."""

from __future__ import annotations

import numpy as np

from .._errors import Evidence, TargetMismatch
from .._meter.halfspace import Halfspace
from .._meter.lever import longest
from .._oracle import Oracle

EACH = 4  # queries for each law: a coin passes one law in 16 times


def check_sign_laws(oracle: Oracle, space: Halfspace, rng: np.random.Generator) -> None:
    """`oracle` is seen from an origin on the plane that `space` describes."""
    size = min(longest(oracle), max(1.0, space.shift)) / (2 * np.sqrt(oracle.dim))
    tokens = rng.standard_normal((EACH, 3, oracle.dim))
    tokens *= size / np.maximum(1.0, np.linalg.norm(tokens, axis=-1, keepdims=True) / (2 * np.sqrt(oracle.dim)))
    one = tokens[:, :1]
    side = one[:, 0] @ space.v
    sure = np.abs(side) > 2 * np.linalg.norm(one[:, 0], axis=1) * space.error + space.value_error(oracle, size)
    first, again = (np.asarray(oracle(one)) for _ in range(2))
    copies = np.asarray(oracle(np.repeat(one, 2, axis=1)))
    order, swapped = (np.asarray(oracle(tokens[:, rows])) for rows in ([0, 1, 2], [1, 0, 2]))
    laws = [
        ("the same query gets the same answer", one, first, again),
        (
            "one token alone is answered by the side of a plane that it is on",
            one,
            np.where(sure, side > 0, first),
            first,
        ),
        ("two copies of a token are answered like one", np.repeat(one, 2, axis=1), first, copies),
        ("the order of the other tokens does not matter", tokens, order, swapped),
    ]
    for law, queries, expected, got in laws:
        if np.any(expected != got):
            i = int(np.argmax(expected != got))
            say = ("no", "yes")
            evidence = Evidence(law, queries[i] + space.origin, f"expected {say[int(expected[i])]}", say[int(got[i])])
            raise TargetMismatch("the box is not a single attention head", evidence)
