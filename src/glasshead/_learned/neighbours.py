"""Models around one that was found: as far from it as is left open, without attention, with one W moved; and how long
tokens should be to show its scores.

What they predict says how far off predictions may be, what attention does to answers, and which answers show a W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._models import Attention, MultiHead, Transformer

Scores = tuple[np.ndarray, np.ndarray]  # W and a key bias


def heads_of(model: Any) -> tuple[Any, ...]:
    """The heads of a model, itself if it is one."""
    return model.heads if isinstance(model, MultiHead) else (model,)


def suited_length(dim: int, W: float, key_bias: float) -> float:
    """The token length at which scores differ by a few units, so that the softmax is neither flat nor saturated.

    It solves `W size^2 + key_bias size = 2` in what Gaussian tokens over `2 sqrt(d)` see of either.
    """
    half = 2 * np.sqrt(dim)
    quadratic, linear = W / half**2, key_bias / half
    return float(4 / (linear + np.sqrt(linear**2 + 8 * quadratic)) if linear + quadratic > 0 else half)


def head_length(head: Any) -> float:
    """The token length suited to one head."""
    return suited_length(head.dim, head.W_norm, float(np.linalg.norm(head.key_bias)))


def moved(model: Any, scores: Callable[[int, Any], Scores]) -> Any:
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


def gaussian_like(x: np.ndarray, norm: float, rng: np.random.Generator) -> np.ndarray:
    """Of about that norm."""
    return np.asarray(norm / np.sqrt(x.size) * rng.standard_normal(x.shape))


def with_scores_off(
    model: Any, of_W: Callable[[Any], float], of_key_bias: Callable[[Any], float], rng: np.random.Generator
) -> Any:
    """The model with each W and key bias off by so much, in a random direction."""

    def scores(h: int, head: Any) -> Scores:
        W, key_bias = head.W, head.key_bias
        return W + gaussian_like(W, of_W(head), rng), key_bias + gaussian_like(key_bias, of_key_bias(head), rng)

    return moved(model, scores)


def with_share_off(model: Any, share: float, rng: np.random.Generator) -> Any:
    """The model with each W and key bias off by that share of it."""
    return with_scores_off(
        model, lambda head: share * head.W_norm, lambda head: share * float(np.linalg.norm(head.key_bias)), rng
    )


def with_one_off(model: Any, which: int, share: float, rng: np.random.Generator) -> Any:
    """The model with one head's W off by that share of it."""

    def scores(h: int, head: Any) -> Scores:
        return head.W + gaussian_like(head.W, share * head.W_norm * (h == which), rng), head.key_bias

    return moved(model, scores)


def flattened(model: Any) -> Any:
    """The model with attention that prefers no token."""
    return moved(model, lambda h, head: (np.zeros_like(head.W), np.zeros_like(head.key_bias)))


def largest_term(model: Any, x: np.ndarray) -> float:
    """The largest number that the answer to a sequence is made of."""
    if isinstance(model, Transformer):
        terms = np.abs(x @ model.A) @ np.abs(model.w)
        return float(terms.max() + np.abs(model.w) @ np.abs(model.b) + abs(float(model.c)))
    return sum(float(np.abs(x @ head.v).max()) for head in heads_of(model)) + float(np.abs(model.bias).max())
