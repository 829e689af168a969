"""From the pieces of a piecewise linear function to neurons, and from these to a `gh.ReluNetwork`.

A hyperplane with jump J and bend c = ±1 is the neuron `c ReLU(J.x)`, `c ReLU(-J.x)`, or a share of each; `signs` says
which. What the neurons leave of the linear part takes two more, `ReLU(r.x) - ReLU(-r.x)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._models import Network
from .._types import Float
from .arcs import Pieces
from .homogeneous import Homogeneous, Lifted
from .signs import Signs, choose_signs


@dataclass(frozen=True, eq=False)
class ReluNetwork(Network):
    """The result of `gh.recover_relu`: `f(x) = w^T ReLU(A^T x + b) + c`, callable on inputs (d,) or (B, d).

    `residual` is the largest error on fresh inputs over the largest answer at inputs of their length; `reason` says in
    a sentence how many kinks there are, whether fewer neurons could do, and how the signs were chosen.
    """

    kinks: int
    queries: int
    residual: float | None
    reason: str

    def __str__(self) -> str:
        checked = "not checked" if self.residual is None else f"held out {self.residual:.1e}"
        return f"ReLU network {self.dim} -> {self.width} -> 1, {self.queries:,} queries, {checked}\n  {self.reason}"


@dataclass(frozen=True)
class Neurons:
    """A network in homogeneous coordinates: `w^T ReLU(W X) + c.X`, and why it has as many neurons as it has."""

    W: Float[np.ndarray, "n D"]
    w: Float[np.ndarray, "n"]
    c: Float[np.ndarray, "D"]
    kinks: int
    words: str

    def __call__(self, X: Float[np.ndarray, "k D"]) -> Float[np.ndarray, "k"]:
        return np.maximum(X @ self.W.T, 0) @ self.w + X @ self.c

    def network(self, g: Homogeneous, residual: float | None) -> ReluNetwork:
        A, b, c = self.W.T, np.zeros(len(self.w)), 0.0
        if isinstance(g, Lifted):
            A, b, c = self.W[:, :-1].T / g.radius, self.W[:, -1], float(self.c[-1])
        biases = "with biases" if isinstance(g, Lifted) else "no biases"
        checked = "not checked" if residual is None else f"fresh inputs agree to {residual:.1e}"
        reason = f"{biases}, {self.words}; {checked}"
        return ReluNetwork(np.ascontiguousarray(A), self.w, b, c, self.kinks, g.box.queries, residual, reason)


def to_neurons(pieces: Pieces, lifted: bool, slack: float, *, choose: bool = True, exact: bool = True) -> Neurons:
    """With a lifted function the last coordinate is the bias, and a constant is free; `choose=False` skips the signs.

    Only `exact` answers prove anything: noise may hide a kink or make one up.
    """
    jumps, bends = pieces.jumps, pieces.bends
    inputs = slice(None, -1) if lifted else slice(None)
    signs = Signs(bends, "signs not chosen", False)
    if choose:
        signs = choose_signs(jumps[:, inputs], 2 * pieces.linear[inputs], bends, slack)
    # on each hyperplane, weights of the two sides that add up to the bend and differ by the multiple
    up, down = (bends + signs.multiples) / 2, (bends - signs.multiples) / 2
    rest = pieces.linear - signs.multiples @ jumps / 2
    rows, weights = [jumps[up != 0], -jumps[down != 0]], [up[up != 0], down[down != 0]]
    side = rest.copy()
    if lifted:
        side[-1] = 0.0
    if np.linalg.norm(side) > slack / 2:
        rows, weights = [*rows, [side, -side]], [*weights, [1.0, -1.0]]
    w = np.concatenate(weights)
    constant = rest - side if lifted else np.zeros(len(rest))
    return Neurons(np.vstack(rows), w, constant, len(jumps), neurons_in_words(len(jumps), len(w), signs, exact))


def neurons_in_words(kinks: int, neurons: int, signs: Signs, exact: bool) -> str:
    fewest = "proved fewest" if exact and signs.proved else "not proved fewest"
    return f"{count(neurons, 'neuron')} for {count(kinks, 'kink')}, {fewest}: {signs.words}"


def count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
