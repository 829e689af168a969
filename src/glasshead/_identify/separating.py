"""Sequences on which a sum of heads is not zero: candidates, aimed at the closest pairs of heads.

A sequence of `copies` times `z + q` and one `q` at the end is answered, up to q's own value, with the sum over heads of
`(z . v) sigma(s + log copies)`, `s = z . (W q + key_bias)`. Heads j and g that nearly cancel show themselves where
`z . v` is large and z lies along the difference of their keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._errors import NotIdentifiable
from .._models import Attention, MultiHead
from .._types import Float, no_type_check
from .canonical import DEFAULT_TOL, HeadSum, as_head_sum, comparable, length
from .equivalent import difference, is_nonzero, unit_score_length

QUERY_DIRECTIONS = 8  # directions q for each head
SCORE_SIZES = (1.0, 4.0, 16.0)  # |z| |key|; the score itself is smaller by the angle between them
TOKEN_LENGTHS = (1.0, 2.0**10)
HEADS_AIMED_AT = 32  # heads aimed at


def one_row_candidates(left: HeadSum) -> np.ndarray:
    """The bias, and tokens along which the sum of all v is longest."""
    total = sum((head.v for head in left.heads), np.zeros((left.dim, len(left.bias))))
    direction = main_direction(total) * unit_score_length(left.heads)
    tokens = [np.zeros(left.dim), *(sign * scale * direction for scale in TOKEN_LENGTHS for sign in (1, -1))]
    return np.array(tokens)[:, None]


def aimed_candidates(left: HeadSum, copies: int) -> np.ndarray:
    """So many copies of `z + q` before one q."""
    return np.array([[*[z + q] * copies, q] for z, q in aimed(left)]).reshape(-1, copies + 1, left.dim)


def aimed(left: HeadSum) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs `z, q` for each of the loudest heads."""
    rng = np.random.default_rng(0)
    heads = [Attention(head.W, head.v, key_bias=head.key_bias) for head in left.heads]  # without factors
    heads.sort(key=lambda head: -length(head.v))
    for head in heads[:HEADS_AIMED_AT]:
        yield from aimed_between(head, nearest(head, heads), rng)


def aimed_between(
    head: Attention, other: Attention, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    along = main_direction(head.v)
    for direction in rng.standard_normal((QUERY_DIRECTIONS, head.dim)):
        for size in query_lengths(head, other):
            q = direction * (size / np.linalg.norm(direction))
            keys = [one.W @ q + one.key_bias for one in (head, other)]
            longest = max(map(length, keys))
            if longest > 0:
                turned = keys[0] - keys[1]
                turned /= length(turned) or 1.0
                for z in (turned + along, turned - along):
                    yield from ((z * (score / longest), q) for score in SCORE_SIZES)


def query_lengths(head: Attention, other: Attention) -> list[float]:
    """Where W alone decides, where it is as strong as the key bias, and where the key bias decides."""
    W, key = (max(length(head.W), length(other.W)), max(length(head.key_bias), length(other.key_bias)))
    if W == 0:
        return [0.0]
    return [1 / np.sqrt(W), key / W, 0.0] if key > 0 else [1 / np.sqrt(W)]


def nearest(head: Attention, heads: list[Attention]) -> Attention:
    """The other head whose scores differ least, relative to both; itself negated where there is none."""
    others = [other for other in heads if other is not head]
    if not others:
        return Attention(-head.W, head.v, key_bias=-head.key_bias)
    return min(others, key=lambda other: scores_difference(head, other))


def scores_difference(a: Attention, b: Attention) -> float:
    W, key = length(a.W) + length(b.W), length(a.key_bias) + length(b.key_bias)
    return length(a.W - b.W) / (W or 1.0) + length(a.key_bias - b.key_bias) / (key or 1.0)


def main_direction(v: np.ndarray) -> np.ndarray:
    """The unit vector along which the columns of `v (d, k)` are longest together; zero for zero."""
    return np.linalg.svd(v, full_matrices=False)[0][:, 0] if np.any(v) else np.zeros(len(v))


CLEAR_OF_ROUNDING = 100.0  # times the rounding of the answers
SEQUENCES_AT_ONCE = 256  # sequences whose keys are held at once


@no_type_check
def separating_input(
    a: Attention | MultiHead, b: Attention | MultiHead, *, tol: float = DEFAULT_TOL
) -> Float[np.ndarray, "N d"] | None:
    """A sequence that `a` and `b` answer differently, as short as possible; None where `gh.equivalent(a, b)`.

    >>> head = gh.Attention.random(4, seed=1)
    >>> X = gh.separating_input(head, gh.Attention(head.W + 1e-6, head.v))
    >>> X.shape, bool(abs(head(X) - gh.Attention(head.W + 1e-6, head.v)(X)) > 1e-9)
    ((2, 4), True)

    Found from the parameters and checked by asking both, in float64: the answers differ by at least 100 times their
    rounding. Usually one or two rows do; heads with `W` and `-W` can need three (docs/identifiability.md).
    """
    first, second = as_head_sum(a), as_head_sum(b)
    if not comparable(first, second):
        raise ValueError(f"expected models with the same inputs and outputs, got {a!r} and {b!r}")
    left = difference(first, second, tol)
    if not is_nonzero(left):
        return None
    for copies in range(3):
        candidates = aimed_candidates(left, copies) if copies else one_row_candidates(left)
        clear = clearness(first.model, second.model, candidates)
        if clear.max(initial=0.0) >= CLEAR_OF_ROUNDING:
            return candidates[clear.argmax()]
    raise NotIdentifiable(
        f"these models differ by more than tol = {tol}, but in float64 no answer was found that shows it; "
        "call it with a larger tol"
    )


def clearness(a: MultiHead, b: MultiHead, X: np.ndarray) -> np.ndarray:
    """By how much the answers differ, over how much they may be rounded."""
    apart = np.linalg.norm(a(X) - b(X), axis=1)
    batches = [X[start : start + SEQUENCES_AT_ONCE] for start in range(0, len(X), SEQUENCES_AT_ONCE)]
    size = np.array([bound for batch in batches for bound in answer_rounding(a, batch) + answer_rounding(b, batch)])
    return np.divide(apart, size, out=np.zeros(len(X)), where=size > 0)


def answer_rounding(model: MultiHead, X: np.ndarray) -> np.ndarray:
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
