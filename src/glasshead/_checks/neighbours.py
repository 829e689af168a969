"""Models around the one that was found: as far from it as its bounds leave open, without attention, with one W moved.

What they predict says how far off predictions may be, what attention does to answers, and which answers show a W.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._learned import Learned, LearnedFront, LearnedHead
from .._models import Attention, MultiHead, Transformer

Scores = tuple[np.ndarray, np.ndarray]  # W and a key bias


def heads_of(model) -> tuple:
    """The heads of a model, itself if it is one."""
    return model.heads if isinstance(model, MultiHead) else (model,)


def moved(model, scores: Callable[[int, Attention | Transformer], Scores]):
    """The model with another W and key bias for each of its heads."""

    def one(h: int, head: Attention) -> Attention:
        W, key_bias = scores(h, head)
        return Attention(W, v=head.v, key_bias=key_bias, bias=head.bias)

    if isinstance(model, MultiHead):
        return MultiHead([one(h, head) for h, head in enumerate(model.heads)], bias=model.bias)
    if isinstance(model, Transformer):
        W, key_bias = scores(0, model)
        return Transformer(W, A=model.A, w=model.w, b=model.b, c=model.c, key_bias=key_bias)
    return one(0, model)


def random_like(W: np.ndarray, norm: float, rng: np.random.Generator) -> np.ndarray:
    """Gaussian, of about that norm."""
    return np.asarray(norm / np.sqrt(W.size) * rng.standard_normal(W.shape))


def neighbour(learned: Learned, share: float, rng: np.random.Generator):
    """A model as far from the found one as its bounds leave open, or that share of each W, in a random direction."""
    model = learned.model

    def scores(h: int, head: Attention | Transformer) -> Scores:
        of_W, of_key = share * head.W_norm, share * float(np.linalg.norm(head.key_bias))
        if isinstance(learned, LearnedHead):
            of_W, of_key = learned.bound, learned.bound_key_bias
        return head.W + random_like(head.W, of_W, rng), head.key_bias + random_like(head.key_bias, of_key, rng)

    near = moved(model, scores)
    if not isinstance(learned, LearnedHead):
        return near
    v = near.v + random_like(near.v, learned.bound_v, rng)
    bias = near.bias + random_like(np.asarray(near.bias), learned.bound_bias, rng)
    return Attention(near.W, v=v, key_bias=near.key_bias, bias=bias)


def flattened(model):
    """The model with attention that prefers no token."""
    return moved(model, lambda h, head: (np.zeros_like(head.W), np.zeros_like(head.key_bias)))


def with_one_moved(model, which: int, share: float, rng: np.random.Generator):
    """The model with one head's W off by that share."""

    def scores(h: int, head: Attention | Transformer) -> Scores:
        return head.W + random_like(head.W, share * head.W_norm * (h == which), rng), head.key_bias

    return moved(model, scores)


def front_doubt(learned: LearnedFront, X: list[np.ndarray], want: np.ndarray) -> np.ndarray:
    """For a head with a black box behind it: as much of the range of answers as scores are typically off by, and the
    noise."""
    model, d = learned.model, learned.model.dim
    extent = float(np.ptp(want, axis=0).max())

    def score(x: np.ndarray) -> float:
        norms = np.linalg.norm(model.seen(x), axis=1)
        return float(norms.max() * (norms[-1] * learned.bound / d + learned.bound_key_bias / np.sqrt(d)))

    return np.array([min(1.0, score(x)) for x in X]) * extent + learned.noise


def magnitude(model, x: np.ndarray, answer: np.ndarray) -> float:
    """The largest number that the answer to a sequence is made of, as far as the model knows."""
    largest = float(np.abs(answer).max())
    if isinstance(model, Attention | MultiHead):
        values = sum(float(np.abs(x @ head.v).max()) for head in heads_of(model))
        return max(largest, values + float(np.abs(model.bias).max()))
    if isinstance(model, Transformer):
        terms = np.abs(x @ model.A) @ np.abs(model.w)
        return max(largest, float(terms.max() + np.abs(model.w) @ np.abs(model.b) + abs(float(model.c))))
    return largest
