"""Boxes that are out of order: NaN, shapes, types, exceptions, numbers at the ends of what there is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .box import MISLEADING, Box, Draw, kind
from .inside import Head
from .scores import some_head

ONCE = ("float64/none", "float32/none", "float64/loose", "float64/norm")
NEVER = ("float64/none",)


def of(made: Head, answer, draw: Draw, **more) -> Box:
    return Box(answer, len(made.W), **({"family": draw.family(*MISLEADING)} | more))


@kind("NaN and infinity", ONCE)
def not_a_number(draw: Draw) -> Box:
    made, share, fresh = some_head(draw), draw.pick(1.0, 0.1, 0.01), np.random.default_rng(draw.rng.integers(2**31))
    value = draw.pick(np.nan, np.inf, -np.inf)

    def answer(X):
        y = made(X)
        y[fresh.random(len(y)) < share] = value
        return y

    return of(made, answer, draw)


@kind("NaN and infinity", ONCE)
def overflows(draw: Draw) -> Box:
    """NaN for long tokens, or for long sequences."""
    made, most, count = some_head(draw), draw.pick(10.0, 1e3, 1e5), draw.pick(None, 4, 16)

    def answer(X):
        y = made(X)
        y[np.abs(X).max(axis=(1, 2)) > most] = np.nan
        return y if count is None or X.shape[1] <= count else np.full_like(y, np.nan)

    return of(made, answer, draw)


@kind("NaN and infinity", ONCE)
def careless_softmax(draw: Draw) -> Box:
    """exp without taking the largest score away first: infinite over infinite for long tokens."""
    made, form = some_head(draw), draw.form

    def answer(X):
        x = form.tokens(X)
        w = np.exp(made.scores(x))
        return made.read(np.einsum("bn,bnd->bd", w / w.sum(axis=1, keepdims=True), x))

    vector = made.v.ndim == 2
    return of(made, answer, draw, truth=made.model, heads=1, inside="either", signs=None if vector else "attention")


SHAPES: dict[str, Callable] = {
    "no outputs": lambda y, X: np.zeros((len(X), 0)),
    "one number": lambda y, X: float(np.sum(y)),
    "a number too few": lambda y, X: y[:-1],
    "one for all": lambda y, X: y[:1],
    "one per token": lambda y, X: np.repeat(y[:, None], X.shape[1], axis=1),
    "three axes": lambda y, X: np.zeros((len(X), 2, 2)),
    "tokens as outputs": lambda y, X: np.zeros((len(X), X.shape[1])) + y.reshape(len(X), -1)[:, :1],
    "sometimes a column": lambda y, X: y.reshape(len(X), -1)[:, :1] if len(X) % 2 else y,
    "transposed": lambda y, X: np.stack([y.reshape(len(X), -1)[:, 0]] * 3),
    "nothing": lambda y, X: None,
    "words": lambda y, X: np.array(["yes"] * len(X)),
    "a list": lambda y, X: y.tolist(),
    "objects": lambda y, X: y.astype(object),
    "complex": lambda y, X: y + 0j,
    "bools": lambda y, X: y > 0,
    "whole numbers": lambda y, X: np.round(10 * y).astype(np.int64),
    "unsigned bytes": lambda y, X: np.clip(np.round(50 * y + 128), 0, 255).astype(np.uint8),
    "a dict": lambda y, X: {"logits": y},
    "a ragged list": lambda y, X: [[1.0] * (i % 2 + 1) for i in range(len(X))],
    "float128": lambda y, X: y.astype(np.longdouble),
}


@kind("shapes and types", ONCE)
def wrong_shape(draw: Draw) -> Box:
    made, shape = some_head(draw), SHAPES[draw.pick(*SHAPES)]
    return of(made, lambda X: shape(np.asarray(made(X)), X), draw)


@kind("shapes and types", ONCE)
def raises(draw: Draw) -> Box:
    made, after, calls = some_head(draw), draw.pick(0, 1, 5, 30), [0]
    error = draw.pick(RuntimeError, ValueError, KeyError, StopIteration, ZeroDivisionError, MemoryError, OSError)

    def answer(X):
        calls[0] += 1
        if calls[0] > after:
            raise error("the box is out of order")
        return made(X)

    return of(made, answer, draw)


@kind("shapes and types", ONCE)
def works_in_place(draw: Draw) -> Box:
    """Overwrites its question, or answers in an array that it uses again."""
    made, buffer, once = some_head(draw), np.zeros((100000, 64)), draw.chance()

    def answer(X):
        y = made(X)
        X *= 0
        if once or y.ndim == 2 or len(y) > len(buffer):
            return y
        out = buffer[: len(y), 0]
        out[:] = y
        return out

    return of(made, answer, draw, truth=made.model, heads=1, inside="either")


@kind("constants and labels")
def constant(draw: Draw) -> Box:
    dim, value, outputs = draw.dim(1, 6), draw.pick(0.0, 1.0, -0.25, 1e6), draw.pick(None, None, 3)
    shape = () if outputs is None or draw.scalar else (outputs,)
    return Box(
        lambda X: draw.form.answer(np.full((len(X), *shape), value, draw.form.dtype)), dim,
        family=draw.family(*MISLEADING),
    )  # fmt: skip


@kind("constants and labels")
def labels(draw: Draw) -> Box:
    made, levels = some_head(draw), draw.pick(1, 2, 5, 20)
    return of(made, lambda X: np.round(levels * made(X)) / levels, draw)


@kind("constants and labels")
def ratings(draw: Draw) -> Box:
    """From 1 to 5; some see positions, too."""
    made, slope, form = some_head(draw), draw.pick(0.0, 0.5), draw.form

    def answer(X):
        x = form.tokens(X)
        s = made.scores(x) + (slope * (np.arange(x.shape[1]) - x.shape[1] + 1)).astype(form.dtype)
        return np.clip(np.round(made.read(form.attend(x, s)) + 3), 1, 5)

    return of(made, answer, draw)


@kind("constants and labels")
def winner(draw: Draw) -> Box:
    """The number of the largest output."""
    dim = draw.dim(2, 6)
    v = draw.normal(3, dim, 4)
    made = some_head(draw, dim, dim)

    def answer(X):
        x = np.asarray(X, float)
        return (draw.form.attend(x, made.scores(x)) @ v[0]).argmax(axis=1).astype(draw.form.dtype)

    return Box(answer, len(made.W), family=draw.family(*MISLEADING)) if len(made.W) == dim else constant(draw)


@kind("ends of the numbers", NEVER)
def very_small_or_large(draw: Draw) -> Box:
    made, size = some_head(draw), draw.pick(1e-320, 1e-300, 1e-200, 1e-150, 1e150, 1e200, 1e300)
    return of(made, lambda X: size * made(X), draw, truth=None, heads=1, inside="either")


@kind("ends of the numbers", NEVER)
def very_small_or_large_scores(draw: Draw) -> Box:
    made, size, form = some_head(draw), draw.pick(1e-300, 1e-30, 1e-12, 1e12, 1e30, 1e300), draw.form

    def answer(X):
        x = form.tokens(X)
        return made.read(form.attend(x, np.clip(size * made.scores(x), -1e300, 1e300)))

    return of(made, answer, draw, heads=1, inside="either")


@kind("ends of the numbers", NEVER)
def hardly_any_room(draw: Draw) -> Box:
    made, longest = some_head(draw), draw.pick(1e-300, 1e-100, 1e-8, 1e-3, 0.1, 1e100, 1e300)
    return of(
        made, made, draw, truth=made.model, heads=1, inside="either", promise={"max_norm": longest},
        size=min(1.0, longest),
    )  # fmt: skip


@kind("ends of the numbers", NEVER)
def silly_promise(draw: Draw) -> Box:
    made = some_head(draw)
    promise = draw.pick(
        {"tolerance": 1e300}, {"tolerance": 1e-300}, {"rtol": 0.999}, {"rtol": 1e-300}, {"tolerance": 10.0},
        {"tolerance": 1.0, "rtol": 0.5, "max_norm": 1e-3},
    )  # fmt: skip
    return of(made, made, draw, truth=made.model, heads=1, inside="either", promise=promise)


@kind("ends of the numbers", NEVER)
def very_many_dimensions(draw: Draw) -> Box:
    dim = draw.pick(10**5, 10**7, 10**9)
    return Box(lambda X: X[:, :, 0].mean(axis=1), dim, inside="either")
