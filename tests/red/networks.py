"""One head in front of a network: ReLU transformers, and blocks of every make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import erf

import glasshead as gh

from .box import NO_SIGNS, Box, Draw, Scores, kind
from .inside import Head, gaussian

ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2).astype(x.dtype))).astype(x.dtype),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def layer_norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps).astype(x.dtype)


def rms_norm(x, eps=1e-5):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps).astype(x.dtype)


@dataclass(frozen=True)
class Network:
    """Layers with biases, an activation after each, and a read-out; `norm` comes first."""

    layers: list
    readout: np.ndarray
    act: Callable
    norm: Callable
    value: Callable

    def __call__(self, h):
        h = self.norm(h)
        for A, b in self.layers:
            h = self.value(self.act(self.value(h @ A) + b))
        return self.value(h @ self.readout)


def network(draw: Draw, dim: int, outputs: int | None = None, *, act=None, norm=None, depth=None) -> Network:
    form, widths = draw.form, [dim]
    for _ in range(depth or draw.pick(1, 1, 2)):
        widths.append(int(draw.rng.integers(dim, 3 * dim + 2)))
    layers = [
        (form.parameters(draw.normal(m, n) / np.sqrt(m)), form.parameters(0.3 * draw.normal(n)))
        for m, n in pairwise(widths)
    ]
    readout = draw.normal(*([widths[-1]] if outputs is None else [widths[-1], outputs]))
    norm = draw.pick(True, False) if norm is None else norm
    return Network(
        layers, form.parameters(readout), ACTIVATIONS[act or draw.pick(*ACTIVATIONS)],
        layer_norm if norm and dim > 2 else lambda x: x, form.value,
    )  # fmt: skip


def behind(made: Head, rest: Callable, draw: Draw, *, sees_last=True, inside="family", truth=None, tokens=None) -> Box:
    """`rest(pooled, last)` of one head; `tokens` comes before it."""
    form = draw.form

    def answer(X):
        x = form.tokens(X)
        seen = x if tokens is None else form.value(tokens(x))
        return form.answer(rest(form.attend(seen, made.scores(seen)), x[:, -1] if sees_last else None))

    truth = truth or Scores(np.asarray(made.W, float), np.asarray(made.key_bias, float))
    return Box(
        answer, len(made.W), truth, 1, inside, 2, signs="any-network", family=draw.family("any-network")
    )  # fmt: skip


@kind("ReLU transformer")
def relu_transformer(draw: Draw) -> Box:
    dim = draw.dim(2, 7)
    made, width = gaussian(draw, dim, rank=draw.pick(None, None, 2)), int(draw.rng.integers(1, 2 * dim + 1))
    A, w = (draw.form.parameters(part) for part in (draw.normal(dim, width), draw.normal(width)))

    def rest(pooled, last):
        return draw.form.value(np.maximum(draw.form.value(pooled @ A), 0)) @ w

    truth = gh.Transformer(*(np.asarray(part, np.float64) for part in (made.W, A, w)))
    return behind(made, rest, draw, truth=truth)


@kind("ReLU transformer")
def biased_relu_transformer(draw: Draw) -> Box:
    dim = draw.dim(2, 7)
    made, net = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.3)), network(draw, dim, act="relu", norm=False, depth=1)
    return behind(made, lambda pooled, last: net(pooled), draw)


@kind("any network")
def block(draw: Draw) -> Box:
    dim = draw.dim(3, 8, (12, 16))
    made = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.5), rank=draw.pick(None, None, 1, 2))
    net, mix = network(draw, dim, draw.outputs(dim)), draw.form.parameters(draw.normal(dim, dim) / np.sqrt(dim))
    return behind(made, lambda pooled, last: net(draw.form.value(pooled @ mix) + last), draw)


@kind("any network")
def network_of_the_head_alone(draw: Draw) -> Box:
    dim = draw.dim(2, 8)
    made, net = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.5)), network(draw, dim, draw.outputs(dim), norm=False)
    return behind(made, lambda pooled, last: net(pooled), draw)


@kind("any network")
def gated(draw: Draw) -> Box:
    """The last token decides how much of the head is let through."""
    dim = draw.dim(2, 6)
    made, gate = gaussian(draw, dim, draw.outputs(dim)), draw.form.parameters(draw.normal(dim))

    def rest(pooled, last):
        open_ = 1 / (1 + np.exp(-(last @ gate)))
        return draw.form.value(pooled @ made.v) * (open_ if made.v.ndim == 1 else open_[:, None])

    return behind(made, rest, draw)


@kind("any network")
def head_and_residual(draw: Draw) -> Box:
    dim = draw.dim(2, 8)
    made = gaussian(draw, dim, draw.outputs(dim))
    skip = draw.form.parameters(draw.normal(*made.v.shape))
    return behind(made, lambda pooled, last: draw.form.value(pooled @ made.v) + last @ skip, draw, inside="either")


def normalised(made: Head, tokens: str, rest: Callable, draw: Draw, inside="family") -> Box:
    dim = len(made.W)
    P = np.eye(dim) - (tokens == "layer") / dim
    W, key_bias = np.asarray(made.W, float), np.asarray(made.key_bias, float)
    truth = Scores(P @ W @ P, P @ key_bias, tokens)
    norm = layer_norm if tokens == "layer" else rms_norm
    return behind(made, rest, draw, truth=truth, tokens=norm, inside=inside)


@kind("any network, pre-norm")
def pre_norm_block(draw: Draw) -> Box:
    dim = draw.dim(4, 8)
    made, net = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.5)), network(draw, dim, draw.outputs(dim), norm=True)
    mix = draw.form.parameters(draw.normal(dim, dim) / np.sqrt(dim))

    def rest(pooled, last):
        return net(draw.form.value(pooled @ mix) + last)

    return normalised(made, draw.pick("layer", "rms"), rest, draw)


@kind("any network, pre-norm")
def pre_norm_head(draw: Draw) -> Box:
    dim = draw.dim(4, 8)
    made = gaussian(draw, dim, draw.outputs(dim), key_bias=draw.pick(0.0, 0.5))
    return normalised(
        made, draw.pick("layer", "rms"), lambda pooled, last: pooled @ made.v, draw, "either"
    )  # fmt: skip


BENDS = {
    "relu(head - 3)": lambda y: np.maximum(y - 3, 0),
    "relu(head)": lambda y: np.maximum(y, 0),
    "clip(head)": lambda y: np.clip(y, -2, 2),
    "tanh(head)": np.tanh,
    "head squared": lambda y: y**2,
    "sigmoid(head)": lambda y: 1 / (1 + np.exp(-y)),
    "exp(head)": lambda y: np.exp(np.clip(y, -30, 30)),
    "sin(head)": np.sin,
}


@kind("a function of one head")
def bent(draw: Draw) -> Box:
    dim = draw.dim(2, 8)
    made, bend = gaussian(draw, dim, draw.outputs(dim), key_bias=draw.pick(0.0, 0.5)), BENDS[draw.pick(*BENDS)]
    return behind(made, lambda pooled, last: bend(draw.form.value(pooled @ made.v)), draw, inside="either")


@kind("pooling without attention")
def mean_pooled_network(draw: Draw) -> Box:
    """A head whose W is 0, in front of a network."""
    dim = draw.dim(2, 8)
    made, net = gaussian(draw, dim, W=0.0), network(draw, dim, draw.outputs(dim))
    return behind(made, lambda pooled, last: net(pooled), draw, inside="either")


@kind("several heads behind a network", NO_SIGNS)
def heads_behind_a_network(draw: Draw) -> Box:
    heads, form = draw.pick(2, 2, 3, 4), draw.form
    dim = draw.dim(3, 8)
    made = [gaussian(draw, dim, key_bias=draw.pick(0.0, 0.3)) for _ in range(heads)]
    mixes = [form.parameters(draw.normal(dim, dim) / np.sqrt(dim)) for _ in made]
    net, residual = network(draw, dim, draw.pick(None, dim)), draw.chance()

    def answer(X):
        x = form.tokens(X)
        h = sum(form.value(form.attend(x, each.scores(x)) @ mix) for each, mix in zip(made, mixes, strict=True))
        return form.answer(net(h + x[:, -1] if residual else h))

    return Box(answer, dim, None, heads, family=draw.family("any-network", "multi-head", "attention"))


@kind("several heads behind a network")
def bent_sum_of_heads(draw: Draw) -> Box:
    heads, dim, form = draw.pick(2, 3), draw.dim(2, 8), draw.form
    outputs = draw.outputs(dim)
    made = [gaussian(draw, dim, outputs, key_bias=draw.pick(0.0, 0.3)) for _ in range(heads)]
    bend = BENDS[draw.pick("relu(head - 3)", "tanh(head)", "head squared", "sigmoid(head)", "relu(head)")]

    def answer(X):
        x = form.tokens(X)
        return form.answer(bend(sum(form.value(form.attend(x, each.scores(x)) @ each.v) for each in made)))

    return Box(answer, dim, None, heads, family=draw.family("any-network", "multi-head"))
