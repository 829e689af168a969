"""Layers whose heads hide behind each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import glasshead as gh
from tests.multi.layers import changed, layer

Change = Callable[[gh.MultiHead], gh.MultiHead]


def scored(model: gh.MultiHead, h: int, factor: float, **others) -> gh.MultiHead:
    """The layer with the scores of its first head, times a factor, for head h."""
    first = model.heads[0]
    return changed(model, h, W=factor * first.W, key_bias=factor * first.key_bias, **others)


def all_parallel(model: gh.MultiHead) -> gh.MultiHead:
    for h, factor in zip(range(1, len(model.heads)), (2.0, -0.5, 1.5), strict=False):
        model = changed(model, h, v=factor * model.heads[0].v)
    return model


HIDDEN: dict[str, Change] = {
    "equal values": lambda m: changed(m, 1, v=m.heads[0].v),
    "opposite values": lambda m: changed(m, 1, v=-m.heads[0].v),
    "dependent values": lambda m: changed(m, 2, v=m.heads[0].v + m.heads[1].v),
    "all values parallel": all_parallel,
    "twice the scores": lambda m: scored(m, 1, 2.0),
    "opposite scores": lambda m: scored(m, 1, -1.0),
    "three times one direction": lambda m: scored(scored(m, 1, 2.0), 2, -0.6),
    "silent where they saturate": lambda m: scored(m, 1, 2.0, v=-m.heads[0].v),
    "a key that never changes": lambda m: changed(m, 1, W=0 * m.heads[1].W, v=m.heads[0].v),
    "the mean beside parallel values": lambda m: changed(scored(m, 1, 0.0), 2, v=m.heads[0].v),
}
SIZES = (8, 3, 2), (6, 4, 6), (16, 4, 4)


def hidden(name: str, size: tuple[int, int, int], seed: int = 0, biases: bool = True) -> gh.MultiHead:
    return HIDDEN[name](layer(*size, seed=seed, biases=biases))


def only_where_unsaturated(dim: int, seed: int = 0) -> gh.MultiHead:
    """Two heads that cancel for short and for very long tokens."""
    rng = np.random.default_rng(seed)
    W, v = rng.standard_normal((dim, dim)), rng.standard_normal(dim)
    return gh.MultiHead([gh.Attention(W, v), gh.Attention(2 * W, -v)])
