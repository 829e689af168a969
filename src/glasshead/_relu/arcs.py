"""The arcs between kinks: on each the function is `C cos t + S sin t`, and linear in a cone around it.

`Arcs` is what the samples on the circle say, the in-plane part of each gradient; `Pieces` is the whole function once
the gradients are known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._types import Float
from .circle import Kinks
from .homogeneous import HalfCircle, Homogeneous


@dataclass(frozen=True)
class Pieces:
    """`f(X) = l.X + (1/2) sum_k c_k |J_k.X|`, kept as the gradients between one kink and the next.

    The jump `J_k = G_{k+1} - G_k` at kink k is, up to sign, the neuron's weights times its output weight; `c_k = ±1` is
    whether f bends up or down there; `2 l` is the first gradient plus the last.
    """

    gradients: Float[np.ndarray, "arcs D"]
    bends: Float[np.ndarray, "m"]

    @property
    def jumps(self) -> Float[np.ndarray, "m D"]:
        return np.diff(self.gradients, axis=0)

    @property
    def linear(self) -> Float[np.ndarray, "D"]:
        return (self.gradients[0] + self.gradients[-1]) / 2

    def __call__(self, X: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n"]:
        return X @ self.linear + np.abs(X @ self.jumps.T) @ self.bends / 2

    def weights(self, X: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n arcs"]:
        """`f(X) = sum_i weights_i G_i.X`: with the side of every kink known, f is linear in the gradients."""
        sides = np.sign(X @ self.jumps.T) * self.bends
        one = np.ones((len(X), 1))
        return (np.hstack([one, sides]) - np.hstack([sides, -one])) / 2


SPAN = 0.45  # of an arc: samples this far apart determine its piece well enough


@dataclass(frozen=True)
class Arcs:
    """`in_plane[i]` is (C, S) of the piece `C cos + S sin` on arc i, `room[i]` the way from its middle to its ends."""

    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]
    middle: Float[np.ndarray, "n"]
    room: Float[np.ndarray, "n"]
    in_plane: Float[np.ndarray, "n 2"]

    @property
    def value(self) -> Float[np.ndarray, "n"]:
        return self.in_plane[:, 0] * np.cos(self.middle) + self.in_plane[:, 1] * np.sin(self.middle)

    @property
    def jumps(self) -> Float[np.ndarray, "kinks 2"]:
        return np.diff(self.in_plane, axis=0)

    @property
    def bends(self) -> Float[np.ndarray, "kinks"]:
        kinks, jumps = self.high[:-1], self.jumps
        return np.sign(jumps[:, 1] * np.cos(kinks) - jumps[:, 0] * np.sin(kinks))


def find_arcs(g: Homogeneous, circle: HalfCircle, kinks: Kinks) -> Arcs:
    """On a closing circle the first arc begins where the last kink's other half lies, and the last ends likewise."""
    low, high = ends(circle, kinks.at)
    t, y = kinks.samples.t, kinks.samples.y
    parts = [(t[arc], y[arc]) for arc in kinks.samples.arcs()]
    short = [i for i, (t, _) in enumerate(parts) if t[-1] - t[0] < SPAN * min(high[i] - low[i], np.pi / 2)]
    extra = np.array([far_end(parts[i][0], low[i], high[i]) for i in short])
    answers = g(circle.at(extra)) if short else extra
    for i, angle, answer in zip(short, extra, answers, strict=True):
        parts[i] = np.append(parts[i][0], angle), np.append(parts[i][1], answer)
    return Arcs(low, high, *circle.middles(low, high), np.array([sinusoid(*part) for part in parts]))


def ends(circle: HalfCircle, kinks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, last = circle.low, circle.high
    if circle.closes and len(kinks):
        first, last = kinks[-1] - np.pi, kinks[0] + np.pi
    edges = np.r_[first, kinks, last]
    return edges[:-1], edges[1:]


def far_end(t: np.ndarray, low: float, high: float) -> float:
    """A point of the arc on the side its samples leave out, a quarter turn from them at most."""
    margin = 0.08 * (high - low)
    if t.mean() - low > high - t.mean():
        return max(low + margin, t[0] - np.pi / 2)
    return min(high - margin, t[-1] + np.pi / 2)


def sinusoid(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.cos(t), np.sin(t)]), y, rcond=None)[0]
