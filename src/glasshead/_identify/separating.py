"""An input on which two models differ."""

from __future__ import annotations

import numpy as np

from .._errors import NotIdentifiable
from .._models import MultiHead
from .._types import Float
from .alike import SAME
from .equivalent import difference, differs
from .parts import comparable, length, parts
from .probes import one_row, three_rows, two_rows

CLEAR = 100.0  # times the rounding of the answers
BATCH = 256  # sequences whose keys are held at once


def separating_input(a, b, *, tol: float = SAME) -> Float[np.ndarray, "N d"] | None:
    """A sequence that `a` and `b` answer differently, as short as possible; None where `gh.equivalent(a, b)`.

    >>> head = gh.Attention.random(4, seed=1)
    >>> X = gh.separating_input(head, gh.Attention(head.W + 1e-6, head.v))
    >>> X.shape, bool(abs(head(X) - gh.Attention(head.W + 1e-6, head.v)(X)) > 1e-9)
    ((2, 4), True)

    Found from the parameters and checked by asking both, in float64: the answers differ by at least 100 times their
    rounding. Usually one or two rows do; heads with `W` and `-W` can need three (docs/identifiability.md).
    """
    first, second = parts(a), parts(b)
    if not comparable(first, second):
        raise ValueError(f"expected models with the same inputs and outputs, got {a!r} and {b!r}")
    left = difference(first, second, tol)
    if not differs(left):
        return None
    for ask in (one_row, two_rows, three_rows):
        candidates = ask(left)
        clear = clearness(first.model, second.model, candidates)
        if clear.max(initial=0.0) >= CLEAR:
            return candidates[clear.argmax()]
    raise NotIdentifiable(
        f"these models differ by more than tol = {tol}, but in float64 no answer was found that shows it; "
        "call it with a larger tol"
    )


def clearness(a: MultiHead, b: MultiHead, X: np.ndarray) -> np.ndarray:
    """By how much the answers differ, over how much they may be rounded."""
    apart = np.linalg.norm(a(X) - b(X), axis=1)
    batches = [X[start : start + BATCH] for start in range(0, len(X), BATCH)]
    size = np.array([bound for batch in batches for bound in rounding(a, batch) + rounding(b, batch)])
    return np.divide(apart, size, out=np.zeros(len(X)), where=size > 0)


def rounding(model: MultiHead, X: np.ndarray) -> np.ndarray:
    """For sequences whose tokens but the last are equal.

    Values are rounded in proportion to tokens and v. Weights w, by w (1 - w) in proportion to scores, but what they
    share out is only how far the other tokens lie from the last one.
    """
    tokens, spread = (np.linalg.norm(rows, axis=2).max(axis=1) for rows in (X, X - X[:, -1:]))
    keys = np.linalg.norm(model.keys_against(np.ascontiguousarray(X[:, -1])), axis=2)
    last = model.weights(X)[:, :, -1].T
    v = np.array([length(head.v) for head in model.heads])
    answers = v @ (tokens + spread * tokens * keys * 4 * last * (1 - last))
    return np.finfo(np.float64).eps * (answers + length(model.bias))
