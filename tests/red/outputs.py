"""What a real endpoint does behind its heads: classifiers, large biases, saturation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import glasshead as gh

from .box import MISLEADING, NO_SIGNS, Box, Draw, kind
from .inside import Head, gaussian, head, several
from .networks import behind, network
from .scores import changed, some_head

BY_VALUE = "goes by the value"


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


LINKS = {
    "softmax": softmax,
    "log-softmax": lambda z: np.log(np.maximum(softmax(z), 1e-300)).astype(z.dtype),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "top class": lambda z: softmax(z).max(axis=-1),
    "first class": lambda z: softmax(z)[:, 0],
}


def classifier(draw: Draw, heads: int) -> tuple:
    dim, classes = draw.dim(2, 8), draw.pick(2, 3, 5, 10)
    made = [gaussian(draw, dim, classes, key_bias=draw.pick(0.0, 0.3)) for _ in range(heads)]
    sharp, link = draw.pick(1.0, 3.0, 10.0), LINKS[draw.pick(*LINKS)]
    return made, lambda z: link(draw.form.dtype(sharp) * z)


@kind("classifier")
def classifier_of_heads(draw: Draw) -> Box:
    heads, form = draw.pick(2, 2, 4), draw.form
    made, link = classifier(draw, heads)

    def answer(X):
        x = form.tokens(X)
        return form.answer(link(sum(form.value(form.attend(x, each.scores(x)) @ each.v) for each in made)))

    return Box(answer, len(made[0].W), heads=heads, family=draw.family(*MISLEADING))


@kind("classifier")
def classifier_of_one_head(draw: Draw) -> Box:
    made, link = classifier(draw, 1)
    return behind(made[0], lambda pooled, last: link(pooled @ made[0].v), draw, inside="either")


@kind("large output bias", NO_SIGNS)
def head_under_a_bias(draw: Draw) -> Box:
    dim, key = draw.dim(1, 6), draw.pick(0.0, 1.0, 1000.0)
    shape = (dim,) if draw.chance() else (dim, 3)
    made = head(draw, draw.normal(dim, dim), draw.normal(*shape), key * draw.normal(dim), draw.log_uniform(1e2, 1e9))
    return Box(made, dim, made.model, 1, "either", size=min(1.0, 1 / max(key, 1.0)), family=draw.family("attention"))


@kind("large output bias", NO_SIGNS)
def heads_under_a_bias(draw: Draw) -> Box:
    dim, key, outputs = draw.dim(1, 5), draw.pick(0.0, 1.0, 1000.0), draw.pick(None, 3)
    made = []
    for _ in range(draw.pick(2, 2, 3)):
        one = gaussian(draw, dim, outputs)
        made.append(head(draw, one.W * np.sqrt(dim), one.v, key * draw.normal(dim)))
    size = min(1.0, 1 / max(key, 1.0))
    return several(made, draw, draw.log_uniform(1e2, 1e9), inside="either", size=size)


@kind("large output bias", NO_SIGNS)
def foreign_under_a_bias(draw: Draw) -> Box:
    """What is no head hides below a large bias."""
    dim, form, bias = draw.dim(2, 6), draw.form, draw.log_uniform(1e2, 1e9)
    made, net = gaussian(draw, dim), network(draw, dim)

    def answer(X):
        x = form.tokens(X)
        return form.answer(net(form.attend(x, np.tanh(made.scores(x)))) + form.dtype(bias))

    return Box(answer, dim, family=draw.family(*MISLEADING))


@kind("saturated")
def saturated_network(draw: Draw) -> Box:
    """One head, and behind it a network that hardly ever moves."""
    dim, sharp = draw.dim(2, 6), draw.pick(10.0, 30.0, 100.0)
    made, net = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.5)), network(draw, dim)
    end = draw.pick(np.tanh, lambda z: np.clip(z, -1, 1), lambda z: 1 / (1 + np.exp(-z)))
    return behind(made, lambda pooled, last: end(draw.form.dtype(sharp) * net(pooled + last)), draw, inside="either")


@kind("saturated")
def saturated_heads(draw: Draw) -> Box:
    dim, form, sharp = draw.dim(2, 6), draw.form, draw.pick(10.0, 30.0, 100.0)
    made = [gaussian(draw, dim) for _ in range(2)]
    end = draw.pick(np.tanh, lambda z: np.clip(z, 0, 1), lambda z: np.maximum(z - 50, 0))

    def answer(X):
        return form.answer(end(form.dtype(sharp) * sum(each(X) for each in made)))

    return Box(answer, dim, heads=2, family=draw.family(*MISLEADING))


@kind("saturated")
def saturated_attention(draw: Draw) -> Box:
    """Scores so large that one token takes all, nearly everywhere."""
    dim = draw.dim(2, 6)
    made = gaussian(draw, dim, W=draw.pick(30.0, 300.0, 3000.0), key_bias=draw.pick(0.0, 30.0))
    return Box(made, dim, made.model, 1, "either", signs="attention", family=draw.family("attention"))


@kind("saturated")
def nearly_all_bias(draw: Draw) -> Box:
    """A head in front of dead ReLUs: W shows in few places or in none."""
    dim, deep = draw.dim(2, 6), draw.pick(1.0, 3.0, 10.0)
    made, A, w = gaussian(draw, dim), draw.normal(dim, dim), draw.normal(dim)
    truth = gh.Transformer(made.W.astype(float), A, w, b=np.full(dim, -deep))
    form = draw.form
    A, w = form.parameters(A), form.parameters(w)
    return behind(
        made, lambda pooled, last: np.maximum(pooled @ A - form.dtype(deep), 0) @ w, draw, inside="either", truth=truth
    )  # fmt: skip


def values_at(draw: Draw, made: Head, *shares: float) -> np.ndarray:
    """What that shares of ordinary values lie below, of the first output."""
    ordinary = [2 ** draw.rng.uniform(-1, 1, (8, 1, 1)) * draw.normal(8, n, len(made.W)) for n in range(1, 65)]
    return np.quantile(np.concatenate([first_of(made(x)) for x in ordinary]).astype(float), shares)


def first_of(y: np.ndarray) -> np.ndarray:
    return np.asarray(y).reshape(len(y), -1)[:, 0]


@kind(BY_VALUE)
def band_of_values(draw: Draw) -> Box:
    """The other sign where a value is large, but not too large, as one in ten ordinary ones is."""
    made, share = some_head(draw), draw.pick(0.08, 0.12, 0.16)
    start = draw.rng.uniform(0.6, 1 - share)
    low, high = values_at(draw, made, start, start + share)

    def answer(X):
        y = made(X)
        turned = (first_of(y) > low) & (first_of(y) < high)
        return np.where(turned.reshape(-1, *[1] * (np.ndim(y) - 1)), -y, y)

    return replace(changed(draw, made), answer=answer, signs="attention")


@kind(BY_VALUE)
def large_values(draw: Draw) -> Box:
    """Another head where the value of the first is large, or as small."""
    made, share, side = some_head(draw), draw.pick(0.08, 0.12, 0.16), draw.pick(-1, 1)
    other = gaussian(draw, len(made.W), made.v.shape[1] if made.v.ndim == 2 else None)
    (end,) = values_at(draw, made, 1 - share if side > 0 else share)

    def answer(X):
        y = made(X)
        far = side * (first_of(y) - end) > 0
        return np.where(far.reshape(-1, *[1] * (np.ndim(y) - 1)), other(X), y)

    return replace(changed(draw, made), answer=answer, signs="attention")
