"""The gradient on every arc between two kinks, one query for each direction out of the circle's plane.

On an arc the function is `C cos t + S sin t`, and linear in a cone around it. `Arcs` is what the samples on the circle
say, the in-plane part of each gradient, and `Pieces` the whole function once the gradients are known. A step that
crosses a hyperplane shows itself without further queries: measured across kink k, the jump comes out as `-J_k.x / s`,
so that the step seems to end on the hyperplane exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._oracles import CHUNK_BYTES
from .._types import Float
from .circle import SampledKinks
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
    """`in_plane[i]` is (C, S) of the piece `C cos + S sin` on arc i, `half_width[i]` half its length."""

    low: Float[np.ndarray, "n"]
    high: Float[np.ndarray, "n"]
    middle: Float[np.ndarray, "n"]
    half_width: Float[np.ndarray, "n"]
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


def find_arcs(g: Homogeneous, circle: HalfCircle, kinks: SampledKinks) -> Arcs:
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


STEP_IN_ARC = 0.15  # of half the width of the arc; a longer step is more accurate and crosses more often
CROSSED_AT = 0.97  # of the way to a hyperplane: from here on a step is taken to have crossed it
CROSSING_ROUNDS = 12
NEVER_CROSSED = 1e-3  # in place of 0, over a way: a step so long is cut to what the width of an arc allows in any case
CROSSED_TOO_OFTEN = 0.25  # so many crossings after two repairs mean that the kinks are wrong


class Gradients:
    """Out-of-plane components `(arcs, directions)`, and the signed step behind each; to be read."""

    def __init__(self, g: Homogeneous, circle: HalfCircle, arcs: Arcs, rng: np.random.Generator):
        self.g, self.circle, self.arcs = g, circle, arcs
        self.points = circle.at(arcs.middle)
        self.base = STEP_IN_ARC * arcs.half_width
        side = np.where(rng.random(circle.V.shape[1]) < 0.5, -1.0, 1.0)
        self.steps = self.base[:, None] * side
        self.out = np.zeros(self.steps.shape)
        # J_k . x_i, from the in-plane part alone
        self.distance = arcs.jumps @ np.array([np.cos(arcs.middle), np.sin(arcs.middle)])

    def read(self, which: np.ndarray) -> None:
        """Measure the chosen components, and those again whose steps crossed a hyperplane, on the safer side."""
        self._read_steps(which)
        look = np.arange(len(self.circle.V.T) if len(self.distance) else 0)
        crossed = np.zeros(self.out.shape, bool)
        for attempt in range(CROSSING_ROUNDS):
            crossed[:, look] = np.column_stack([self._retreat(int(v), attempt) for v in look]) if len(look) else False
            look = np.flatnonzero(crossed.any(axis=0))
            if len(look) == 0 or (attempt >= 2 and crossed.mean() > CROSSED_TOO_OFTEN):
                break
            self._read_steps(crossed)

    def _read_steps(self, which: np.ndarray) -> None:
        rows, columns = np.nonzero(which)
        size = max(1, CHUNK_BYTES // (8 * self.g.dim))
        for start in range(0, len(rows), size):
            i, v = rows[start : start + size], columns[start : start + size]
            step = self.steps[i, v]
            answers = self.g(self.points[i] + step[:, None] * self.circle.V.T[v])
            self.out[i, v] = (answers - self.arcs.value[i]) / step

    def _retreat(self, v: int, attempt: int) -> np.ndarray:
        """Which arcs' steps along direction v crossed; these are shortened and turned to the safer side."""
        with np.errstate(divide="ignore", invalid="ignore"):
            closeness = -np.diff(self.out[:, v])[:, None] / self.distance
        ahead, behind = np.maximum(closeness.max(axis=0), 0), np.maximum(-closeness.min(axis=0), 0)
        steps = self.steps[:, v]
        crossed = ~(np.where(steps > 0, ahead, behind) * np.abs(steps) < CROSSED_AT)
        safer = np.where(ahead < behind, 1.0, -1.0)
        longest = 0.4 / np.maximum(np.minimum(ahead, behind), NEVER_CROSSED)
        retreat = safer * np.minimum(longest, 3 * self.base) if attempt < CROSSING_ROUNDS // 2 else -0.3 * steps
        self.steps[:, v] = np.where(crossed, retreat, steps)
        return crossed

    def check_arcs(self, noise: float, rng: np.random.Generator) -> int:
        """One short step on every arc, in a random direction; arcs it contradicts are measured ten times closer."""
        U = rng.standard_normal(self.out.shape)
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            closeness = np.abs(U @ np.diff(self.out, axis=0).T / self.distance.T).max(axis=1)
        step = 0.3 * np.minimum(np.abs(self.steps).max(axis=1), 1 / closeness)
        answers = self.g(self.points + step[:, None] * (U @ self.circle.V.T))
        off = np.abs(answers - self.arcs.value - step * np.einsum("iv,iv->i", U, self.out))
        wrong = ~(off <= 1e3 * noise)
        self.base[wrong] *= 0.1
        self.steps[wrong] = self.base[wrong, None] * np.sign(self.steps[wrong])
        self.read(np.broadcast_to(wrong[:, None], self.out.shape))
        return int(wrong.sum())

    def shortest(self) -> Float[np.ndarray, "n"]:
        """The shortest step on each arc: what the error of its gradient is inversely proportional to."""
        return np.abs(self.steps).min(axis=1) if self.steps.shape[1] else self.base

    def pieces(self) -> Pieces:
        frame = np.column_stack([self.circle.a, self.circle.b, self.circle.V])
        in_frame = np.hstack([self.arcs.in_plane, self.out])
        return Pieces(np.linalg.solve(frame.T, in_frame.T).T, self.arcs.bends)
