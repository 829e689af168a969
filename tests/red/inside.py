"""Boxes that are what the library is for: one head, and sums of heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import glasshead as gh

from .box import NO_SIGNS, Box, Draw, kind
from .formats import Format


@dataclass(frozen=True)
class Head:
    """One head in some arithmetic. Its parts can be called alone, which is how other boxes are made of it."""

    form: Format
    W: np.ndarray
    v: np.ndarray
    key_bias: np.ndarray
    bias: np.ndarray

    def query(self, last):
        return self.form.value(last @ self.W.T + self.key_bias)

    def scores(self, x, query=None):
        return np.einsum("bnd,bd->bn", x, self.query(x[:, -1]) if query is None else query)

    def read(self, pooled):
        return self.form.answer(self.form.value(pooled @ self.v) + self.bias)

    def __call__(self, X):
        x = self.form.tokens(X)
        return self.read(self.form.attend(x, self.scores(x)))

    @property
    def model(self) -> gh.Attention:
        wide = [np.asarray(part, np.float64) for part in (self.W, self.v, self.key_bias, self.bias)]
        return gh.Attention(wide[0], wide[1], key_bias=wide[2] if wide[2].any() else None, bias=wide[3])


def head(draw: Draw, W, v, key_bias=None, bias=0.0) -> Head:
    form, W, v = draw.form, np.asarray(W, float), np.asarray(v, float)
    key_bias = np.zeros(len(W)) if key_bias is None else key_bias
    bias = np.broadcast_to(np.asarray(bias, float), v.shape[1:])
    return Head(form, *(form.parameters(part) for part in (W, v, key_bias, bias)))


def gaussian(draw: Draw, dim: int, outputs: int | None = None, *, W=1.0, key_bias=0.0, bias=0.0, rank=None) -> Head:
    """Scores of ordinary tokens are a few units, answers about one; `W`, `key_bias` and `bias` say how large."""
    matrix = draw.normal(dim, dim)
    if rank is not None:
        matrix = draw.normal(dim, rank) @ draw.normal(rank, dim) / np.sqrt(rank)
    shape = (dim,) if outputs is None else (dim, outputs)
    v = draw.normal(*shape) / np.sqrt(dim)
    kb = key_bias * draw.normal(dim)
    return head(draw, W * matrix / np.sqrt(dim), v, kb, bias * draw.normal(*shape[1:]))


def one(made: Head, draw: Draw, needs: int = 1, inside="family", **more) -> Box:
    vector = made.v.ndim == 2
    return Box(
        made, len(made.W), made.model, 1, inside, max(needs, 2) if vector else needs,
        signs=None if vector else "attention", family=draw.family("attention"), **more,
    )  # fmt: skip


@kind("plain head")
def plain(draw: Draw) -> Box:
    dim = draw.dim(1, 12, (16, 24))
    return one(gaussian(draw, dim, key_bias=draw.pick(0.0, 0.5), bias=draw.pick(0.0, 1.0)), draw)


@kind("plain head")
def low_rank(draw: Draw) -> Box:
    dim = draw.dim(5, 12, (16, 24))
    return one(gaussian(draw, dim, rank=draw.pick(1, 2, 3), key_bias=draw.pick(0.0, 0.3)), draw)


@kind("plain head")
def sparse_values(draw: Draw) -> Box:
    dim = draw.dim(2, 10)
    made = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.5))
    made.v[draw.rng.permutation(dim)[1 : 1 + dim // 2]] = 0
    return one(made, draw)


@kind("plain head")
def vector_head(draw: Draw) -> Box:
    dim = draw.dim(2, 8)
    outputs = draw.pick(1, 2, 3, dim, dim + 3)
    made = gaussian(draw, dim, outputs, key_bias=draw.pick(0.0, 0.5), bias=draw.pick(0.0, 1.0))
    return one(made, draw)


@kind("plain head")
def falling_spectrum(draw: Draw) -> Box:
    dim, last = draw.dim(3, 10), draw.log_uniform(1e-4, 1e-1)
    left, right = (np.linalg.qr(draw.normal(dim, dim))[0] for _ in range(2))
    return one(head(draw, left * np.geomspace(1, last, dim) @ right, draw.normal(dim)), draw)


@kind("plain head")
def whole_numbers(draw: Draw) -> Box:
    dim = draw.dim(2, 8)
    W, v = draw.rng.integers(-2, 3, (dim, dim)), draw.rng.integers(-3, 4, dim)
    v[0] += 7
    return one(head(draw, W, v), draw)


@kind("head at extremes")
def extreme(draw: Draw) -> Box:
    dim, v = draw.dim(1, 8), draw.log_uniform(1e-6, 1e6)
    made = gaussian(draw, dim, W=draw.log_uniform(1e-4, 300), key_bias=draw.pick(0, 0.1, 10.0))
    made = head(draw, made.W, v * made.v, made.key_bias, draw.pick(0.0, v, 10 * v))
    return one(made, draw, needs=3)


@kind("head at extremes")
def nilpotent(draw: Draw) -> Box:
    """W has one entry off the diagonal, and there is a small key bias."""
    dim = draw.dim(1, 5)
    W = np.zeros((dim, dim))
    W[0, draw.pick(0, -1)] = float(draw.normal(1)[0])
    v = np.ones(dim) if draw.chance() else draw.normal(dim)
    return one(head(draw, W, v, draw.pick(1e-3, 1.0) * draw.normal(dim)), draw, needs=3)


@kind("head with W = 0")
def mean(draw: Draw) -> Box:
    dim = draw.dim(1, 8)
    made = gaussian(draw, dim, draw.outputs(dim), W=0.0, bias=draw.pick(0.0, 1.0))
    return one(made, draw, needs=2)


@kind("head with W = 0")
def only_key_bias(draw: Draw) -> Box:
    dim = draw.dim(1, 8)
    made = gaussian(draw, dim, draw.outputs(dim), W=0.0, key_bias=draw.pick(0.3, 1.0), bias=draw.pick(0.0, 1.0))
    return one(made, draw, needs=2)


def several(made: list[Head], draw: Draw, bias=0.0, needs: int = 2, inside="family", **more) -> Box:
    """The sum of heads; their own biases are not used."""
    form, v = draw.form, made[0].v
    bias = form.parameters(np.broadcast_to(np.asarray(bias, float), v.shape[1:]))

    def answer(X):
        x = form.tokens(X)
        total = sum(form.value(form.attend(x, each.scores(x)) @ each.v) for each in made)
        return form.answer(form.value(total) + bias)

    truth = gh.MultiHead([each.model for each in made], bias=np.asarray(bias, np.float64))
    heads = len(gh.canonical(truth).heads)
    return Box(answer, len(made[0].W), truth, heads, inside, needs, family=draw.family("multi-head"), **more)


@kind("several heads, one output")
def sum_of_heads(draw: Draw) -> Box:
    dim, key_bias = draw.dim(3, 8), draw.pick(0.0, 0.3)
    rank = draw.pick(None, None, 1, 2)
    made = [gaussian(draw, dim, key_bias=key_bias, rank=rank) for _ in range(draw.pick(2, 2, 3, 4))]
    return several(made, draw, draw.pick(0.0, 1.0))


@kind("several heads, one output")
def one_faint_head(draw: Draw) -> Box:
    dim = draw.dim(2, 6)
    made = [gaussian(draw, dim), gaussian(draw, dim)]
    made[1].v[...] *= draw.log_uniform(1e-4, 1e-1)
    return several(made, draw, needs=3, inside="either" if draw.form.level < 3 else "family")


@kind("several heads, one output")
def head_and_mean(draw: Draw) -> Box:
    dim = draw.dim(2, 6)
    return several([gaussian(draw, dim), gaussian(draw, dim, W=0.0)], draw, draw.pick(0.0, 1.0))


@kind("several heads, one output")
def same_scores(draw: Draw) -> Box:
    """Two heads that score alike are one; a third makes it two."""
    dim = draw.dim(2, 6)
    made = [gaussian(draw, dim, key_bias=0.2) for _ in range(2)]
    made.append(head(draw, made[0].W, draw.normal(dim), made[0].key_bias))
    return several(made, draw)


@kind("several heads, many outputs", NO_SIGNS)
def layer_of_heads(draw: Draw) -> Box:
    """As in a real layer: each head has its own low rank for scores and for values."""
    heads = draw.pick(2, 2, 4)
    dim = heads * draw.pick(2, 3, 4)
    width, key_bias = dim // heads, draw.pick(0.0, 0.3)
    outputs, made = draw.pick(2, dim, dim, dim + 2), []
    for _ in range(heads):
        left, right = draw.normal(dim, width) / np.sqrt(dim), draw.normal(width, dim) / np.sqrt(width)
        values = draw.normal(dim, width) @ draw.normal(width, outputs) / np.sqrt(dim * width)
        made.append(head(draw, left @ right, values, key_bias * left @ draw.normal(width)))
    return several(made, draw, draw.pick(0.0, 1.0) * draw.normal(outputs))


@kind("several heads, many outputs", NO_SIGNS)
def full_heads(draw: Draw) -> Box:
    dim = draw.dim(2, 6)
    outputs, key_bias = draw.pick(2, 3, dim), draw.pick(0.0, 0.3)
    made = [gaussian(draw, dim, outputs, key_bias=key_bias) for _ in range(draw.pick(2, 3))]
    return several(made, draw, draw.pick(0.0, 1.0))


@kind("several heads with W = 0", NO_SIGNS)
def key_biases_only(draw: Draw) -> Box:
    dim, outputs = draw.dim(1, 4), draw.pick(None, 2, 2, 3)
    made = [gaussian(draw, dim, outputs, W=0.0, key_bias=1.0) for _ in range(draw.pick(2, 3, 4))]
    return several(made, draw, needs=3)


@kind("several heads with W = 0", NO_SIGNS)
def key_biases_and_a_head(draw: Draw) -> Box:
    dim, outputs = draw.dim(2, 5), draw.pick(None, 2, 3)
    made = [gaussian(draw, dim, outputs, W=0.0, key_bias=1.0) for _ in range(draw.pick(1, 2))]
    return several([*made, gaussian(draw, dim, outputs, key_bias=0.3)], draw, needs=3)
