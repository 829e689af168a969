"""Heads that are left by 1%, 3% or 10% of the range of their answers, on at least a fifth of all inputs."""

from __future__ import annotations

import numpy as np

from .box import Box, Draw, kind
from .inside import gaussian
from .judge import FAINT, ordinary

ALMOST = ("float64/none", "float32/none", "float64/norm", "float64/rounded", "float64/loose", "float64/loose-rtol")
ALMOST += ("float32/norm", "bfloat16-answers/none", "float16-answers/none", "bfloat16-scores/none")
AMOUNTS = (1, 3, 10)


def other_head(draw, made):
    """Then it is two heads, which may be found."""
    other = gaussian(draw, len(made.W))
    return lambda X: np.asarray(other(X), float)


def region(draw, made):
    """Where the last token lies in a half-space or a shell, the mean of all tokens counts as well."""
    g, h = draw.normal(2, len(made.W))
    g, at, shell = g / np.linalg.norm(g), draw.pick(-0.5, 0.0, 0.5), draw.chance()

    def change(X):
        chosen = X[:, -1] @ g > at
        if shell:
            chosen = np.abs(np.linalg.norm(X[:, -1], axis=1) / np.sqrt(len(g)) - 1) < 0.3
        return chosen * np.cos(X.mean(axis=1) @ h)

    return change


def long_sequences(draw, made):
    after, v = draw.pick(8, 12, 16, 24, 40), draw.normal(len(made.W))
    return lambda X: (X.shape[1] > after) * np.cos(X.mean(axis=1) @ v)


def capped_scores(draw, made):
    """The difference that a cap on scores makes."""
    cap, wide = draw.pick(2.0, 5.0), [np.asarray(part, float) for part in (made.W, made.v, made.key_bias)]

    def change(X):
        s = np.einsum("bnd,bd->bn", X, X[:, -1] @ wide[0].T + wide[2])
        both = [np.exp(t - t.max(axis=1, keepdims=True)) for t in (cap * np.tanh(s / cap), s)]
        low, high = (np.einsum("bn,bnd->bd", w / w.sum(axis=1, keepdims=True), X) @ wide[1] for w in both)
        return low - high

    return change


def curved(draw, made):
    g = draw.normal(len(made.W))
    return lambda X: np.tanh(X.mean(axis=1) @ g) ** 3 + np.tanh(X[:, -1] @ g) ** 2


def order(draw, made):
    g = draw.normal(len(made.W))
    return lambda X: np.tanh(X[:, 0] @ g)


def ripple(draw, made):
    g, fast = draw.normal(len(made.W)), draw.pick(1.0, 5.0, 20.0)
    return lambda X: np.sin(fast * (X[:, -1] @ g)) * np.cos(X.mean(axis=1) @ g)


WAYS = (other_head, region, long_sequences, capped_scores, curved, order, ripple)


def left_by(draw: Draw, percent: int, way) -> Box:
    dim = draw.dim(2, 8, (12, 16))
    made = gaussian(draw, dim, key_bias=draw.pick(0.0, 0.0, 0.5))
    change = way(draw, made)
    sample = ordinary(dim, np.random.default_rng(0), each=6)
    amounts = np.abs(np.concatenate([np.broadcast_to(change(X), len(X)) for X in sample]))
    answers = np.concatenate([made(X) for X in sample])
    unit = np.quantile(amounts, 0.78) or amounts.max() or 1.0  # what is reached on a fifth of the inputs
    size = percent / 100 * float(np.ptp(answers)) / unit
    form = draw.form
    shows = percent / 100 > FAINT * form.unit
    return Box(
        lambda X: form.answer((made(X) + size * change(np.asarray(X, float))).astype(form.dtype)), dim,
        family=draw.family("attention"), heads=2 if way is other_head and shows else None,
    )  # fmt: skip


def register(percent: int, way) -> None:
    name = f"{way.__name__.replace('_', '-')}-{percent}%"
    kind(f"left by {percent}%", ALMOST, name)(lambda draw: left_by(draw, percent, way))


for amount in AMOUNTS:
    for each in WAYS:
        register(amount, each)
