"""Networks whose answers are known up to their lengths: what a normalisation behind them leaves.

The box answers `m(x) = y / |y|` with `y = W2 act(W1 x + b1) + L x + l`. In outputs orthogonal to m and to its slopes
along V, second derivatives of m are those of y over `|y|` at the point, and span what the neurons span (`span`). With
neurons known, all outputs give the slopes of `|y|` too, and with these the rest of each neuron (`directions`). What is
left unknown is one length for each base point, which all neurons share: scales and biases are fitted with it, in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._errors import TargetMismatch
from .._linalg import LEAST_DIVISOR, random_rotation, unit
from .._models import ACTIVATIONS, Activation, TwoLayer
from .._types import Float
from .directions import Neurons
from .domain import Domain, SphereDomain, as_single_tokens, find_domain
from .learn import SPAN_ATTEMPTS, WORST_FIT, find_neurons
from .ray_creases import find_creased
from .ridge import PLAIN, Ridges, descended, fitted, total
from .span import Span, find_span
from .step import Steps, find_steps

PARTS = 20  # rounds for the part of output weights along the answer at each point, which does not show there
LEAST_ACROSS = 1e-6  # of its square: output weights that lie along an answer but for that count for no more there
TURNS = 40  # rounds of lengths and ridges
ANEW = 0, 3, 9, 15  # of these rounds, where ridges are looked for everywhere: lengths are known better each time
STEPS_IN_TURN = 10
ROUGH_ANSWERS = 1e-6  # of an answer: what finds neurons need not be better, since all weights are fitted afterwards
ARRIVED_TURN = 1e-9  # of the misfit: a round that changes it by less is the last
ROUNDED_MISFIT = 1e-13  # of what is fitted: a misfit that is all rounding changes by as much in every round


class Bent(NamedTuple):
    """Networks that bend like the box, each neuron or its mirror image, without the linear part, the best first; and
    how they were come by."""

    networks: list[TwoLayer]
    misfits: list[float]
    words: str


def find_bent(
    f: Callable[[np.ndarray], np.ndarray], dim: int, radius: float, slack: float, rng: np.random.Generator
) -> Bent:
    """The neurons of a box that answers with unit vectors, asked at inputs of this length; output weights in units of
    the mean length of what is normalised. `slack` is an error of answers, over their lengths, that differences do not
    show, since it varies as smoothly as they do."""
    domain = replace(find_domain(as_single_tokens(f, dim), True, radius, ROUGH_ANSWERS, rng), rays=True)
    steps = find_steps(domain, rng)
    steps = replace(steps, error=max(steps.error, slack * steps.typical))
    if not steps.smooth:
        assert isinstance(domain, SphereDomain)
        model, words = find_creased(domain, rng)
        return Bent([model], [0.0], words)
    span, neurons = find_all(domain, steps, rng)
    fits = sorted(
        ((*ray_network(neurons, span.curvature.centre, ACTIVATIONS[name]), name) for name in PLAIN["plain"]),
        key=lambda each: each[1],
    )
    said = ", ".join(f"{name} {misfit:.1e}" for _, misfit, name in fits)
    fits = [each for each in fits if each[1] <= WORST_FIT]
    if not fits:
        raise TargetMismatch(f"{len(neurons.g)} neurons were found, but no activation fits: misfits {said}")
    words = (
        f"second derivatives at {len(span.curvature.points)} points along {span.curvature.D} directions span "
        f"{span.size} dimensions, {span.gap:.1e} above errors, {span.filling:.0%} of the room; misfits of "
        f"activations: {said}"
    )
    return Bent([each[0] for each in fits], [each[1] for each in fits], words)


def find_all(domain: Domain, steps: Steps, rng: np.random.Generator) -> tuple[Span, Neurons]:
    """All neurons, with other directions once more where some are missing."""
    for _ in range(SPAN_ATTEMPTS - 1):
        span = find_span(domain, steps, None, rng)
        try:
            return span, find_neurons(span, "plain", rng)
        except TargetMismatch:
            domain = replace(domain, frame=random_rotation(domain.dim, rng))
    span = find_span(domain, steps, None, rng)
    return span, find_neurons(span, "plain", rng)


def amounts(
    C: Float[np.ndarray, "P k m"], centre: Float[np.ndarray, "P k"]
) -> tuple[Float[np.ndarray, "m P"], Float[np.ndarray, "m k"]]:
    """Numbers `c` and unit vectors `w` with `C = c w` for each neuron, but for parts along the answer at each point."""
    w = np.linalg.svd(C.transpose(2, 0, 1), full_matrices=False)[2][:, 0]
    between, c = centre @ centre.T, np.zeros((C.shape[2], len(centre)))
    for _ in range(PARTS):
        c = np.einsum("pkm,mk->mp", C, w) / np.maximum(1 - (w @ centre.T) ** 2, LEAST_ACROSS)
        size, weighted = np.einsum("mp,mp->m", c, c)[:, None], np.einsum("mp,pkm->mk", c, C)
        # (size I - centre^T c^2 centre) w = weighted, by what it does along the centres
        inner = np.eye(len(centre)) - (c**2 / size)[:, None, :] * between[None]
        along = np.linalg.solve(inner, (weighted @ centre.T / size)[:, :, None])[:, :, 0]
        w = unit(weighted / size + (c**2 / size * along) @ centre)
    return c, w


def ray_network(neurons: Neurons, centre: Float[np.ndarray, "P k"], act: Activation) -> tuple[TwoLayer, float]:
    """The network that fits, and the share that misfits; with it goes the length of answers at each base point."""
    t, (c, w) = neurons.along, amounts(neurons.C, centre)
    size = np.maximum(np.sqrt(np.mean(t**2, axis=1)), LEAST_DIVISOR)
    lengths, last, before, amount = np.ones(len(centre)), max(ANEW), np.inf, np.zeros(len(t))
    ridges: Any = None
    for turn in range(TURNS):
        seen = c * lengths
        if turn in ANEW:
            ridges = fitted(act.second, act.third, t, seen, mirrored=True)
        else:
            start = np.stack([ridges.scale * size, ridges.bias], axis=1)
            theta, cost = descended(act.second, act.third, t / size[:, None], seen, start, STEPS_IN_TURN)
            misfit = np.sqrt(cost) / np.maximum(np.linalg.norm(seen, axis=1), LEAST_DIVISOR)
            ridges = Ridges(theta[:, 0] / size, theta[:, 1], misfit)
        bends = act.second(ridges.scale[:, None] * t + ridges.bias[:, None])
        amount = np.einsum("mp,mp->m", bends, seen) / np.maximum(np.einsum("mp,mp->m", bends, bends), LEAST_DIVISOR)
        expected = amount[:, None] * bends
        lengths = np.einsum("mp,mp->p", expected, expected) / np.einsum("mp,mp->p", c, expected)
        lengths = lengths / np.exp(np.mean(np.log(np.abs(lengths))))
        now = total(ridges, seen)
        if turn > last and abs(before - now) <= ARRIVED_TURN * now + ROUNDED_MISFIT:
            break
        before = now
    W2 = (w * amount[:, None] / ridges.scale[:, None] ** 2).T
    return TwoLayer(ridges.scale[:, None] * neurons.g, ridges.bias, W2, None, activation=act.name), before
