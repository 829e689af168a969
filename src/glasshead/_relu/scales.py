"""The last check, at inputs of every length: a network may be right about a radius away and wrong near 0 or far out.

Errors are judged by the answers at their own length, so that large answers far out excuse nothing near 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import Evidence
from .._types import Float
from .homogeneous import Homogeneous, Lifted
from .network import ReluNetwork
from .noise import CAUTION, GAIN, STRETCH, THIRD, Noise

SHORTEST, FARTHEST = 1e-3, 1e4  # input lengths looked at in any case
BEYOND = 10.0  # the nearest and the farthest hyperplane by this factor
NEAREST, REMOTE = 1e-5, 1e6  # radii; a hyperplane nearer goes through 0, one farther is not looked for
POINTS, BESIDE = 14, 8  # at random, and beside a hyperplane that was found
SHELLS, PER_SHELL = 10, 12  # the same where answers are noisy, and the noise has to be known at each length
BESIDE_BY = 0.1  # of the input's length
DIRECTIONS = 64  # in which the learned network itself is evaluated, to know how large answers are at a length
SIGMAS = 5.0
ROUNDED = 1e-11  # of the sum of the neurons' sizes: where they cancel, this much is left of their own errors


@dataclass(frozen=True)
class Scales:
    """Inputs of all lengths, the box's answers, and how far off each may be without saying anything."""

    x: Float[np.ndarray, "n d"]
    answers: Float[np.ndarray, "n"]
    expected: Float[np.ndarray, "n"]
    largest: Float[np.ndarray, "n"]  # answer to be expected at this length
    explained: Float[np.ndarray, "n"]

    @property
    def off(self) -> Float[np.ndarray, "n"]:
        return np.abs(self.expected - self.answers)

    @property
    def unexplained(self) -> Float[np.ndarray, "n"]:
        """Errors beyond noise and rounding, over the largest answer at their length."""
        excess = np.maximum(self.off - self.explained, 0.0)
        return excess / np.maximum(self.largest, np.finfo(float).tiny)

    @property
    def worst(self) -> int:
        return int(np.argmax(self.unexplained))

    @property
    def residual(self) -> float:
        """The largest error over the largest answer at its length, where there is one to speak of."""
        told = self.largest > self.explained
        return float((self.off[told] / self.largest[told]).max(initial=0.0))

    def evidence(self) -> Evidence:
        i = self.worst
        law = f"the learned network predicts fresh answers at inputs of length {np.linalg.norm(self.x[i]):.1e}"
        return Evidence(law, self.x[i : i + 1], f"expected {self.expected[i]:.12g}", f"{self.answers[i]:.12g}")


def look_everywhere(g: Homogeneous, network: ReluNetwork, noise: Noise, rng: np.random.Generator) -> Scales:
    low, high = lengths(g, network)
    if noise.exact:
        x = np.vstack([at_all_lengths(low, high, POINTS, g.box.dim, rng), beside(network, low, high, BESIDE, rng)])
        answers, spread = g.box(x), np.zeros(len(x))
        if isinstance(g, Lifted) and g.seen is not None:
            x, answers, spread = np.vstack([x, g.seen[0]]), np.r_[answers, g.seen[1]], np.zeros(len(x) + len(g.seen[0]))
    else:
        x, answers, spread = noisy_shells(g, low, high, rng)
    explained = np.maximum(SIGMAS * spread, ROUNDED * size(network, x))
    return Scales(x, answers, network(x), largest_at(network, np.linalg.norm(x, axis=1), rng), explained)


def lengths(g: Homogeneous, network: ReluNetwork) -> tuple[float, float]:
    """From well below the nearest hyperplane to well beyond the farthest, never longer than the box may be asked."""
    low, high = SHORTEST, FARTHEST
    if isinstance(g, Lifted):
        far = np.clip(distances(network), NEAREST * g.radius, REMOTE * g.radius)
        low = min(low, g.radius / BEYOND, far.min(initial=np.inf) / BEYOND)
        high = max(high, g.radius * BEYOND, far.max(initial=0.0) * BEYOND)
    if g.box.max_norm is not None:
        low, high = low * g.box.max_norm, g.box.max_norm / (1 + BESIDE_BY)
    return low, high


def distances(network: ReluNetwork) -> np.ndarray:
    norms = np.linalg.norm(network.A, axis=0)
    return np.abs(network.b[norms > 0]) / norms[norms > 0]


def at_all_lengths(low: float, high: float, n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    position = (np.arange(n) + rng.random(n)) / n
    return (low * (high / low) ** position)[:, None] * units(n, dim, rng)


def units(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    u = rng.standard_normal((n, dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def beside(network: ReluNetwork, low: float, high: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Inputs next to random parts of random hyperplanes: those of a deeper network end or bend somewhere."""
    norms = np.linalg.norm(network.A, axis=0)
    there = np.flatnonzero(norms > 0)
    x = at_all_lengths(low, high, n, network.dim, rng)
    if len(there) == 0:
        return x
    k = rng.choice(there, n)
    normals, heights = network.A[:, k].T / norms[k, None], network.b[k] / norms[k]
    on_it = x - (np.einsum("nd,nd->n", x, normals) + heights)[:, None] * normals
    on_it *= np.minimum(1.0, high / np.maximum(np.linalg.norm(on_it, axis=1), 1e-300))[:, None]
    aside = BESIDE_BY * np.linalg.norm(on_it, axis=1) * rng.choice([-1.0, 1.0], n)
    return on_it + aside[:, None] * normals


def noisy_shells(g: Homogeneous, low: float, high: float, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Several inputs of each length, and what third differences say of the noise there."""
    d, n = g.box.dim, SHELLS * PER_SHELL
    x = np.repeat(low * (high / low) ** np.linspace(0, 1, SHELLS), PER_SHELL)[:, None] * units(n, d, rng)
    ahead = STRETCH * np.linalg.norm(x, axis=1, keepdims=True) * units(n, d, rng)
    answers = g.box((x[:, None] - np.arange(4)[None, :, None] * ahead[:, None]).reshape(4 * n, d)).reshape(n, 4)
    differences = np.sort(np.abs(answers @ THIRD).reshape(SHELLS, PER_SHELL), axis=1)[:, :-2]
    spread = CAUTION * np.sqrt(np.mean(differences**2, axis=1)) / GAIN
    return x, answers[:, 0], np.repeat(spread, PER_SHELL)


def size(network: ReluNetwork, x: np.ndarray) -> np.ndarray:
    """What the answer would be if nothing cancelled."""
    return np.abs(x @ network.A + network.b) @ np.abs(network.w) + abs(network.c)


def largest_at(network: ReluNetwork, radii: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    u = units(DIRECTIONS, network.dim, rng)
    return np.array([np.abs(network(radius * u)).max() for radius in radii])
