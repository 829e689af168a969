"""Boxes that do not answer the same question alike: dropout, drift, memory, batches, noise, answers gone wrong."""

from __future__ import annotations

import numpy as np

from .box import MISLEADING, Box, Draw, kind
from .formats import FORMATS
from .inside import Head, gaussian
from .scores import some_head

STEADY = ("float64/none", "float64/none", "float64/rounded", "float64/loose-rtol", "float64/loose", "float32/none")
STEADY += ("float64/norm", "float64/signs", "bfloat16-answers/none", "float16-answers/none", "bfloat16/none")
STEADY = tuple(dict.fromkeys(STEADY))


def source(draw: Draw) -> np.random.Generator:
    return np.random.default_rng(draw.rng.integers(2**31))


def of(made: Head, answer, draw: Draw, **more) -> Box:
    return Box(answer, len(made.W), **({"family": draw.family(*MISLEADING)} | more))


@kind("dropout left on", STEADY)
def dropped_weights(draw: Draw) -> Box:
    made, form, fresh, share = some_head(draw), draw.form, source(draw), draw.pick(0.01, 0.1, 0.5)

    def answer(X):
        x = form.tokens(X)
        w = form.softmax(made.scores(x))
        kept = (fresh.random(w.shape) >= share) / (1 - share)
        return made.read(form.value(np.einsum("bn,bnd->bd", (w * kept).astype(form.dtype), x)))

    return of(made, answer, draw)


@kind("dropout left on", STEADY)
def dropped_outputs(draw: Draw) -> Box:
    made, form, fresh, share = some_head(draw), draw.form, source(draw), draw.pick(0.01, 0.1, 0.5)

    def answer(X):
        x = form.tokens(X)
        out = form.attend(x, made.scores(x))
        return made.read((out * (fresh.random(out.shape) >= share) / (1 - share)).astype(form.dtype))

    return of(made, answer, draw)


@kind("dropout left on", STEADY)
def dropped_tokens(draw: Draw) -> Box:
    made, form, fresh, share = some_head(draw), draw.form, source(draw), draw.pick(0.01, 0.1, 0.3)

    def answer(X):
        x = form.tokens(X)
        away = fresh.random(x.shape[:2]) < share
        away[:, -1] = False
        return made.read(form.attend(x, np.where(away, form.dtype(-1e4), made.scores(x))))

    return of(made, answer, draw)


@kind("drift", STEADY)
def drifting_answers(draw: Draw) -> Box:
    made, step, asked = some_head(draw), draw.log_uniform(1e-10, 1e-2), [0]

    def answer(X):
        y = made(X)
        late = asked[0] + np.arange(len(X))
        asked[0] += len(X)
        return y + (step * late.reshape(-1, *[1] * (y.ndim - 1))).astype(y.dtype)

    return of(made, answer, draw, clock=asked)


@kind("drift", STEADY)
def drifting_weights(draw: Draw) -> Box:
    made, step, asked = some_head(draw), draw.log_uniform(1e-8, 1e-3), [0]
    towards = draw.normal(*made.W.shape)

    def answer(X):
        asked[0] += len(X)
        W = (made.W + step * asked[0] * towards).astype(made.W.dtype)
        return Head(made.form, W, made.v, made.key_bias, made.bias)(X)

    return of(made, answer, draw, clock=asked)


@kind("drift", STEADY)
def another_after_a_while(draw: Draw) -> Box:
    made, asked, after = some_head(draw), [0], int(draw.log_uniform(5, 500))
    other = gaussian(draw, len(made.W), None if made.v.ndim == 1 else made.v.shape[1])

    def answer(X):
        asked[0] += len(X)
        return (made if asked[0] <= after else other)(X)

    return of(made, answer, draw, clock=asked)


@kind("memory", STEADY)
def remembers_the_last_call(draw: Draw) -> Box:
    made, share, last = some_head(draw), draw.pick(1e-6, 1e-2, 0.3), [0.0]

    def answer(X):
        y = made(X)
        out = y + y.dtype.type(share * last[0])
        last[0] = float(y.ravel()[0])
        return out

    return of(made, answer, draw)


@kind("memory", STEADY)
def every_other_call(draw: Draw) -> Box:
    made, calls, factor = some_head(draw), [0], draw.pick(1 + 1e-6, 1.01, -1.0)

    def answer(X):
        calls[0] += 1
        y = made(X)
        return y if calls[0] % 2 else (factor * y).astype(y.dtype)

    return of(made, answer, draw)


@kind("memory", STEADY)
def remembers_questions(draw: Draw) -> Box:
    """A cache that takes sequences for the same whose first numbers are."""
    made, cache, digits = some_head(draw), {}, draw.pick(1, 2, 4)

    def answer(X):
        y = made(X)
        for i, x in enumerate(X):
            y[i] = cache.setdefault((x.shape, np.round(x[[0, -1]], digits).tobytes()), y[i].copy())
        return y

    return of(made, answer, draw)


@kind("depends on the batch", STEADY)
def batch_normalised(draw: Draw) -> Box:
    made, whole = some_head(draw), draw.chance()

    def answer(X):
        y = made(X)
        y = y - y.mean(axis=0)
        return y / (y.std(axis=0) + y.dtype.type(1e-5)) if whole else y

    return of(made, answer, draw)


@kind("depends on the batch", STEADY)
def neighbours_leak(draw: Draw) -> Box:
    made, share = some_head(draw), draw.pick(1e-9, 1e-4, 0.1)

    def answer(X):
        y = made(X)
        return y + y.dtype.type(share) * np.roll(y, 1, axis=0)

    return of(made, answer, draw)


@kind("depends on the batch", STEADY)
def place_in_the_batch(draw: Draw) -> Box:
    made, step = some_head(draw), draw.log_uniform(1e-8, 1e-1)

    def answer(X):
        y = made(X)
        return y + (step * np.arange(len(y)).reshape(-1, *[1] * (y.ndim - 1))).astype(y.dtype)

    return of(made, answer, draw)


@kind("depends on the batch", STEADY)
def large_batches_only(draw: Draw) -> Box:
    """Answers with fewer digits in batches of more than a few, as other kernels do."""
    made, most = some_head(draw), draw.pick(1, 8, 32)
    coarse = FORMATS[draw.pick("float32-answers", "bfloat16-answers")].answer
    return of(made, lambda X: made(X) if len(X) <= most else coarse(made(X)), draw)


def noise_behind(made: Head, disturbed, draw: Draw) -> Box:
    """A head of the family behind noise that nobody promised: what is returned must be right, refusing is fine."""
    answer = disturbed(made)
    return of(
        made, answer, draw, truth=made.model, heads=1, inside="either",
        signs=None if made.v.ndim == 2 else "attention", family=draw.family("attention"),
    )  # fmt: skip


@kind("noise nobody promised", STEADY)
def gaussian_noise(draw: Draw) -> Box:
    size, fresh = draw.log_uniform(1e-9, 0.3), source(draw)

    def disturbed(made):
        def answer(X):
            y = made(X)
            return (y + size * fresh.standard_normal(y.shape)).astype(y.dtype)

        return answer

    return noise_behind(some_head(draw), disturbed, draw)


@kind("noise nobody promised", STEADY)
def relative_noise(draw: Draw) -> Box:
    size, fresh = draw.log_uniform(1e-12, 0.1), source(draw)

    def disturbed(made):
        def answer(X):
            y = made(X)
            return (y * (1 + size * fresh.uniform(-1, 1, y.shape))).astype(y.dtype)

        return answer

    return noise_behind(some_head(draw), disturbed, draw)


@kind("noise nobody promised", STEADY)
def rounded_unsaid(draw: Draw) -> Box:
    decimals = draw.pick(1, 2, 3, 4, 6, 8)
    return noise_behind(some_head(draw), lambda made: lambda X: np.round(made(X), decimals), draw)


@kind("noise nobody promised", STEADY)
def noisy_scores(draw: Draw) -> Box:
    size, fresh, form = draw.log_uniform(1e-8, 0.1), source(draw), draw.form

    def disturbed(made):
        def answer(X):
            x = form.tokens(X)
            s = made.scores(x)
            return made.read(form.attend(x, (s + size * fresh.standard_normal(s.shape)).astype(form.dtype)))

        return answer

    return noise_behind(some_head(draw), disturbed, draw)


@kind("answers gone wrong", STEADY)
def now_and_then(draw: Draw) -> Box:
    """Some answers are zero, off in a late digit, doubled, very large, or another's."""
    share, fresh = draw.pick(0.01, 0.1), source(draw)
    wrong = draw.pick(
        lambda y: 0 * y, lambda y: y * (1 + 1e-8), lambda y: 2 * y, lambda y: y + 1e3, lambda y: y[::-1], np.round
    )  # fmt: skip

    def disturbed(made):
        def answer(X):
            y = made(X)
            chosen = fresh.random(len(y)) < share
            y[chosen] = wrong(y)[chosen]
            return y

        return answer

    return noise_behind(some_head(draw), disturbed, draw)


@kind("answers gone wrong", STEADY)
def wrong_for_some_questions(draw: Draw) -> Box:
    """The same, always for the same questions."""
    share, size = draw.pick(0.05, 0.2), draw.pick(1e-8, 1e-2, 1.0)

    def disturbed(made):
        def answer(X):
            y = made(X)
            chosen = np.sin(1e4 * X.sum(axis=(1, 2))) > 1 - 2 * share
            y[chosen] += y.dtype.type(size)
            return y

        return answer

    made = some_head(draw)
    return of(made, disturbed(made), draw)
