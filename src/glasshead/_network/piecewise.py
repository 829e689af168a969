"""ReLU networks with any number of outputs: `gh.recover_relu` on one combination of them, the rest by least squares.

A random combination of outputs bends wherever any of them does, so its kinks are all neurons. Given these, every output
is a sum of them and of something linear, whose signs are chosen as for smooth activations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._linalg import LEAST_DIVISOR, unit
from .._models import TwoLayer
from .._relu import ReluNetwork, recover_relu
from .domain import Domain
from .signs import Sided, with_linear_neurons, with_signs

PARALLEL = 1e-10  # of a unit vector: hyperplanes no further apart are one
VANISHED_WEIGHT = 1e-10  # of the largest weight of a neuron, where it is nothing
BEYOND = 1.5  # times the distance of the farthest kink: random inputs lie on both sides of every one
INPUTS_PER_UNKNOWN = 3.0  # for each unknown of an output
LINEAR_SLACK = 1e-9  # the error of a weight: `gh.recover_relu` accepts no more of the largest answer


def learn_piecewise(domain: Domain, rng: np.random.Generator) -> tuple[Domain, Sided, ReluNetwork]:
    """The network, from kinks of one combination of outputs; and the domain of inputs where these kinks are."""
    outputs = domain.ask(np.zeros((1, domain.dim))).shape[1]
    weights = unit(rng.standard_normal(outputs)) if outputs > 1 else np.ones(1)
    scalar = recover_relu(lambda x: domain.ask(x) @ weights, domain.dim, seed=int(rng.integers(2**31)))
    radius = BEYOND * scalar.farthest_kink if scalar.farthest_kink > 0 else 1.0
    domain = replace(domain, radius=radius * np.sqrt(domain.dim))
    rows = hyperplanes(scalar)
    X = domain.inputs(int(INPUTS_PER_UNKNOWN * (len(rows) + domain.dim + 1)) + 16, rng)
    Y = domain.ask(X)
    values = np.maximum(X @ rows[:, :-1].T + rows[:, -1], 0)
    found = np.linalg.lstsq(np.concatenate([values, X, np.ones((len(X), 1))], axis=1), Y, rcond=None)[0]
    W2 = found[: len(rows)].T
    size = np.linalg.norm(W2, axis=0) * np.linalg.norm(rows[:, :-1], axis=1)
    keep = size > VANISHED_WEIGHT * size.max(initial=LEAST_DIVISOR)
    model = TwoLayer(rows[keep, :-1], rows[keep, -1], W2[:, keep], None, activation="relu")
    sided = with_signs(model, X, Y, LINEAR_SLACK)
    return domain, Sided(with_linear_neurons(sided, domain.radius), None, sided.words), scalar


def hyperplanes(network: ReluNetwork) -> np.ndarray:
    """Rows `(w, b)`, one for each hyperplane: neurons on its two sides are one kink and something linear."""
    rows = np.concatenate([network.A.T, network.b[:, None]], axis=1)
    rows = rows[np.linalg.norm(rows[:, :-1], axis=1) > 0]
    normals, chosen = unit(rows), []
    for i, normal in enumerate(normals):
        known = normals[chosen]
        apart = np.minimum(np.linalg.norm(known - normal, axis=1), np.linalg.norm(known + normal, axis=1))
        if (apart > PARALLEL).all():
            chosen.append(i)
    return rows[chosen]
