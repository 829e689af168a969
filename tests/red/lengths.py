"""Boxes that go by how long a sequence is, where nobody looks: lost or padded tails of tiles, and some lengths; and by
the size of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .box import MISLEADING, Box, Draw, kind
from .inside import Head, gaussian, several
from .layers import TORCH, attention_layer
from .networks import behind, network
from .scores import changed, some_head

BY_LENGTH, BY_SIZE = "goes by the length", "goes by the size of tokens"
TILES = ((8, 16), (8, 12), (4, 8), (16, 24), (2, 4), (4, 16), (8, 24), (16, 32))  # a tile, and from where on there are


def tiled(draw: Draw) -> Callable[[np.ndarray], np.ndarray]:
    """Sequences that fill no tile lose what is left over, or are padded with zeros or tokens of their own."""
    tile, after = draw.pick(*TILES)
    how = draw.pick("dropped", "padded", "doubled")

    def tokens(x: np.ndarray) -> np.ndarray:
        n = x.shape[1]
        if n <= after or n % tile == 0:
            return x
        if how == "dropped":
            return x[:, n % tile :]
        more = x[:, : tile - n % tile]
        return np.concatenate([np.zeros_like(more) if how == "padded" else more, x], axis=1)

    return tokens


def before(box: Box, tokens: Callable[[np.ndarray], np.ndarray]) -> Box:
    whole = box.answer

    def answer(X):
        return whole(tokens(np.asarray(X)))

    return replace(box, answer=answer, signs=None, truth=None, heads=None, inside="outside")


@kind(BY_LENGTH)
def tiles_of_a_head(draw: Draw) -> Box:
    return changed(draw, some_head(draw), tokens=tiled(draw))


@kind(BY_LENGTH)
def tiles_of_heads(draw: Draw) -> Box:
    dim = draw.dim(2, 5)
    outputs = draw.outputs(dim)
    return before(several([gaussian(draw, dim, outputs) for _ in range(2)], draw), tiled(draw))


@kind(BY_LENGTH)
def tiles_before_a_network(draw: Draw) -> Box:
    dim = draw.dim(2, 5)
    net = network(draw, dim, draw.outputs(dim))
    return before(behind(gaussian(draw, dim), lambda pooled, last: net(pooled + last), draw), tiled(draw))


@kind(BY_LENGTH, TORCH)
def tiles_of_a_layer(draw: Draw) -> Box:
    return before(attention_layer(draw, draw.pick(1, 2)), tiled(draw))


@kind(BY_LENGTH)
def tiles_of_one_output(draw: Draw) -> Box:
    made, tokens = gaussian(draw, draw.dim(2, 5), 2), tiled(draw)

    def answer(X):
        return np.stack([made(X)[:, 0], made(tokens(np.asarray(X)))[:, 1]], axis=1)

    return Box(answer, len(made.W), family=draw.family(*MISLEADING))


@kind(BY_LENGTH)
def some_lengths(draw: Draw) -> Box:
    """A twelfth to a third of all lengths, drawn at random."""
    made = some_head(draw)
    other = gaussian(draw, len(made.W))
    which = draw.rng.permutation(np.arange(5, 65))[: draw.pick(5, 8, 20)]
    return changed(draw, made, lambda s, x: other.scores(x) if x.shape[1] in which else s)


@kind(BY_SIZE)
def shell(draw: Draw) -> Box:
    """Scores of another head where tokens are of a size, as 10 to 20 in 100 ordinary sequences have it."""
    return by_size(draw, lambda x: np.mean(x**2, axis=(1, 2)))


@kind(BY_SIZE)
def shell_of_last(draw: Draw) -> Box:
    """The same where the last token is of a size."""
    return by_size_of_tokens(draw, lambda x: np.mean(x[:, -1] ** 2, axis=1))


@kind(BY_SIZE)
def shell_of_longest(draw: Draw) -> Box:
    """The same where the longest token is of a size."""
    return by_size_of_tokens(draw, lambda x: np.mean(x**2, axis=2).max(axis=1))


@kind(BY_SIZE)
def long_last(draw: Draw) -> Box:
    """The same where the last token is longer than those before it, or shorter."""
    made, share, side = some_head(draw, 3, 12), draw.pick(0.1, 0.15, 0.2), draw.pick(-1, 1)
    other = gaussian(draw, len(made.W))
    sample = draw.rng.standard_normal((2000, 30, len(made.W)))

    def ratio(x):
        return side * np.log(np.mean(x[:, -1] ** 2, axis=1) / np.mean(x[:, :-1] ** 2, axis=(1, 2)))

    least = np.quantile(ratio(sample), 1 - share)

    def scores(s, x):
        return np.where((ratio(x) > least)[:, None], other.scores(x), s) if x.shape[1] > 1 else s

    return changed(draw, made, scores)


def by_size(draw: Draw, square: Callable[[np.ndarray], np.ndarray]) -> Box:
    made, share = some_head(draw, 3, 12), draw.pick(0.1, 0.15, 0.2)
    other, low = gaussian(draw, len(made.W)), 2 ** draw.rng.uniform(-1, 1 - 2 * share)
    return between(draw, made, other, square, (low, low * 2 ** (2 * share)))


def by_size_of_tokens(draw: Draw, square: Callable[[np.ndarray], np.ndarray]) -> Box:
    """That of single tokens, which is spread wider than that of sequences."""
    made, share = some_head(draw, 3, 12), draw.pick(0.1, 0.15, 0.2)
    ordinary = [2 ** draw.rng.uniform(-1, 1, (8, 1, 1)) * draw.normal(8, n, len(made.W)) for n in range(1, 65)]
    start, other = draw.rng.uniform(0, 1 - share), gaussian(draw, len(made.W))
    ends = np.quantile(np.sqrt(np.concatenate([square(x) for x in ordinary])), [start, start + share])
    return between(draw, made, other, square, ends)


def between(draw: Draw, made: Head, other: Head, square: Callable[[np.ndarray], np.ndarray], ends: Sequence) -> Box:
    """Scores of another head where that is between such ends."""

    def scores(s, x):
        size = np.sqrt(square(x))
        inside = (size > ends[0]) & (size < ends[1])
        return np.where(inside[:, None], other.scores(x), s)

    return changed(draw, made, scores)
