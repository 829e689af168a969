"""Is it the box: what the learned function says about fresh inputs, and what the box answers.

Twice. `Check` asks at points like those that were learned from, after every step of learning. `AllLengths` is the last
word on a finished network: inputs of every length, from well below the nearest kink to well beyond the farthest, along
directions that turn all sets of neurons on, and next to hyperplanes, where those of a deeper network would bend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._errors import LEARNED_NETWORK, Evidence
from .._linalg import LEAST_DIVISOR
from .._types import Float
from .homogeneous import CANCELLED, DEPENDENT_NORMALS, EXCUSED, NOISE_STRETCH, HalfCircle, Homogeneous, Lifted, Plain
from .neurons import ReluNetwork
from .scale import GAIN, NOISE_CAUTION, THIRD, AnswerNoise

FRESH_POINTS = 4  # a third of the points lie on the circle, where a missed kink would show
NOISY_POINTS = 5  # times as many where answers are noisy

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Check:
    """Points that nothing was fitted to, and the box's answers."""

    X: Float[np.ndarray, "n D"]
    answers: Float[np.ndarray, "n"]

    @property
    def largest(self) -> float:
        return float(np.abs(self.answers).max())

    def residual(self, model: Function) -> float:
        """The largest error over the largest answer."""
        off = float(np.abs(model(self.X) - self.answers).max())
        return off / self.largest if self.largest > 0 else off

    def evidence(self, model: Function, g: Homogeneous) -> Evidence:
        expected = model(self.X)
        worst = int(np.argmax(np.abs(expected - self.answers)))
        want, got = f"expected {expected[worst]:.12g}", f"{self.answers[worst]:.12g}"
        return Evidence(LEARNED_NETWORK, g.input(self.X[worst]), want, got)


def read_fresh_points(g: Homogeneous, circle: HalfCircle | None, exact: bool, rng: np.random.Generator) -> Check:
    n = FRESH_POINTS if exact else FRESH_POINTS * NOISY_POINTS
    X = g.points(2 * n, rng)
    if circle is not None:
        X = np.vstack([X, circle.at(rng.uniform(circle.low, circle.high, n))])
    return Check(X, g(X))


SHORTEST_INPUT, LONGEST_INPUT = 1e-3, 1e4  # input lengths looked at in any case
BEYOND_KINKS = 10.0  # the nearest and the farthest hyperplane by this factor
NEAREST_KINK, REMOTE_KINK = 1e-5, 1e6  # radii; a hyperplane nearer goes through 0, one farther is not looked for
FEWEST_INPUTS, INPUTS_PER_PARAMETER = 16, 0.03  # inputs, and more of them the more parameters there are
SMALL_NETWORK, SMALL_NETWORK_INPUTS = 100, 80  # but a network of so few parameters can afford these
SHELLS, PER_SHELL = 10, 12  # the same where answers are noisy, and the noise has to be known at each length
BESIDE_HYPERPLANE = 0.1  # of the input's length
ANSWER_DIRECTIONS = 64  # in which the learned network itself is evaluated, to know how large answers are at a length
NOISE_SIGMAS = 5.0


@dataclass(frozen=True)
class AllLengths:
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
    def worst_length(self) -> float:
        return float(np.linalg.norm(self.x[self.worst]))

    @property
    def residual(self) -> float:
        """The largest error over the largest answer at its length, where there is one to speak of."""
        told = self.largest > self.explained
        return float((self.off[told] / self.largest[told]).max(initial=0.0))

    def evidence(self) -> Evidence:
        i = self.worst
        law = f"{LEARNED_NETWORK} at inputs of length {self.worst_length:.1e}"
        return Evidence(law, self.x[i : i + 1], f"expected {self.expected[i]:.12g}", f"{self.answers[i]:.12g}")


def read_all_lengths(g: Homogeneous, network: ReluNetwork, noise: AnswerNoise, rng: np.random.Generator) -> AllLengths:
    low, high = input_lengths(g, network)
    if noise.exact:
        x = exact_inputs(network, low, high, rng)
        g.seen.append((x, g.ask(x), np.zeros(len(x))))
    else:
        g.seen.append(read_shells(g, low, high, rng))
    # what an earlier network was refused for is asked of this one too: none passes by the luck of its inputs
    x, answers, spread = (np.concatenate(parts) for parts in zip(*g.seen, strict=True))
    largest = largest_at(network, np.linalg.norm(x, axis=1), rng)
    explained = np.maximum(NOISE_SIGMAS * spread, cancellation(sum_of_sizes(network, x), largest))
    return AllLengths(x, answers, network(x), largest, explained)


def input_lengths(g: Homogeneous, network: ReluNetwork) -> tuple[float, float]:
    """From well below the nearest hyperplane to well beyond the farthest, never longer than the box may be asked."""
    low, high = SHORTEST_INPUT, LONGEST_INPUT
    if isinstance(g, Lifted):
        far = np.clip(network.kink_distances, NEAREST_KINK * g.radius, REMOTE_KINK * g.radius)
        low = min(low, g.radius / BEYOND_KINKS, far.min(initial=np.inf) / BEYOND_KINKS)
        high = max(high, g.radius * BEYOND_KINKS, far.max(initial=0.0) * BEYOND_KINKS)
    if isinstance(g, Plain):  # a scale other than 1 was chosen because answers are less exact at 1
        low, high = low * g.scale, high * g.scale
    if g.box.max_norm is not None:
        low, high = SHORTEST_INPUT * g.box.max_norm, g.box.max_norm / (1 + BESIDE_HYPERPLANE)
    return low, high


def exact_inputs(network: ReluNetwork, low: float, high: float, rng: np.random.Generator) -> np.ndarray:
    parameters = network.A.size
    n = (
        SMALL_NETWORK_INPUTS if parameters < SMALL_NETWORK else FEWEST_INPUTS + int(INPUTS_PER_PARAMETER * parameters)
    ) // 4
    anywhere = all_lengths(low, high, n, rng) * units(n, network.dim, rng)
    patterned, aside = (all_lengths(low, high, n, rng) * pattern_directions(network, n, rng) for _ in range(2))
    farthest = high * pattern_directions(network, n, rng)
    return np.vstack([anywhere, patterned, near_hyperplanes(network, aside, high, rng), farthest])


def all_lengths(low: float, high: float, n: int, rng: np.random.Generator) -> np.ndarray:
    return (low * (high / low) ** ((np.arange(n) + rng.random(n)) / n))[:, None]


def pattern_directions(network: ReluNetwork, n: int, rng: np.random.Generator) -> np.ndarray:
    """Directions in which, as far as the dimension allows, every set of neurons is on equally often."""
    norms = np.linalg.norm(network.A, axis=0)
    normals = network.A[:, norms > 0] / norms[norms > 0]
    x = rng.standard_normal((n, normals.shape[1])) @ np.linalg.pinv(normals, rcond=DEPENDENT_NORMALS)
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.where(length > 0, x / np.maximum(length, LEAST_DIVISOR), units(n, network.dim, rng))


def units(n: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    u = rng.standard_normal((n, dim))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def near_hyperplanes(network: ReluNetwork, x: np.ndarray, high: float, rng: np.random.Generator) -> np.ndarray:
    """The inputs moved next to random hyperplanes: those of a deeper network end or bend somewhere."""
    norms, n = np.linalg.norm(network.A, axis=0), len(x)
    there = np.flatnonzero(norms > 0)
    if len(there) == 0:
        return x
    k = rng.choice(there, n)
    normals, heights = network.A[:, k].T / norms[k, None], network.b[k] / norms[k]
    on_it = x - (np.einsum("nd,nd->n", x, normals) + heights)[:, None] * normals
    on_it *= np.minimum(1.0, high / np.maximum(np.linalg.norm(on_it, axis=1), LEAST_DIVISOR))[:, None]
    aside = BESIDE_HYPERPLANE * np.linalg.norm(on_it, axis=1) * rng.choice([-1.0, 1.0], n)
    return on_it + aside[:, None] * normals


def read_shells(g: Homogeneous, low: float, high: float, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Several inputs of each length, and what third differences say of the noise there."""
    d, n = g.box.dim, SHELLS * PER_SHELL
    x = np.repeat(low * (high / low) ** np.linspace(0, 1, SHELLS), PER_SHELL)[:, None] * units(n, d, rng)
    ahead = NOISE_STRETCH * np.linalg.norm(x, axis=1, keepdims=True) * units(n, d, rng)
    answers = g.ask((x[:, None] - np.arange(4)[None, :, None] * ahead[:, None]).reshape(4 * n, d)).reshape(n, 4)
    differences = np.sort(np.abs(answers @ THIRD).reshape(SHELLS, PER_SHELL), axis=1)[:, :-2]
    spread = NOISE_CAUTION * np.sqrt(np.mean(differences**2, axis=1)) / GAIN
    return x, answers[:, 0], np.repeat(spread, PER_SHELL)


def sum_of_sizes(network: ReluNetwork, x: np.ndarray) -> np.ndarray:
    """What the answer would be if nothing cancelled."""
    return np.abs(x @ network.A + network.b) @ np.abs(network.w) + abs(network.c)


def cancellation(size: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """What is left of the neurons' own errors where they cancel; less, if there is anything to see there."""
    left = CANCELLED * size
    return np.where(largest > left, np.minimum(left, EXCUSED * largest), left)


def largest_at(network: ReluNetwork, radii: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    u = units(ANSWER_DIRECTIONS, network.dim, rng)
    return np.array([np.abs(network(radius * u)).max() for radius in radii])
