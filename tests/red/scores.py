"""Boxes with a head inside that scores otherwise: windows, clipped and routed scores, positions, temperatures."""

from __future__ import annotations

import numpy as np

from .box import MISLEADING, Box, Draw, kind
from .inside import Head, gaussian


def changed(draw: Draw, made: Head, scores=None, tokens=None, **more) -> Box:
    """A head with other scores, `scores(s, x)`, or other tokens, `tokens(x)`."""
    form = draw.form

    def answer(X):
        x = form.tokens(X)
        x = x if tokens is None else np.asarray(tokens(x), form.dtype)
        s = made.scores(x)
        return made.read(form.attend(x, s if scores is None else np.asarray(scores(s, x), form.dtype)))

    return Box(answer, len(made.W), **({"family": draw.family(*MISLEADING)} | more))


def some_head(draw: Draw, low=2, high=8) -> Head:
    dim = draw.dim(low, high, (12, 16))
    return gaussian(draw, dim, draw.outputs(dim), key_bias=draw.pick(0.0, 0.0, 0.5), bias=draw.pick(0.0, 0.0, 1.0))


def longest(draw: Draw) -> int:
    return draw.pick(2, 4, 6, 8, 9, 12, 16, 24, 32)


@kind("window or truncation")
def last_tokens(draw: Draw) -> Box:
    count = longest(draw)
    return changed(draw, some_head(draw), tokens=lambda x: x[:, -count:])


@kind("window or truncation")
def first_tokens(draw: Draw) -> Box:
    """Cut after so many; the query is the last that is left, or the true last one."""
    count, keep = longest(draw), draw.chance()

    def cut(x):
        return x if x.shape[1] <= count else np.concatenate([x[:, : count - keep], x[:, -1:][:, :keep]], axis=1)

    return changed(draw, some_head(draw), tokens=cut)


@kind("window or truncation")
def middle_left_out(draw: Draw) -> Box:
    count = longest(draw)
    return changed(
        draw, some_head(draw),
        tokens=lambda x: x if x.shape[1] <= count else np.concatenate([x[:, :1], x[:, 1 - count :]], axis=1),
    )  # fmt: skip


@kind("window or truncation")
def every_other_token(draw: Draw) -> Box:
    count = longest(draw)
    return changed(draw, some_head(draw), tokens=lambda x: x if x.shape[1] <= count else x[:, ::-2][:, ::-1])


@kind("window or truncation")
def best_tokens(draw: Draw) -> Box:
    """Only the highest scores count."""
    count = longest(draw)

    def top(s, x):
        return s if s.shape[1] <= count else np.where(s >= np.sort(s, axis=1)[:, [-count]], s, -np.inf)

    return changed(draw, some_head(draw), top)


@kind("clipped scores")
def clipped(draw: Draw) -> Box:
    most = draw.pick(1.0, 2.0, 3.0, 5.0, 10.0)
    return changed(draw, some_head(draw, 4, 12), lambda s, x: np.clip(s, -most, most))


@kind("clipped scores")
def clipped_below(draw: Draw) -> Box:
    least = draw.pick(-1.0, -3.0, -6.0)
    return changed(draw, some_head(draw, 4, 12), lambda s, x: np.maximum(s, least))


@kind("clipped scores")
def soft_capped(draw: Draw) -> Box:
    cap = draw.pick(2.0, 5.0, 10.0, 30.0, 50.0)
    return changed(draw, some_head(draw, 4, 12), lambda s, x: cap * np.tanh(s / cap))


@kind("clipped scores")
def stepped(draw: Draw) -> Box:
    step = draw.pick(0.1, 0.5, 1.0)
    return changed(draw, some_head(draw), lambda s, x: np.round(s / step) * step)


@kind("clipped scores")
def bent_scores(draw: Draw) -> Box:
    """Steeper or flatter for high scores."""
    at, slope = draw.pick(1.0, 2.0, 4.0), draw.pick(0.5, 0.8, 1.5)
    return changed(draw, some_head(draw), lambda s, x: np.where(s > at, at + slope * (s - at), s))


@kind("temperature of the length")
def scaled_by_length(draw: Draw) -> Box:
    law = draw.pick(
        lambda n: 1 / np.sqrt(n), lambda n: max(1.0, np.log(n) / np.log(8)), lambda n: 1 + 0.1 * np.log(n),
        lambda n: 1.0 if n <= 8 else 0.5, lambda n: 1.0 if n <= 16 else 1.5, lambda n: 1 / n,
    )  # fmt: skip
    return changed(draw, some_head(draw), lambda s, x: s * law(x.shape[1]))


@kind("temperature of the length")
def scaled_by_tokens(draw: Draw) -> Box:
    """The temperature depends on how long the tokens are, or on how far scores lie apart."""
    if draw.chance():
        return changed(draw, some_head(draw), lambda s, x: s / (1 + np.abs(x).mean(axis=(1, 2)))[:, None])
    return changed(draw, some_head(draw), lambda s, x: s / (1 + 0.3 * s.std(axis=1, keepdims=True)))


def routed(draw: Draw, chosen) -> Box:
    """Another W where `chosen(last)`."""
    made = some_head(draw, 2, 10)
    other = gaussian(draw, len(made.W))
    amount = draw.pick(1.0, 1.0, 0.3)

    def scores(s, x):
        share = amount * np.asarray(chosen(x[:, -1]), float)[:, None]
        return (1 - share) * s + share * other.scores(x)

    return changed(draw, made, scores)


@kind("routed on the last token")
def half_space(draw: Draw) -> Box:
    state = draw.rng.integers(2**31)
    at = draw.pick(0.0, 0.0, 0.5, 1.0)

    def chosen(last):
        g = np.random.default_rng(state).standard_normal(last.shape[1])
        return last @ (g / np.linalg.norm(g)) > at

    return routed(draw, chosen)


@kind("routed on the last token")
def by_length_of_the_last(draw: Draw) -> Box:
    at = draw.pick(0.7, 1.0, 1.2)
    return routed(draw, lambda last: np.linalg.norm(last, axis=1) > at * np.sqrt(last.shape[1]))


@kind("routed on the last token")
def by_one_entry(draw: Draw) -> Box:
    low = draw.pick(-0.5, 0.0, 0.3)
    return routed(draw, lambda last: (last[:, 0] > low) & (last[:, 0] < low + 1.5))


@kind("routed on the last token")
def by_largest_entry(draw: Draw) -> Box:
    return routed(draw, lambda last: np.abs(last).argmax(axis=1) == 0)


@kind("routed on the last token")
def smooth_gate(draw: Draw) -> Box:
    steep = draw.pick(1.0, 4.0)
    return routed(draw, lambda last: 1 / (1 + np.exp(-steep * last[:, 0])))


def bent_query(draw: Draw, bend) -> Box:
    made, form = some_head(draw), draw.form
    return changed(draw, made, lambda s, x: made.scores(x, made.query(form.value(bend(x[:, -1]).astype(form.dtype)))))


@kind("query that is not linear")
def tanh_query(draw: Draw) -> Box:
    return bent_query(draw, np.tanh)


@kind("query that is not linear")
def unit_query(draw: Draw) -> Box:
    return bent_query(draw, lambda q: q / np.maximum(np.linalg.norm(q, axis=1, keepdims=True), 1e-9))


@kind("query that is not linear")
def rectified_query(draw: Draw) -> Box:
    slope = draw.pick(0.0, 0.3, 0.8)
    return bent_query(draw, lambda q: np.where(q > 0, q, slope * q))


@kind("query that is not linear")
def curved_query(draw: Draw) -> Box:
    amount, power = draw.pick(0.1, 0.3, 1.0), draw.pick(2, 3)
    return bent_query(draw, lambda q: q + amount * q**power)


@kind("keys that are not linear")
def bent_keys(draw: Draw) -> Box:
    made, bend = some_head(draw), draw.pick(np.tanh, lambda x: np.where(x > 0, x, 0.3 * x), lambda x: x + 0.2 * x**2)
    return changed(draw, made, lambda s, x: np.einsum("bnd,bd->bn", bend(x), made.query(x[:, -1])))


@kind("keys that are not linear")
def cosine_scores(draw: Draw) -> Box:
    made, sharp = some_head(draw), draw.pick(1.0, 5.0)

    def scores(s, x):
        query = made.query(x[:, -1])
        size = np.linalg.norm(x, axis=-1) * np.linalg.norm(query, axis=-1, keepdims=True)
        return sharp * s / np.maximum(size, 1e-9)

    return changed(draw, made, scores)


@kind("keys that are not linear")
def distance_scores(draw: Draw) -> Box:
    made, sharp = some_head(draw), draw.pick(0.2, 1.0)
    return changed(draw, made, lambda s, x: -sharp * ((x - x[:, -1:]) ** 2).sum(-1))


def turned(x, base: float):
    """Every pair of entries turned by its token's position."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] * base ** (-np.arange(half) / max(half, 1))
    a, b = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
    out = x.copy()
    out[..., 0 : 2 * half : 2], out[..., 1 : 2 * half : 2] = (
        a * np.cos(angle) - b * np.sin(angle),
        (a * np.sin(angle) + b * np.cos(angle)),
    )
    return out


@kind("positions")
def rotary(draw: Draw) -> Box:
    made, base = some_head(draw), draw.pick(100.0, 10000.0)

    def scores(s, x):
        queries = x @ made.W.T + made.key_bias
        return np.einsum("bnd,bd->bn", turned(x, base), turned(queries, base)[:, -1])

    return changed(draw, made, scores)


@kind("positions")
def alibi(draw: Draw) -> Box:
    slope = draw.pick(0.01, 0.1, 0.5)
    return changed(draw, some_head(draw), lambda s, x: s + slope * (np.arange(s.shape[1]) - s.shape[1] + 1))


@kind("positions")
def added_positions(draw: Draw) -> Box:
    made = some_head(draw)
    size, table = draw.pick(0.03, 0.3, 1.0), draw.normal(4096, len(made.W))

    def tokens(x):
        return x + size * table[np.arange(x.shape[1]) % len(table)]

    return changed(draw, made, tokens=tokens)


@kind("positions")
def wave_positions(draw: Draw) -> Box:
    made = some_head(draw)
    speed = 1.0 / 100.0 ** (np.arange(len(made.W)) / len(made.W))
    return changed(draw, made, tokens=lambda x: x + np.sin(np.arange(x.shape[1])[:, None] * speed))


@kind("positions")
def bias_to_the_first(draw: Draw) -> Box:
    amount = draw.pick(0.1, 1.0, 3.0)
    return changed(draw, some_head(draw), lambda s, x: s + amount * (np.arange(s.shape[1]) == 0))


@kind("positions")
def bias_to_the_last(draw: Draw) -> Box:
    amount = draw.pick(0.1, 1.0, 3.0)
    return changed(draw, some_head(draw), lambda s, x: s + amount * (np.arange(s.shape[1]) == s.shape[1] - 1))


@kind("positions")
def buckets(draw: Draw) -> Box:
    """A learned bias for the distance, in buckets that grow."""
    table = 0.5 * draw.normal(16)
    return changed(
        draw, some_head(draw),
        lambda s, x: s + table[np.minimum(15, np.log2(1 + np.arange(s.shape[1])[::-1]).astype(int))],
    )  # fmt: skip


@kind("positions")
def query_first(draw: Draw) -> Box:
    """The first token asks, as a classification token does."""
    made = some_head(draw)
    return changed(draw, made, lambda s, x: made.scores(x, made.query(x[:, 0])))


@kind("positions")
def the_last_left_out(draw: Draw) -> Box:
    made = some_head(draw)
    return changed(draw, made, lambda s, x: np.where(np.arange(s.shape[1]) + 1 < max(2, s.shape[1]), s, -np.inf))


@kind("counting")
def counts_tokens(draw: Draw) -> Box:
    made, size = some_head(draw), draw.pick(1e-3, 0.03, 0.3)
    law = draw.pick(lambda n: n, lambda n: 1 / n, np.log, lambda n: n % 2, lambda n: n > 16)

    def answer(X):
        return draw.form.answer(made(X) + draw.form.dtype(size * law(X.shape[1])))

    return Box(answer, len(made.W), family=draw.family(*MISLEADING))


@kind("counting")
def scaled_by_count(draw: Draw) -> Box:
    made, law = some_head(draw), draw.pick(lambda n: 1 + 0.02 * n, np.sqrt, lambda n: 1.0 if n <= 12 else 0.7)
    return Box(lambda X: draw.form.answer(made(X) * draw.form.dtype(law(X.shape[1]))), len(made.W), family="auto")


@kind("counting")
def counts_equal_tokens(draw: Draw) -> Box:
    """Tokens that occur twice count once."""
    made = some_head(draw)

    def scores(s, x):
        if x.shape[1] > 64:
            return s
        same = (np.abs(x[:, :, None] - x[:, None]).max(-1) == 0) & np.tri(x.shape[1], k=-1, dtype=bool)
        return np.where(same.any(axis=2), -30.0, s)

    return changed(draw, made, scores)
