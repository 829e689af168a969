"""A ReLU network on a sphere, from its kinks along great circles.

Where a circle crosses the kink of neuron j, slopes of all outputs change by a positive multiple of its output weights:
their direction says which kinks are whose. Across a kink slopes in all other directions change by the neuron's weights
along these. What is still missing, its weight outwards and its bias, is one number, since the sum is 0 at the kink; the
other kinks of the neuron tell it. Which side of its kink a neuron is on shows in what is linear, and all weights are
refined on answers.
"""

from __future__ import annotations

import numpy as np

from .._errors import NotConverged
from .._linalg import norms, unit
from .._models import TwoLayer
from .._types import Float
from .arcs import Kinks, find_kinks, read_sphere_noise
from .domain import SphereDomain
from .refine import inputs_for, refined
from .signs import Sided, with_linear_neurons, with_signs

FEWEST_CIRCLES, MOST_CIRCLES = 3, 12
ENOUGH_KINKS = 3  # of each neuron
SAME_NEURON = 1e-4  # between directions of output weights
KINK_DISTANCE = 1e-4  # radians from a kink along the circle, or a third of the way to the next
SIDEWARD_STEP = 1 / 30  # of that, sidewards
ON_HYPERPLANE = 1e-4  # of a neuron's weights times the radius: kinks as far off its hyperplane are still on it
UNREFINED_ERROR = 1e-6  # of a weight, before they are refined
NEURON_TRIES = 4
MISSED_ANSWER = 1e-4  # of the largest: more is a neuron that is not known yet,
MOST_MISSED = 16  # of which there are few
LOOKED_INPUTS = 2000  # inputs at least: caps of a sphere where one neuron is on may be small


def by_neuron(kinks: Kinks) -> list[list[int]]:
    """Which kinks are those of one neuron."""
    directions, groups = unit(kinks.jumps), list[list[int]]()
    for i, direction in enumerate(directions):
        near = [g for g in groups if np.linalg.norm(directions[g[0]] - direction) <= SAME_NEURON]
        if near:
            near[0].append(i)
        else:
            groups.append([i])
    return groups


def find_groups(domain: SphereDomain, noise: float, rng: np.random.Generator) -> tuple[Kinks, list[list[int]]]:
    """Kinks along circles, until one of them shows no new neuron and every neuron has several."""
    kinks = find_kinks(domain, noise, rng)
    groups, lacking = by_neuron(kinks), list[int]()
    for circles in range(2, MOST_CIRCLES + 1):
        through = kinks.points[lacking[0]] if circles > FEWEST_CIRCLES and lacking else None
        kinks, before = kinks + find_kinks(domain, noise, rng, through), len(groups)
        groups = by_neuron(kinks)
        lacking = [group[0] for group in groups if len(group) < ENOUGH_KINKS]
        if circles >= FEWEST_CIRCLES and len(groups) == before and not lacking:
            return kinks, groups
    raise NotConverged(
        f"{MOST_CIRCLES} great circles show {len(kinks.points)} kinks of {len(groups)} kinds, and still new ones: "
        "output weights do not tell which of them belong to one neuron"
    )


def read_normals(
    domain: SphereDomain, kinks: Kinks, which: list[int], nearest: float = KINK_DISTANCE
) -> Float[np.ndarray, "n d"]:
    """The weights along the sphere of each neuron at one of its kinks, for output weights of length 1."""
    n, R = len(which), domain.radius
    p, along, jumps = kinks.points[which], kinks.along[which], kinks.jumps[which]
    beside = np.minimum(nearest, kinks.gaps[which] / 3)[:, None, None] * R
    sideways = np.stack([np.linalg.svd(np.stack([x, t]))[2][2:] for x, t in zip(p, along, strict=True)])
    slopes = []
    for side in (1, -1):
        there = domain.along(p[:, None], along[:, None], side * beside)
        X = np.stack([domain.along(there, sideways, sign * SIDEWARD_STEP * beside) for sign in (1, -1)])
        answers = domain.ask(X.reshape(-1, domain.dim)).reshape(2, n, sideways.shape[1], -1)
        slopes.append((answers[0] - answers[1]) / (2 * SIDEWARD_STEP * beside))
    across = np.einsum("nsk,nk->ns", slopes[0] - slopes[1], unit(jumps))
    return np.einsum("ns,nsd->nd", across, sideways) + norms(jumps)[:, None] * along


def read_crease_neurons(domain: SphereDomain, kinks: Kinks, groups: list[list[int]]) -> TwoLayer:
    """Every neuron, on either side of its kink."""
    R, m = domain.radius, len(groups)
    W1, b1 = np.zeros((m, domain.dim)), np.zeros(m)
    order = [sorted(group, key=lambda i: -float(np.linalg.norm(kinks.jumps[i]))) for group in groups]
    todo = list(range(m))
    for attempt in range(NEURON_TRIES):
        here = [order[j][attempt % len(order[j])] for j in todo]
        failed = []
        for j, i, t in zip(todo, here, read_normals(domain, kinks, here), strict=True):
            outwards, others = kinks.points[i] / R, kinks.points[groups[j]]
            less = others @ outwards - R  # what a weight outwards adds at other kinks, with its bias
            weight = -float(less @ (others @ t)) / float(less @ less)
            W1[j], b1[j] = t + weight * outwards, -R * weight
            off = np.abs(others @ W1[j] + b1[j]).max() / (R * np.linalg.norm(W1[j]))
            if off > ON_HYPERPLANE:
                failed.append(j)
        todo = failed
        if not todo:
            break
    if todo:
        raise NotConverged(
            f"kinks of {len(todo)} of {m} neurons do not lie on hyperplanes: this is no two-layer network"
        )
    W2 = np.stack([unit(kinks.jumps[each[0]]) for each in order], axis=1)
    return TwoLayer(W1, b1, W2, None, activation="relu")


def learn_creased(domain: SphereDomain, rng: np.random.Generator) -> tuple[TwoLayer, float, str]:
    """The network, the noise of an answer, and how it was found. Inputs that it does not explain lead to neurons whose
    kinks no circle has met."""
    noise = read_sphere_noise(domain, rng)
    kinks, groups = find_groups(domain, noise, rng)
    if not groups:
        raise NotConverged(
            f"no kinks stand out of the noise of answers, {noise:.1e}, along {FEWEST_CIRCLES} great circles"
        )
    model = read_crease_neurons(domain, kinks, groups)
    X = domain.inputs(max(inputs_for(model), LOOKED_INPUTS), rng)
    Y = domain.ask(X)
    sided = with_signs(model, X, Y, UNREFINED_ERROR)
    for _ in range(MOST_MISSED):
        off = norms(sided(X) - Y)
        if off.max() <= MISSED_ANSWER * norms(Y).max():
            break
        for _ in range(ENOUGH_KINKS - 1):
            kinks = kinks + find_kinks(domain, noise, rng, through=X[off.argmax()])
        groups = [group for group in by_neuron(kinks) if len(group) >= ENOUGH_KINKS]
        model = read_crease_neurons(domain, kinks, groups)
        sided = with_signs(model, X, Y, UNREFINED_ERROR)
    sided, _ = refined(sided, X, Y, noise)
    if sided.linear is not None:
        again = with_signs(sided.model, X, Y, domain.accepted)
        sided = refined(again, X, Y, noise)[0] if again.linear is None else sided
    words = f"{len(kinks.points)} kinks along great circles belong to {len(groups)} neurons; {sided.words}"
    return with_linear_neurons(Sided(sided.model, sided.linear, ""), domain.radius), noise, words
