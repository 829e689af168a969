"""Sequences on which a sum of heads is not zero: candidates, aimed at the closest pairs of heads.

A sequence of `copies` times `z + q` and one `q` at the end is answered, up to q's own value, with the sum over heads of
`(z . v) sigma(s + log copies)`, `s = z . (W q + key_bias)`. Heads j and g that nearly cancel show themselves where
`z . v` is large and z lies along the difference of their keys.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._models import Attention
from .equivalent import token_length
from .parts import Parts, length

QUERIES = 8  # directions q for each head
SCORES = (1.0, 4.0, 16.0)  # |z| |key|; the score itself is smaller by the angle between them
LENGTHS = (1.0, 2.0**10)
MOST = 32  # heads aimed at


def one_row(left: Parts) -> np.ndarray:
    """The bias, and tokens along which the sum of all v is longest."""
    total = sum((head.v for head in left.heads), np.zeros((left.dim, len(left.bias))))
    direction = main_direction(total) * token_length(left.heads)
    tokens = [np.zeros(left.dim), *(sign * scale * direction for scale in LENGTHS for sign in (1, -1))]
    return np.array(tokens)[:, None]


def two_rows(left: Parts) -> np.ndarray:
    return np.array([[z + q, q] for z, q in aimed(left)]).reshape(-1, 2, left.dim)


def three_rows(left: Parts) -> np.ndarray:
    return np.array([[z + q, z + q, q] for z, q in aimed(left)]).reshape(-1, 3, left.dim)


def aimed(left: Parts) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs `z, q` for each of the loudest heads."""
    rng = np.random.default_rng(0)
    heads = sorted(map(whole, left.heads), key=lambda head: -length(head.v))
    for head in heads[:MOST]:
        yield from aimed_between(head, nearest(head, heads), rng)


def aimed_between(
    head: Attention, other: Attention, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    along = main_direction(head.v)
    for direction in rng.standard_normal((QUERIES, head.dim)):
        for size in query_lengths(head, other):
            q = direction * (size / np.linalg.norm(direction))
            keys = [one.W @ q + one.key_bias for one in (head, other)]
            longest = max(map(length, keys))
            if longest > 0:
                turned = unit(keys[0] - keys[1])
                for z in (turned + along, turned - along):
                    yield from ((z * (score / longest), q) for score in SCORES)


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
    return min(others, key=lambda other: apart(head, other))


def whole(head: Attention) -> Attention:
    return Attention(head.W, head.v, key_bias=head.key_bias)


def apart(a: Attention, b: Attention) -> float:
    W, key = length(a.W) + length(b.W), length(a.key_bias) + length(b.key_bias)
    return length(a.W - b.W) / (W or 1.0) + length(a.key_bias - b.key_bias) / (key or 1.0)


def main_direction(v: np.ndarray) -> np.ndarray:
    """The unit vector along which the columns of `v (d, k)` are longest together; zero for zero."""
    return np.linalg.svd(v, full_matrices=False)[0][:, 0] if np.any(v) else np.zeros(len(v))


def unit(x: np.ndarray) -> np.ndarray:
    return x / (length(x) or 1.0)
