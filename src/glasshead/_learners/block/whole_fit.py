"""All parameters behind the heads of a block at once, from answers: Gauss-Newton by LSMR, without a matrix.

What was read part by part took in the errors of the parts before it. Here all of them move together until answers are
those of the box: the thousands of weights of a small network as well as the millions of a published layer, on a GPU
where that is worth it. The few that show only in tokens of ordinary size, the constant that heads add and an eps, are
fitted alone by `few_fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from ..._least_squares import levenberg
from ..._models import Inside, PostNorm
from ..._network import device_for
from ..._types import Float
from .tangents import Changes, InsideTangent, PostNormTangent, on_device

FIT_ROUNDS = 12
SOLVED_ROUND, WORST_CONDITION = 1e-10, 1e12  # as LSMR understands them
FEWEST_ITERATIONS, MOST_ITERATIONS = 200, 1500  # of it, in one round
ITERATIONS_WORK = 1e11  # products in one round: wide layers take more rounds of fewer iterations
SCALE_PROBES = 24  # random answers carried back, which show how much each parameter matters
# Axes along which parameters count alike: what no answer sees of them, a mean say, stays as it is then.
SCALED_ALIKE = {"W1": 1, "gate": 1, "W2": 0, "b2": None, "total": None, "offset": None}
LEAST_SCALE = 1e-9  # of the largest: what matters less is left nearly as it is
FITTED_ROUNDINGS = 2.0**-50  # of an answer: a box does no better
SLOW_ROUND = 0.5  # of the last misfit: what falls by less has arrived
SHORTER_STEPS = 1.0, 0.25, 0.0625  # tried where a whole one leads astray
NUDGE = 1e-6  # of numeric derivatives of the model, which asks nothing
LEAST_COLUMN = 1e-12  # of all derivatives: a shorter one is rounding of differences over NUDGE, and moves nothing
FIRST_EPS = 1e-5  # of a norm, to begin with: that of most
FITTED_SIZES = 1.0, 0.1, 0.01  # of what a norm reads, where offset and eps are fitted: at the last an eps of 1e-4 shows

Whole = TypeVar("Whole", Inside, PostNorm)


def packed_changes(by: Changes) -> np.ndarray:
    """All changes as one vector, in the order of their names, from wherever they are."""
    parts = [by[name].reshape(-1) for name in sorted(by)]
    return np.concatenate([part if isinstance(part, np.ndarray) else part.cpu().numpy() for part in parts])


def scales(here: InsideTangent | PostNormTangent, shape: tuple[int, ...], rng: np.random.Generator) -> Changes:
    """How much each parameter matters to answers."""
    probes = [here.backwards(rng.standard_normal(shape)) for _ in range(SCALE_PROBES)]
    squares = {name: np.mean([probe[name] ** 2 for probe in probes], axis=0) for name in probes[0]}
    for name in squares.keys() & SCALED_ALIKE.keys():
        squares[name] = np.broadcast_to(squares[name].mean(SCALED_ALIKE[name], keepdims=True), squares[name].shape)
    return {name: np.sqrt(square) for name, square in squares.items()}


def best_change(here: InsideTangent | PostNormTangent, rest: np.ndarray, rng: np.random.Generator) -> Changes:
    """The change of all parameters that explains the rest best."""
    each = scales(here, rest.shape, rng)
    shapes, size = {name: each[name].shape for name in sorted(each)}, packed_changes(each)
    size = np.maximum(size, LEAST_SCALE * size.max())
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
    work = 12.0 * here.network.hidden.size * here.network.n.shape[1]
    device = device_for(work)
    now = here if device is None else on_device(here, device)

    def there(x: np.ndarray) -> Any:
        return x if device is None else now.network.n.new_tensor(x)

    def parts(x: np.ndarray) -> Changes:
        each = zip(shapes.items(), np.split(x / size, ends), strict=True)
        return {name: there(part.reshape(shape)) for (name, shape), part in each}

    def forwards(x: np.ndarray) -> np.ndarray:
        return packed_changes({"answers": now.forwards(parts(x))})

    def backwards(y: np.ndarray) -> np.ndarray:
        return packed_changes(now.backwards(there(y.reshape(rest.shape)))) / size

    most = int(np.clip(ITERATIONS_WORK / work, FEWEST_ITERATIONS, MOST_ITERATIONS))
    shape = (rest.size, size.size)
    operator = LinearOperator(shape, matvec=forwards, rmatvec=backwards, dtype=np.float64)  # type: ignore[call-arg]
    found = lsmr(operator, rest.ravel(), 0.0, SOLVED_ROUND, SOLVED_ROUND, WORST_CONDITION, most)[0]
    each = zip(shapes.items(), np.split(found / size, ends), strict=True)
    return {name: part.reshape(shape) for (name, shape), part in each}


def whole_fit(
    model: Whole, x: Float[np.ndarray, "n d"], Y: Float[np.ndarray, "n k"], rng: np.random.Generator
) -> tuple[Whole, float]:
    """The model that answers x with Y best, from one that nearly does; and what is left, over a typical answer. For
    `PostNorm`, x is what its first norm hands on."""
    kind: Any = InsideTangent if isinstance(model, Inside) else PostNormTangent
    Y = InsideTangent.shown(model, Y) if isinstance(model, Inside) else Y
    typical = float(np.sqrt(np.mean(Y**2)))
    now = kind.at(model, x)

    def missing(here: Any) -> float:
        return float(np.sqrt(np.mean((Y - here.answers) ** 2))) / typical

    least = missing(now)
    for _ in range(FIT_ROUNDS):
        if least <= FITTED_ROUNDINGS:
            break
        step = best_change(now, Y - now.answers, rng)
        tried = (kind.at(now.changed({name: share * by for name, by in step.items()}), x) for share in SHORTER_STEPS)
        better = next((here for here in tried if missing(here) < least), None)
        if better is None:
            break
        now, before, least = better, least, missing(better)
        if least > SLOW_ROUND * before:
            break
    return now.model, least


def few_fit(
    start: Whole,
    count: int,
    changed: Callable[[Whole, np.ndarray], Whole],
    x: Float[np.ndarray, "n d"],
    Y: Float[np.ndarray, "n k"],
) -> Whole:
    """The model that answers x with Y best, so many numbers changed, by numeric derivatives of the model."""

    def missing(model: Whole) -> np.ndarray:
        return (Y - model(x[:, None])).ravel()

    def slopes(model: Whole) -> np.ndarray:
        left = missing(model)
        J = np.stack([(left - missing(changed(model, by))) / NUDGE for by in NUDGE * np.eye(count)], axis=1)
        size = np.linalg.norm(J, axis=0)
        return np.where(size < LEAST_COLUMN * np.linalg.norm(size), 0.0, J)

    return levenberg(missing, slopes, start, 0.0, changed)[0]
