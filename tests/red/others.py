"""Attention of other kinds, and sequences read without attention."""

from __future__ import annotations

import numpy as np

from .box import MISLEADING, Box, Draw, kind
from .inside import Head, gaussian
from .networks import network
from .scores import some_head


def weighed(draw: Draw, made: Head, weights) -> Box:
    """A head whose weights are `weights(s, x)`, whatever they add up to."""
    form = draw.form

    def answer(X):
        x = form.tokens(X)
        w = form.weight(np.asarray(weights(form.score(made.scores(x)), x), form.dtype))
        return made.read(form.value(np.einsum("bn,bnd->bd", w, x)))

    return Box(answer, len(made.W), family=draw.family(*MISLEADING))


def over_sum(w):
    return w / np.maximum(w.sum(axis=1, keepdims=True), 1e-9)


@kind("attention of another kind")
def sigmoid_attention(draw: Draw) -> Box:
    law = draw.pick(lambda s: 1 / (1 + np.exp(-s)), lambda s: 1 / (1 + np.exp(-s)) / s.shape[1])
    return weighed(draw, some_head(draw), lambda s, x: law(s))


@kind("attention of another kind")
def normalised_sigmoid(draw: Draw) -> Box:
    return weighed(draw, some_head(draw), lambda s, x: over_sum(1 / (1 + np.exp(-s))))


@kind("attention of another kind")
def linear_attention(draw: Draw) -> Box:
    share = draw.pick(1.0, None)
    return weighed(draw, some_head(draw), lambda s, x: s / (share or s.shape[1]))


@kind("attention of another kind")
def feature_attention(draw: Draw) -> Box:
    """Linear attention with positive features."""
    made = some_head(draw)

    def positive(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    return weighed(
        draw, made,
        lambda s, x: over_sum(np.einsum("bnd,bd->bn", positive(x), positive(made.query(x[:, -1])))),
    )  # fmt: skip


@kind("attention of another kind")
def rectified_attention(draw: Draw) -> Box:
    power = draw.pick(1, 2)
    return weighed(draw, some_head(draw), lambda s, x: over_sum(np.maximum(s, 0) ** power + 1e-9))


@kind("attention of another kind")
def hard_attention(draw: Draw) -> Box:
    sharp = draw.pick(None, 50.0)

    def weights(s, x):
        top = s.max(axis=1, keepdims=True)
        return over_sum(1.0 * (s == top) if sharp is None else np.exp(sharp * (s - top)) * (s > top - 0.1))

    return weighed(draw, some_head(draw), weights)


@kind("attention of another kind")
def sparse_max(draw: Draw) -> Box:
    def weights(s, x):
        ordered = -np.sort(-s, axis=1)
        sums, count = np.cumsum(ordered, axis=1), np.arange(1, s.shape[1] + 1)
        support = (1 + count * ordered > sums).sum(axis=1)
        threshold = (np.take_along_axis(sums, support[:, None] - 1, axis=1)[:, 0] - 1) / support
        return np.maximum(s - threshold[:, None], 0)

    return weighed(draw, some_head(draw), weights)


@kind("attention of another kind")
def thresholded(draw: Draw) -> Box:
    """Small weights are cut away, and the rest made up for it or not."""
    least, full = draw.pick(0.01, 0.05, 0.1), draw.chance()

    def weights(s, x):
        w = np.exp(s - s.max(axis=1, keepdims=True))
        w = over_sum(w)
        w = np.where(w >= np.minimum(least, w.max(axis=1, keepdims=True)), w, 0)
        return over_sum(w) if full else w

    return weighed(draw, some_head(draw), weights)


@kind("attention of another kind")
def off_by_one(draw: Draw) -> Box:
    """A softmax that may also attend to nothing."""
    extra = draw.pick(0.1, 1.0)
    return weighed(draw, some_head(draw), lambda s, x: np.exp(s) / (extra + np.exp(s).sum(axis=1, keepdims=True)))


@kind("attention of another kind")
def power_law(draw: Draw) -> Box:
    return weighed(draw, some_head(draw), lambda s, x: over_sum((1 + np.maximum(s - s.min(1, keepdims=True), 0)) ** 2))


@kind("attention of another kind")
def smoothed_weights(draw: Draw) -> Box:
    """Part of the weight is spread evenly."""
    share = draw.pick(0.02, 0.1, 0.3)

    power = draw.pick(1.0, 1.1)  # with 1 it is two heads, one of them a mean

    def weights(s, x):
        w = over_sum(np.exp(s - s.max(axis=1, keepdims=True)))
        return (1 - share) * w**power + share / s.shape[1]

    return weighed(draw, some_head(draw), weights)


@kind("attention of another kind")
def bent_values(draw: Draw) -> Box:
    made, form, amount = some_head(draw), draw.form, draw.pick(0.1, 0.5)
    bend = draw.pick(np.tanh, np.abs, lambda x: x**2)

    def answer(X):
        x = form.tokens(X)
        return made.read(form.attend((x + amount * bend(x)).astype(form.dtype), made.scores(x)))

    return Box(answer, len(made.W), family=draw.family(*MISLEADING))


@kind("attention of another kind")
def additive_scores(draw: Draw) -> Box:
    made, form = some_head(draw), draw.form
    u = draw.normal(len(made.W))

    def answer(X):
        x = form.tokens(X)
        return made.read(form.attend(x, (np.tanh(x + made.query(x[:, -1])[:, None]) @ u).astype(form.dtype)))

    return Box(answer, len(made.W), family=draw.family(*MISLEADING))


@kind("attention of another kind")
def two_layers(draw: Draw) -> Box:
    dim, form = draw.dim(2, 6), draw.form
    made, under = gaussian(draw, dim, draw.outputs(dim)), gaussian(draw, dim)
    residual, causal = draw.chance(), draw.chance(0.3)

    def answer(X):
        x = form.tokens(X)
        s = np.einsum("bnd,bmd->bmn", x, under.query(x))
        s = np.where(np.tri(x.shape[1], dtype=bool), s, -np.inf) if causal else s
        mixed = form.value(np.einsum("bmn,bnd->bmd", form.softmax(s), x))
        x = mixed + x if residual else mixed
        return made.read(form.attend(x, made.scores(x)))

    return Box(answer, dim, family=draw.family(*MISLEADING))


@kind("attention of another kind")
def product_of_heads(draw: Draw) -> Box:
    dim, form = draw.dim(2, 6), draw.form
    one, two = gaussian(draw, dim, bias=1.0), gaussian(draw, dim, bias=1.0)
    return Box(lambda X: form.answer(one(X) * two(X)), dim, heads=2, family=draw.family(*MISLEADING))


@kind("attention of another kind")
def mixed_weights(draw: Draw) -> Box:
    """The root of the mean square of two heads' weights, read by one v."""
    dim = draw.dim(2, 6)
    made, other, share = gaussian(draw, dim), gaussian(draw, dim), draw.pick(0.05, 0.5)

    def weights(s, x):
        both = [over_sum(np.exp(t - t.max(axis=1, keepdims=True))) for t in (s, other.scores(x))]
        return np.sqrt(share * both[0] ** 2 + (1 - share) * both[1] ** 2)

    return weighed(draw, made, weights)


def pooled(draw: Draw, pool) -> Box:
    dim = draw.dim(2, 8)
    net, form = network(draw, dim, draw.outputs(dim)), draw.form
    return Box(lambda X: form.answer(net(form.value(pool(form.tokens(X))))), dim, family=draw.family(*MISLEADING))


@kind("pooling without attention")
def sum_pooled(draw: Draw) -> Box:
    return pooled(draw, lambda x: x.sum(axis=1) / draw.form.dtype(8))


@kind("pooling without attention")
def max_pooled(draw: Draw) -> Box:
    return pooled(draw, lambda x: x.max(axis=1))


@kind("pooling without attention")
def spread_pooled(draw: Draw) -> Box:
    return pooled(draw, lambda x: x.mean(axis=1) + x.std(axis=1))


@kind("pooling without attention")
def first_token(draw: Draw) -> Box:
    return pooled(draw, lambda x: x[:, 0])


@kind("pooling without attention")
def last_token(draw: Draw) -> Box:
    return pooled(draw, lambda x: x[:, -1])


@kind("pooling without attention")
def deep_sets(draw: Draw) -> Box:
    dim, form = draw.dim(2, 6), draw.form
    inner, outer = network(draw, dim, dim, norm=False), network(draw, dim, draw.outputs(dim), norm=False)
    return Box(lambda X: form.answer(outer(inner(form.tokens(X)).mean(axis=1))), dim, family=draw.family(*MISLEADING))


@kind("pooling without attention")
def linear_mean(draw: Draw) -> Box:
    """Linear in the tokens, with weights that fall with their distance from the end."""
    dim, form, decay = draw.dim(2, 6), draw.form, draw.pick(0.5, 0.9)
    v = form.parameters(draw.normal(dim))

    def answer(X):
        w = decay ** np.arange(X.shape[1])[::-1]
        return form.answer(np.einsum("n,bnd->bd", (w / w.sum()).astype(form.dtype), form.tokens(X)) @ v)

    return Box(answer, dim, family=draw.family(*MISLEADING))


@kind("pooling without attention")
def recurrent(draw: Draw) -> Box:
    dim, form = draw.dim(2, 5), draw.form
    A, B = (form.parameters(draw.normal(dim, dim) / np.sqrt(dim)) for _ in range(2))
    v = form.parameters(draw.normal(dim))

    def answer(X):
        x = form.tokens(X)
        state = np.zeros_like(x[:, 0])
        for n in range(x.shape[1]):
            state = form.value(np.tanh(state @ A + x[:, n] @ B))
        return form.answer(state @ v)

    return Box(answer, dim, family=draw.family(*MISLEADING))
