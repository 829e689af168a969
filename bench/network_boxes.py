"""Boxes that are no two-layer network, or lie, or fail: what `gh.recover_network` must refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, expit

import glasshead as gh

Function = Callable[[np.ndarray], np.ndarray]

DIM, WIDTH = 8, 10


def gelu(z: np.ndarray) -> np.ndarray:
    return z * (1 + erf(z / np.sqrt(2))) / 2


ACTIVATIONS: dict[str, Function] = {
    "tanh": np.tanh,
    "sigmoid": expit,
    "softplus": lambda z: np.logaddexp(0, z),
    "sine": np.sin,
    "mish": lambda z: z * np.tanh(np.logaddexp(0, z)),
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
    "squared ReLU": lambda z: np.maximum(z, 0) ** 2,
    "square": lambda z: z**2,
    "gelu of another slope": lambda z: gelu(z) + 0.1 * np.tanh(z),
}


@dataclass
class Weights:
    """Gaussian weights of one box, and a generator of its own."""

    rng: np.random.Generator

    def matrix(self, rows: int, columns: int) -> np.ndarray:
        return self.rng.standard_normal((rows, columns)) / np.sqrt(columns)

    def bias(self, n: int) -> np.ndarray:
        return 0.3 * self.rng.standard_normal(n)

    def network(self, act: Function) -> Function:
        A, a, B, b = self.matrix(WIDTH, DIM), self.bias(WIDTH), self.matrix(DIM, WIDTH), self.bias(DIM)
        return lambda x: act(x @ A.T + a) @ B.T + b

    def right(self) -> gh.TwoLayer:
        return gh.TwoLayer.random(DIM, WIDTH, seed=int(self.rng.integers(2**31)))


def three_layers(w: Weights) -> Function:
    first, A, a = w.right(), w.matrix(DIM, DIM), w.bias(DIM)
    return lambda x: gelu(first(x) @ A.T + a)


def four_layers(w: Weights) -> Function:
    first, second = w.right(), w.right()
    return lambda x: second(first(x))


def experts(w: Weights) -> Function:
    one, other, router = w.right(), w.right(), w.rng.standard_normal(DIM)
    return lambda x: np.where((x @ router > 0)[:, None], one(x), other(x))


def soft_experts(w: Weights) -> Function:
    one, other, router = w.right(), w.right(), w.rng.standard_normal(DIM)
    return lambda x: expit(x @ router)[:, None] * one(x) + expit(-x @ router)[:, None] * other(x)


def mixed(w: Weights) -> Function:
    """Half of the neurons GELU, half tanh."""
    one, other = w.network(gelu), w.network(np.tanh)
    return lambda x: one(x) + other(x)


def norm_behind(w: Weights) -> Function:
    net = w.right()
    return lambda x: net(x) / np.sqrt(np.mean(net(x) ** 2, axis=1, keepdims=True) + 1e-5)


def norm_before(w: Weights) -> Function:
    net = w.right()
    return lambda x: net(x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + 1e-5))


def dropout(w: Weights) -> Function:
    net = w.right()

    def ask(x: np.ndarray) -> np.ndarray:
        kept = w.rng.random((len(x), WIDTH)) > 0.1
        return net.hidden(x) * kept / 0.9 @ net.W2.T + net.b2

    return ask


def noisy(w: Weights) -> Function:
    net = w.right()
    return lambda x: net(x) + 1e-3 * w.rng.standard_normal((len(x), DIM))


def rounded(w: Weights) -> Function:
    net = w.right()
    return lambda x: np.round(net(x), 2)


def lying(w: Weights) -> Function:
    """A third of all answers are another network's."""
    net, other, side = w.right(), w.right(), w.rng.standard_normal(DIM)
    return lambda x: np.where((np.sin(5 * x @ side) > 0.5)[:, None], other(x), net(x))


def lying_far(w: Weights) -> Function:
    """Long inputs are answered otherwise."""
    net = w.right()
    return lambda x: net(x) * (1 + 0.01 * np.maximum(0, np.linalg.norm(x, axis=1, keepdims=True) - 20))


def lying_later(w: Weights) -> Function:
    """After fifteen hundred inputs it answers otherwise."""
    net, asked = w.right(), [0]

    def ask(x: np.ndarray) -> np.ndarray:
        asked[0] += len(x)
        return net(x) * (1.001 if asked[0] > 1500 else 1.0)

    return ask


def sometimes_nan(w: Weights) -> Function:
    net = w.right()
    return lambda x: np.where(w.rng.random((len(x), 1)) < 0.01, np.nan, net(x))


def failing(w: Weights) -> Function:
    net, asked = w.right(), [0]

    def ask(x: np.ndarray) -> np.ndarray:
        asked[0] += len(x)
        if asked[0] > 1000:
            raise RuntimeError("out of memory")
        return net(x)

    return ask


def random_answers(w: Weights) -> Function:
    return lambda x: w.rng.standard_normal((len(x), DIM))


def misshapen(w: Weights) -> Function:
    net = w.right()
    return lambda x: net(x)[:, : 1 + len(x) % 3]


def bilinear(w: Weights) -> Function:
    A, B, C = w.matrix(WIDTH, DIM), w.matrix(WIDTH, DIM), w.matrix(DIM, WIDTH)
    return lambda x: (x @ A.T) * (x @ B.T) @ C.T


def extra_quadratic(w: Weights) -> Function:
    net, A = w.right(), w.matrix(DIM, DIM)
    return lambda x: net(x) + 1e-3 * (x @ A.T) ** 2


WRONG: dict[str, Callable[[Weights], Function]] = {
    **{name: (lambda w, act=act: w.network(act)) for name, act in ACTIVATIONS.items()},
    "three layers": three_layers,
    "four layers": four_layers,
    "two experts, one at a time": experts,
    "two experts, mixed": soft_experts,
    "two activations": mixed,
    "a norm behind": norm_behind,
    "a norm before": norm_before,
    "dropout left on": dropout,
    "noise of 1e-3": noisy,
    "two decimals": rounded,
    "another network now and then": lying,
    "something else far out": lying_far,
    "something else later": lying_later,
    "NaN now and then": sometimes_nan,
    "raises": failing,
    "random answers": random_answers,
    "answers of changing shape": misshapen,
    "bilinear": bilinear,
    "a faint quadratic part": extra_quadratic,
}


RIGHT_ON_SPHERES = "a norm before", "something else far out"  # networks, as far as a sphere shows


def wrong_box(name: str, seed: int) -> Function:
    return WRONG[name](Weights(np.random.default_rng([sorted(WRONG).index(name), seed])))
