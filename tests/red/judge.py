"""What is true of a result, found out without the library's own checks.

Wrong is a result that was returned, and a bound that was given is broken; or more than 5% of the answers to 1,000 fresh
sequences of 1 to 64 tokens miss by more than ten times its `residual` and 1% of their range; or the number of heads is
not the box's, and neither a canonical form explains it nor that the other heads hardly show. Empty is one that knows
nothing: a bound above the norm of what was found, or a residual of more than a twentieth, one half where there is a
bound. What answers to the same question differ by is no part of that where W is known: a bound that holds says how well
it is, however much noise was averaged away to find it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

import glasshead as gh

from .box import Box, Scores

SHARE = 0.05  # of the answers may miss
OF_RANGE = 0.01
TIMES_RESIDUAL = 10.0
# Ten times the first is half of all there is. Where a bound says how well W is known, a near tie may go either way.
MOST_RESIDUAL, MOST_BOUNDED = 0.05, 0.5
INTERVAL, BEYOND = 0.95, 3.0  # bounds that say themselves that one in twenty is too small, and by how much at most
FAINT = 8.0  # times the error of an answer: it takes dozens of answers to tell less from rounding
CANONICAL = (1e-9, 1e-6, 1e-4)  # how alike heads are that may have come out as one
ROUNDED = 64 * 2.0**-52  # of a norm: what comparing two matrices may itself be off by


@dataclass(frozen=True)
class Verdict:
    """`why` is "" for a result that stands."""

    why: str = ""
    empty: str = ""
    numbers: dict = field(default_factory=dict)


def ordinary(dim: int, rng: np.random.Generator, *, each: int = 16, size: float = 1.0, longest=None) -> list:
    """About a thousand sequences of 1 to 64 tokens, entries about `size`, half to twice as long, by their length."""
    batches = []
    for count in range(1, 65):
        X = size * 2 ** rng.uniform(-1, 1, (each, 1, 1)) * rng.standard_normal((each, count, dim))
        if longest is not None:
            norms = np.linalg.norm(X, axis=-1, keepdims=True)
            X = X * np.minimum(1.0, 0.999 * longest / np.maximum(norms, 1e-300))
        batches.append(X)
    return batches


def judge(box: Box, found: gh.Recovery, seed: int) -> Verdict:
    numbers: dict = {}
    with np.errstate(all="ignore"):
        why = (
            bounds_broken(box, found, numbers)
            or heads_unexplained(box, found, seed)
            or misses(box, found, seed, numbers)
        )
        return Verdict(why, knows_nothing(box, found, seed), numbers)


def heads_of(model) -> list:
    return list(model.heads) if hasattr(model, "heads") else [model]


def true_heads(box: Box) -> list:
    """Of the truth: each with W and v, or W alone."""
    if isinstance(box.truth, gh.Attention | gh.MultiHead):
        heads = gh.canonical(box.truth).heads
        return [h for h in heads if np.any(h.v)]
    return [] if box.truth is None else [box.truth]


def length(x) -> float:
    """Without overflow in squares."""
    x = np.asarray(x, np.float64)
    largest = float(np.abs(x).max(initial=0.0))
    return largest * float(np.linalg.norm(x / largest)) if 0 < largest < np.inf else largest


def paired(found: list, true: list) -> list[tuple]:
    """Every head found with one of the truth."""

    def far(a, b):
        apart = length(a.W - b.W) / max(length(a.W), length(b.W), 1e-300)
        if getattr(a, "v", None) is None or getattr(b, "v", None) is None or np.size(a.v) != np.size(b.v):
            return apart
        v, w = np.ravel(a.v), np.ravel(b.v)
        return apart + length(v - w) / max(length(v), length(w), 1e-300)

    costs = np.nan_to_num([[far(a, b) for b in true] for a in found], nan=1e9)
    return [(found[i], true[j]) for i, j in zip(*linear_sum_assignment(costs), strict=True)]


def bounds_broken(box: Box, found: gh.Recovery, numbers: dict) -> str:
    true, heads = true_heads(box), heads_of(found.model)
    norm = getattr(getattr(found.model, "norm", None), "kind", None)
    comparable = len(true) == len(heads) and (not isinstance(box.truth, Scores) or box.truth.norm == norm)
    if not comparable or not true:
        return ""
    broken, times = [], BEYOND if found.confidence <= INTERVAL else 1.0
    for mine, theirs in paired(heads, true):
        off, size = length(mine.W - theirs.W), length(theirs.W)
        numbers["off"] = max(numbers.get("off", 0.0), off / size if size else off)
        if found.bound is not None and not off <= times * found.bound * (1 + 1e-6) + ROUNDED * size:
            broken.append(f"|dW| = {off:.2g} > bound {found.bound:.2g} (|W| = {size:.2g})")
        if found.bound_v is None or getattr(theirs, "v", None) is None or getattr(mine, "v", None) is None:
            continue
        v, w = np.ravel(mine.v).astype(float), np.ravel(theirs.v).astype(float)
        if box.yes_no:  # of the first output, up to its size
            w = np.reshape(theirs.v, (box.dim, -1))[:, 0].astype(float)
            w = w / length(w)
        off = length(v - w)
        if not off <= times * found.bound_v * (1 + 1e-6) + ROUNDED * length(w):
            broken.append(f"|dv| = {off:.2g} > bound_v {found.bound_v:.2g} (|v| = {length(w):.2g})")
    return f"bound broken, confidence {found.confidence:g}: {'; '.join(broken)}" if broken else ""


def visible(box: Box, seed: int) -> int:
    """How many heads show: not those without which hardly an answer would change by more than a few times its error,
    by what is promised of it and by rounding; and two that are so alike that one in their place would do as one."""
    heads = sorted(true_heads(box), key=lambda h: -length(h.v))
    X = ordinary(box.dim, np.random.default_rng([seed, 32]), each=4, size=box.size, longest=box.promise.get("max_norm"))
    terms = np.concatenate([sum(np.abs(x @ h.v).reshape(len(x), -1).max(axis=1) for h in heads) for x in X])
    terms = np.maximum(terms, np.abs(np.concatenate([answers(box.truth, x) for x in X])).max(axis=1))  # biases, too
    error = box.promise.get("tolerance", 0.0) + max(box.promise.get("rtol", 0.0), box.unit) * terms

    def said(some: list) -> np.ndarray:
        return sum(np.concatenate([answers(h, x) for x in X]) for h in some)

    whole = said(heads)

    def would_do(some: list) -> bool:
        return float(np.mean(np.abs(said(some) - whole).max(axis=1) > FAINT * error)) <= SHARE if some else False

    kept = next((heads[:n] for n in range(1, len(heads)) if would_do(heads[:n])), heads)
    while len(kept) > 1 and would_do(fewer := with_likest_as_one(kept)):
        kept = fewer
    return len(kept)


def with_likest_as_one(heads: list) -> list:
    """One head less: in place of the two whose W are the nearest, the mean of both, as loud as each is."""
    pairs = [(i, j) for i in range(len(heads)) for j in range(i)]
    i, j = min(pairs, key=lambda pair: length(heads[pair[0]].W - heads[pair[1]].W))
    one, other = heads[i], heads[j]
    loud, too = length(one.v), length(other.v)

    def mean(a, b):
        return (loud * np.asarray(a) + too * np.asarray(b)) / (loud + too)

    merged = gh.Attention(mean(one.W, other.W), one.v + other.v, key_bias=mean(one.key_bias, other.key_bias))
    return [head for k, head in enumerate(heads) if k not in (i, j)] + [merged]


def heads_unexplained(box: Box, found: gh.Recovery, seed: int) -> str:
    if box.heads is None or found.heads == box.heads:
        return ""
    if isinstance(box.truth, gh.Attention | gh.MultiHead):
        counts = {len(gh.canonical(box.truth, tol=tol).heads) for tol in CANONICAL}
        mine = found.model
        if isinstance(mine, gh.Attention | gh.MultiHead) and len(gh.canonical(mine).heads) in counts:
            return ""
        if found.heads in counts or visible(box, seed) <= found.heads <= box.heads:
            return ""
    return f"{found.heads} heads ({found.family}) for a box of {box.heads}"


def predictions(box: Box, model, X: np.ndarray) -> np.ndarray:
    """The model's, which may ask the box behind it."""
    with standing(box, len(X)):
        return answers(model, X)


def answers(model, X: np.ndarray) -> np.ndarray:
    """One row per sequence, NaN where a head with a black box behind it cannot ask."""
    try:
        return np.asarray(model(X), float).reshape(len(X), -1)
    except (ValueError, gh.OracleError):
        if len(X) == 1:
            return np.full((1, 1), np.nan)
    return stacked([answers(model, x[None]) for x in X])


def stacked(parts: list[np.ndarray]) -> np.ndarray:
    """What has no answer has one NaN for all outputs."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate([part if part.shape[1] == width else np.full((len(part), width), np.nan) for part in parts])


@contextmanager
def standing(box: Box, questions: int) -> Iterator[None]:
    """A box that changes with every question, as it stood at its last ones, however many are asked meanwhile."""
    now = None if box.clock is None else list(box.clock)
    if box.clock is not None:
        box.clock[0] -= questions
    try:
        yield
    finally:
        if box.clock is not None:
            box.clock[:] = now


def box_answers(box: Box, X: np.ndarray) -> np.ndarray:
    """The box's, NaN where it has none."""
    try:
        with standing(box, len(X)):
            y = np.array(box.answer(X.copy()), float)  # a copy: a box may use its array again
    except Exception:
        return np.full((len(X), 1), np.nan)
    return y.reshape(len(X), -1) if y.size and len(y) == len(X) else np.full((len(X), 1), np.nan)


def misses(box: Box, found: gh.Recovery, seed: int, numbers: dict) -> str:
    if box.dim > 10**4:
        return ""
    batches = ordinary(box.dim, np.random.default_rng([seed, 64]), size=box.size, longest=box.promise.get("max_norm"))
    y = stacked([box_answers(box, X) for X in batches])
    m = stacked([predictions(box, found.model, X) for X in batches])
    if m.shape != y.shape:
        return f"answers of shape {m.shape[1:]} for a box of {y.shape[1:]}"
    if box.yes_no:
        known = np.isfinite(y).all(axis=1) & np.isfinite(m).all(axis=1)
        share = float(np.mean((m[known] > 0) != (y[known] > 0))) if known.any() else 0.0
        numbers["missed"] = share
        return f"{share:.0%} of the signs differ" if share > SHARE else ""
    known = np.isfinite(y).all(axis=1) & ~np.isnan(m).any(axis=1)
    if known.sum() < 100:
        return ""
    y, miss = y[known], np.abs(m[known] - y[known]).max(axis=1)
    extent = float(np.ptp(y, axis=0).max())
    allowed = max(TIMES_RESIDUAL * (found.residual or 0.0) * float(np.abs(y).max()), OF_RANGE * extent)
    share, worst = float(np.mean(~(miss <= allowed))), float(np.max(miss)) / extent if extent else 0.0
    numbers |= {"missed": share, "worst": worst}
    if share > SHARE:
        residual = "none" if found.residual is None else f"{found.residual:.1g}"
        return f"{share:.0%} of the answers miss, up to {worst:.0%} of their range (residual {residual})"
    return ""


def unsteadiness(box: Box, seed: int) -> float:
    """By how much a single answer is off because the same question gets another one each time, of the largest."""
    X = ordinary(box.dim, np.random.default_rng([seed, 16]), each=1, size=box.size, longest=box.promise.get("max_norm"))
    one, other = (stacked([box_answers(box, x) for x in X]) for _ in range(2))
    return float(np.nan_to_num(np.abs(one - other).max() / np.sqrt(2) / np.abs(one).max()))


def knows_nothing(box: Box, found: gh.Recovery, seed: int) -> str:
    most = MOST_RESIDUAL if found.bound is None else MOST_BOUNDED
    if not box.yes_no and found.residual is not None and found.residual > most:
        known = found.bound is not None and len(true_heads(box)) == found.heads
        if not known or found.residual - unsteadiness(box, seed) > most:
            return f"residual {found.residual:.2g}"
    if found.bound is None:
        return ""
    largest = min((length(h.W) for h in heads_of(found.model) if getattr(h, "W", None) is not None), default=0.0)
    true = true_heads(box)
    if largest == 0 or any(length(h.W) == 0 for h in true):  # W may be so small that no answer tells it from 0
        longest = min(np.sqrt(box.dim) * box.size, box.promise.get("max_norm", np.inf))
        noticed = 1 / longest**2  # a W of that norm moves scores of ordinary tokens by one
        return f"W = 0 within {found.bound:.2g}" if found.bound > noticed else ""
    return f"bound {found.bound:.2g}, |W| found {largest:.2g}" if found.bound > largest else ""
