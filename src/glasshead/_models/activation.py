"""The activations of two-layer networks: value and the first three derivatives of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, expit  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

Elementwise = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Activation:
    """`value(z)` entry by entry, and its derivatives. All of them satisfy `value(-z) = value(z) - z`, so the second
    derivative is even: it does not tell a neuron from its mirror image."""

    name: str
    value: Elementwise
    first: Elementwise
    second: Elementwise
    third: Elementwise


def density(z: np.ndarray) -> np.ndarray:
    """The density of the standard normal distribution."""
    return np.exp(-z * z / 2) / np.sqrt(2 * np.pi)


def cumulative(z: np.ndarray) -> np.ndarray:
    return (1 + erf(z / np.sqrt(2))) / 2


GELU = Activation(
    "gelu",
    lambda z: z * cumulative(z),
    lambda z: cumulative(z) + z * density(z),
    lambda z: (2 - z * z) * density(z),
    lambda z: (z * z - 4) * z * density(z),
)


def silu_first(z: np.ndarray) -> np.ndarray:
    s = expit(z)
    return s * (1 + z * (1 - s))


def silu_second(z: np.ndarray) -> np.ndarray:
    s = expit(z)
    return s * (1 - s) * (2 + z * (1 - 2 * s))


def silu_third(z: np.ndarray) -> np.ndarray:
    s = expit(z)
    slope, turn = s * (1 - s), 1 - 2 * s
    return slope * (turn * (3 + z * turn) - 2 * z * slope)


SILU = Activation("silu", lambda z: z * expit(z), silu_first, silu_second, silu_third)

INNER, CUBIC = np.sqrt(2 / np.pi), 0.044715  # as in the code of GPT-2


def tanh_parts(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`h = tanh(INNER (z + CUBIC z^3))` and its first three derivatives."""
    z = np.clip(z, -50, 50)  # beyond that h is ±1, and cubes would overflow before they cancel
    h = np.tanh(INNER * (z + CUBIC * z**3))
    q1, q2, q3 = INNER * (1 + 3 * CUBIC * z * z), INNER * 6 * CUBIC * z, INNER * 6 * CUBIC
    left = 1 - h * h
    h1 = left * q1
    h2 = -2 * h * h1 * q1 + left * q2
    h3 = -2 * h1 * h1 * q1 - 2 * h * h2 * q1 - 4 * h * h1 * q2 + left * q3
    return h, h1, h2, h3


def tanh_first(z: np.ndarray) -> np.ndarray:
    h, h1, _, _ = tanh_parts(z)
    return (1 + h + z * h1) / 2


def tanh_second(z: np.ndarray) -> np.ndarray:
    _, h1, h2, _ = tanh_parts(z)
    return h1 + z * h2 / 2


def tanh_third(z: np.ndarray) -> np.ndarray:
    _, _, h2, h3 = tanh_parts(z)
    return 1.5 * h2 + z * h3 / 2


GELU_TANH = Activation("gelu-tanh", lambda z: z * (1 + tanh_parts(z)[0]) / 2, tanh_first, tanh_second, tanh_third)

RELU = Activation("relu", lambda z: np.maximum(z, 0.0), lambda z: (z > 0).astype(z.dtype), np.zeros_like, np.zeros_like)

ACTIVATIONS = {each.name: each for each in (GELU, GELU_TANH, SILU, RELU)}
