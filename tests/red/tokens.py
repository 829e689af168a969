"""Boxes that do something to tokens before a head sees them: coarse numbers, limits, padding, tokens of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import glasshead as gh

from .box import MISLEADING, NO_SIGNS, Box, Draw, kind
from .formats import bfloat16, float16, float32, grid
from .inside import Head, gaussian, one
from .networks import behind, network
from .scores import changed, some_head

COARSE, LIMITED, OWN = "tokens in coarse numbers", "tokens within limits", "tokens of the box's own"


def in_levels(x: np.ndarray, levels: int = 127) -> np.ndarray:
    """Each token in so many steps up to its own largest entry, as 8-bit activations are kept."""
    most = np.maximum(np.abs(x).max(axis=-1, keepdims=True), 1e-300)
    return np.round(x / most * levels) * most / levels


def rounding(draw: Draw) -> Callable[[np.ndarray], np.ndarray]:
    return draw.pick(bfloat16, float16, float32, in_levels, grid(2.0**-5), grid(2.0**-10))


def part_of(made: Head, draw: Draw) -> Box:
    """A head that is right or refused: what it does to tokens hardly shows in ordinary answers."""
    return replace(one(made, draw, inside="either"), truth=None, heads=None)


@kind(COARSE)
def coarse_tokens(draw: Draw) -> Box:
    """The head itself is exact."""
    made, rounded = some_head(draw), rounding(draw)
    return replace(part_of(made, draw), answer=lambda X: made(rounded(made.form.tokens(X))))


@kind(COARSE)
def coarse_keys(draw: Draw) -> Box:
    """What scores are made of is rounded, as a cache of keys is; values are not."""
    made, rounded = some_head(draw), rounding(draw)
    return changed(draw, made, lambda s, x: made.scores(rounded(x), made.query(x[:, -1])))


@kind(COARSE)
def coarse_values(draw: Draw) -> Box:
    made, rounded = some_head(draw), rounding(draw)

    def answer(X):
        x = made.form.tokens(X)
        return made.read(made.form.attend(np.asarray(rounded(x), made.form.dtype), made.scores(x)))

    return Box(answer, len(made.W), family=draw.family(*MISLEADING))


@kind(COARSE)
def coarse_before_a_network(draw: Draw) -> Box:
    dim = draw.dim(2, 5)
    net, rounded = network(draw, dim, draw.outputs(dim)), rounding(draw)
    whole = behind(gaussian(draw, dim), lambda pooled, last: net(pooled + last), draw)
    answer = whole.answer
    return replace(whole, answer=lambda X: answer(rounded(np.asarray(X, float))), truth=None, inside="outside")


@kind(LIMITED)
def clamped_entries(draw: Draw) -> Box:
    most = draw.pick(2.0, 4.0, 8.0, 30.0, 1000.0)
    return changed(draw, some_head(draw), tokens=lambda x: np.clip(x, -most, most))


@kind(LIMITED)
def scaled_back(draw: Draw) -> Box:
    """Tokens that are longer than allowed are made as long as that."""
    made = some_head(draw)
    most = draw.pick(1.5, 3.0, 10.0, 300.0) * np.sqrt(len(made.W))

    def shorter(x):
        return x * np.minimum(1.0, most / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300))

    return changed(draw, made, tokens=shorter)


@kind(LIMITED)
def squashed(draw: Draw) -> Box:
    most = draw.pick(3.0, 10.0, 100.0)
    return changed(draw, some_head(draw), tokens=lambda x: most * np.tanh(x / most))


@kind(LIMITED)
def nearest_of_a_vocabulary(draw: Draw) -> Box:
    """The nearest of some tokens is what it sees."""
    made = some_head(draw, 1, 4)
    words = 1.5 * draw.normal(draw.pick(50, 1000), len(made.W))

    def looked_up(x):
        far = np.sum(words**2, axis=1) - 2 * x @ words.T
        return words[far.argmin(axis=-1)]

    return changed(draw, made, tokens=looked_up)


@kind(LIMITED)
def short_tokens_left_out(draw: Draw) -> Box:
    """Zeros, or what is hardly more, are padding and not attended to, but for the last token."""
    made, least = some_head(draw), draw.pick(0.0, 1e-6, 0.1)

    def scores(s, x):
        away = np.linalg.norm(x, axis=-1) <= least
        away[:, -1] = False
        return np.where(away, -np.inf, s)

    return changed(draw, made, scores)


@kind(LIMITED)
def cut_at_zeros(draw: Draw) -> Box:
    """What stands before the last token of zeros is another text."""
    made = some_head(draw)

    def scores(s, x):
        zeros = ~np.any(x, axis=-1)
        zeros[:, -1] = False
        after = np.cumsum(zeros[:, ::-1], axis=1)[:, ::-1] > 0
        return np.where(after, -np.inf, s)

    return changed(draw, made, scores)


@kind(OWN)
def begins_with_its_own(draw: Draw) -> Box:
    """One to three fixed tokens in front of all others."""
    made, size = some_head(draw), draw.pick(0.1, 1.0, 3.0)
    own = size * draw.normal(draw.pick(1, 2, 3), len(made.W))
    return changed(draw, made, tokens=lambda x: np.concatenate([np.broadcast_to(own, (len(x), *own.shape)), x], axis=1))


@kind(OWN)
def ends_with_its_own(draw: Draw) -> Box:
    """The query is always the same token, which is attended to, or not."""
    made, seen = some_head(draw), draw.chance()
    own = draw.normal(len(made.W))

    def scores(s, x):
        out = s.copy()
        if not seen:
            out[:, -1] = -np.inf
        return out

    def tokens(x):
        return np.concatenate([x, np.broadcast_to(own, (len(x), 1, len(own)))], axis=1)

    return changed(draw, made, scores, tokens)


@kind(OWN)
def own_query(draw: Draw) -> Box:
    """Pooling by a learned query: a head whose W is 0, with a key bias, whatever the last token is."""
    dim = draw.dim(2, 8)
    made = gaussian(draw, dim, draw.outputs(dim), W=0.0, key_bias=draw.pick(0.3, 1.0, 3.0), bias=draw.pick(0.0, 1.0))
    return one(made, draw, needs=2)


@kind(OWN, NO_SIGNS)
def standardised(draw: Draw) -> Box:
    """Tokens less a mean, over deviations: a head, with biases."""
    made = gaussian(draw, draw.dim(2, 8), key_bias=draw.pick(0.0, 0.5))
    mean, scale = draw.normal(len(made.W)), np.exp(0.5 * draw.normal(len(made.W)))
    W, key_bias, v = (np.asarray(part, float) for part in (made.W, made.key_bias, made.v))
    truth = gh.Attention(
        W / np.outer(scale, scale),
        v / scale,
        key_bias=(key_bias - W @ (mean / scale)) / scale,
        bias=float(made.bias) - float(v @ (mean / scale)),
    )

    def answer(X):
        return made(((made.form.tokens(X) - mean) / scale).astype(made.form.dtype))

    return replace(one(made, draw, inside="either"), answer=answer, truth=truth)
