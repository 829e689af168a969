"""Scale and bias of each neuron: a fit of the activation's derivatives to what second derivatives say at each point.

Along a neuron `t = g.x` is known at every base point and `z = s t + b` is not; the coefficients of the neuron there are
`act''(z)` times its output weights, for gated ones those of the cross term `act'(z)` times them. Two unknowns for each
neuron, fitted for all neurons at once by Levenberg's method, the output weights projected out, from the best start in
every band of scales and biases. How well it fits tells activations apart; here are the names of those that are tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._linalg import LEAST_DIVISOR
from .._models import Activation, TwoLayer
from .._types import Float
from .._validate import whole
from .directions import Neurons

SMOOTH_ACTIVATIONS = "gelu", "gelu-tanh", "silu"
PLAIN: dict[str, tuple[str, ...]] = {
    "auto": SMOOTH_ACTIVATIONS,
    "plain": SMOOTH_ACTIVATIONS,
    **{name: (name,) for name in SMOOTH_ACTIVATIONS},
}
GATED: dict[str, tuple[str, ...]] = {"auto": SMOOTH_ACTIVATIONS, "swiglu": ("silu",), "geglu": ("gelu", "gelu-tanh")}
ACTIVATION_NAMES = ("auto", *SMOOTH_ACTIVATIONS, "relu", "swiglu", "geglu")

BANDS, IN_BAND = 9, 3  # of scales, each with starts of its own
ZONES, IN_ZONE = 3, 15  # of biases: the flanks of an activation look like its middle upside down
SCALES = np.geomspace(0.03, 12, BANDS * IN_BAND)  # of z, for a neuron whose t has the mean square 1
BIASES = np.linspace(-5.5, 5.5, ZONES * IN_ZONE)
FIRST_ROUNDS, LAST_ROUNDS = 12, 60
STARTS_KEPT = 4  # of all starts, after the first rounds
DAMPING, DAMPINGS = 1e-3, (1e-15, 1e3)  # of the first step, and the least and the most of any


@dataclass(frozen=True)
class Ridges:
    """`z = scale t + bias` for each neuron, and the share of its coefficients that does not fit."""

    scale: Float[np.ndarray, " m"]
    bias: Float[np.ndarray, " m"]
    misfit: Float[np.ndarray, " m"]


def fitted(f: Any, slope: Any, t: Float[np.ndarray, "m P"], c: Float[np.ndarray, "m P"], mirrored: bool) -> Ridges:
    """The best fit of `c` by multiples of `f(scale t + bias)`; with f even, `mirrored`, the scale is positive."""
    unit_of = np.sqrt(np.mean(t**2, axis=1))
    t = t / np.maximum(unit_of, LEAST_DIVISOR)[:, None]
    scales = SCALES if mirrored else np.concatenate([-SCALES[::-1], SCALES])
    s, b = np.meshgrid(scales, BIASES, indexing="ij")
    tried = len(scales) // IN_BAND * ZONES
    starts = np.empty((len(t), tried, 2))

    def by_zone(x: np.ndarray) -> np.ndarray:
        return x.reshape(-1, IN_BAND, ZONES, IN_ZONE).transpose(0, 2, 1, 3).reshape(tried, -1)

    for j in range(len(t)):
        F = f(s[:, :, None] * t[j] + b[:, :, None])
        fit = (F @ c[j]) ** 2 / np.maximum(np.einsum("sbp,sbp->sb", F, F), LEAST_DIVISOR)
        best = by_zone(fit).argmax(axis=1)
        starts[j] = np.stack([by_zone(x)[np.arange(tried), best] for x in (s, b)], axis=1)
    which = np.repeat(np.arange(len(t)), tried)
    theta, cost = descended(f, slope, t[which], c[which], starts.reshape(-1, 2), FIRST_ROUNDS)
    kept = np.argsort(cost.reshape(-1, tried), axis=1)[:, :STARTS_KEPT]
    which, theta = np.repeat(np.arange(len(t)), STARTS_KEPT), theta[(kept + tried * np.arange(len(t))[:, None]).ravel()]
    theta, cost = descended(f, slope, t[which], c[which], theta, LAST_ROUNDS)
    best = cost.reshape(-1, STARTS_KEPT).argmin(axis=1) + STARTS_KEPT * np.arange(len(t))
    size = np.maximum(np.linalg.norm(c, axis=1), LEAST_DIVISOR)
    return Ridges(theta[best, 0] / np.maximum(unit_of, LEAST_DIVISOR), theta[best, 1], np.sqrt(cost[best]) / size)


def descended(
    f: Any, slope: Any, t: np.ndarray, c: np.ndarray, theta: Float[np.ndarray, "n 2"], rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg's method for many fits at once: where they end, and their squared misfits.

    One after another, as `_least_squares` has it, thousands of fits of two numbers each would take too long.
    """

    def rest(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        F = f(theta[:, :1] * t + theta[:, 1:])
        F = F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), LEAST_DIVISOR)
        amount = np.einsum("np,np->n", F, c)[:, None]
        return F, amount, c - amount * F

    damping = np.full(len(t), DAMPING)
    F, amount, r = rest(theta)
    cost = np.einsum("np,np->n", r, r)
    for _ in range(rounds):
        z = theta[:, :1] * t + theta[:, 1:]
        turn = amount * slope(z) / np.maximum(np.linalg.norm(f(z), axis=1, keepdims=True), LEAST_DIVISOR)
        J = np.stack([turn * t, turn], axis=2)
        J = J - F[:, :, None] * np.einsum("np,npi->ni", F, J)[:, None]
        N = np.einsum("npi,npj->nij", J, J)
        trace = np.einsum("nii->n", N)
        N = N + (damping * trace + LEAST_DIVISOR)[:, None, None] * np.eye(2)
        move = np.linalg.solve(N, np.einsum("npi,np->ni", J, r)[:, :, None])[:, :, 0]
        moved = theta + np.clip(move, -1, 1)
        F1, amount1, r1 = rest(moved)
        cost1 = np.einsum("np,np->n", r1, r1)
        better = cost1 < cost
        theta, cost = np.where(better[:, None], moved, theta), np.where(better, cost1, cost)
        F, amount, r = (np.where(better[:, None], new, old) for new, old in ((F1, F), (amount1, amount), (r1, r)))
        damping = np.clip(np.where(better, damping / 5, damping * 5), *DAMPINGS)
    return theta, cost


def leading(C: Float[np.ndarray, "P k m"]) -> Float[np.ndarray, "m P"]:
    """The coefficients of each neuron at each point, in the direction of its output weights."""
    left, s, _ = np.linalg.svd(C.transpose(2, 0, 1), full_matrices=False)
    return left[:, :, 0] * s[:, :1]


def output_weights(F: Float[np.ndarray, "m P"], C: Float[np.ndarray, "P k m"]) -> Float[np.ndarray, "k m"]:
    return np.einsum("mp,pkm->km", F, C) / np.maximum(np.einsum("mp,mp->m", F, F), LEAST_DIVISOR)


def plain_network(neurons: Neurons, act: Activation) -> tuple[TwoLayer, float]:
    """The network that fits, each neuron or its mirror image, without the linear part; and the share that misfits."""
    t, c = neurons.along, leading(neurons.C)
    ridges = fitted(act.second, act.third, t, c, mirrored=True)
    z = ridges.scale[:, None] * t + ridges.bias[:, None]
    W2 = output_weights(act.second(z), neurons.C) / ridges.scale**2
    W1 = ridges.scale[:, None] * neurons.g
    return TwoLayer(W1, ridges.bias, W2, None, activation=act.name), total(ridges, c)


def gated_network(neurons: Neurons, act: Activation) -> tuple[TwoLayer, float]:
    """The gated network that fits, rows of the gate of length 1; and the share of cross terms that misfits."""
    assert neurons.u is not None
    assert neurons.cross is not None
    t, c = neurons.along, leading(neurons.cross)
    ridges = fitted(act.first, act.second, t, c, mirrored=False)
    s = ridges.scale[:, None]
    z = s * t + ridges.bias[:, None]
    first, second = act.first(z), act.second(z)
    W2 = output_weights(first, neurons.cross) / ridges.scale
    # u is known up to multiples of g, and has a bias: both show in the coefficients of g g^T, linearly.
    C = neurons.C - np.einsum("mp,km->pkm", s**2 * second * (neurons.u @ neurons.points.T), W2)
    shift, turn = (
        np.einsum("mp,km->pkm", s**2 * second, W2),
        np.einsum("mp,km->pkm", s**2 * second * t + 2 * s * first, W2),
    )
    gate, gate_bias = neurons.u.copy(), np.zeros(len(t))
    for j in range(len(t)):
        A = np.stack([turn[:, :, j].ravel(), shift[:, :, j].ravel()], axis=1)
        more, gate_bias[j] = np.linalg.lstsq(A, C[:, :, j].ravel(), rcond=None)[0]
        gate[j] += more * neurons.g[j]
    size = np.linalg.norm(gate, axis=1)
    model = TwoLayer(
        s * neurons.g,
        ridges.bias,
        W2 * size,
        None,
        activation=act.name,
        gate=gate / size[:, None],
        gate_bias=gate_bias / size,
    )
    return model, total(ridges, c)


def total(ridges: Ridges, c: np.ndarray) -> float:
    """The share of all coefficients that does not fit."""
    size = np.linalg.norm(c, axis=1)
    return float(np.linalg.norm(ridges.misfit * size) / np.linalg.norm(size))


def require_network_arguments(activation: Any, sphere: Any, widest: Any, budget: Any, progress: Any) -> None:
    if activation not in ACTIVATION_NAMES:
        raise ValueError(
            f"expected activation to be one of {', '.join(map(repr, ACTIVATION_NAMES))}, got {activation!r}"
        )
    if not isinstance(sphere, bool):
        raise TypeError(f"expected sphere to be True or False, got {sphere!r}")
    for name, value in (("widest", widest), ("budget", budget)):
        if value is not None:
            whole(value, name, least=1)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
