"""From the pieces of a piecewise linear function to the fewest neurons, and from these to a `gh.ReluNetwork`.

A hyperplane with jump J and bend c = ±1 is the neuron `c ReLU(J.x)`, `c ReLU(-J.x)`, or a share of each; on which side
it lies decides how many neurons there are. `c ReLU(s J.x)` with s = ±1 is `(c |J.x| + c s J.x) / 2`, so m neurons make
`l.x + (1/2) sum_k c_k |J_k.x|` exactly when `2 l = sum_k ± J_k` for some choice of signs. For independent J_k that is a
linear system with one solution, which also settles how many neurons more it takes where its entries are not all ±1.
With few dependencies all signs of the dependent J_k can be tried. A linear program over the box [-1, 1]^m finds the
choice with probability near 1 up to about m = 2 d: beyond that the box has other feasible points than its corner. In
general this is a vector partition problem, and two extra neurons, `ReLU(r.x) - ReLU(-r.x)`, carry the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linprog

from .._models import Network
from .._types import Float
from .gradients import Pieces
from .homogeneous import INDEPENDENT, WHOLE_MULTIPLE, Homogeneous, Lifted

TRIED = 12  # dependent jumps whose signs are all tried
FACES = 2.5  # jumps per dimension up to which the linear program is worth its time


@dataclass(frozen=True)
class Signs:
    """`2 l` is the `multiples` of the jumps, all ±1 but one at most, plus a remainder; `proved`: fewer neurons fail."""

    multiples: Float[np.ndarray, "m"]
    words: str
    proved: bool


def choose_signs(
    J: Float[np.ndarray, "m d"], twice_linear: Float[np.ndarray, "d"], bends: Float[np.ndarray, "m"], slack: float
) -> Signs:
    """`slack` is how far `sum ± J_k` may be off because the jumps are."""
    lengths = np.linalg.norm(J, axis=1)
    if len(J) == 0 or lengths.min() == 0:
        return Signs(bends, "no kinks" if len(J) == 0 else "a jump of length 0", len(J) == 0)
    normals = J / lengths[:, None]
    spectrum = np.linalg.svd(normals, compute_uv=False)
    rank = int(np.count_nonzero(spectrum > INDEPENDENT * spectrum[0]))
    if rank == len(J):
        return from_linear_solve(J, normals, lengths, twice_linear, bends, slack)
    if len(J) - rank <= TRIED:
        return from_all_signs(J, lengths, rank, twice_linear, bends, slack)
    if len(J) <= FACES * rank:
        signs = from_linear_program(J, lengths, twice_linear)
        if np.linalg.norm(twice_linear - signs @ J) <= slack:
            return Signs(signs, "the signs come from a linear program", True)
    words = "signs that save the last two would solve a vector partition problem, and were not found"
    return Signs(bends, words, False)


def from_linear_solve(J, normals, lengths, twice_linear, bends, slack) -> Signs:
    multiples = np.linalg.lstsq(normals.T, twice_linear, rcond=None)[0] / lengths
    split = np.abs(np.abs(multiples) - 1) > np.maximum(slack / lengths, WHOLE_MULTIPLE)
    if np.linalg.norm(twice_linear - multiples @ J) > slack or split.sum() > 1:
        return Signs(bends, "the jumps are independent and no signs, with no one hyperplane split, give 2 l", True)
    signs = np.where(split, multiples, np.where(multiples < 0, -1.0, 1.0))
    if np.linalg.norm(twice_linear - signs @ J) > slack:
        return Signs(bends, "the jumps are not known well enough to tell their signs", False)
    words = (
        "one hyperplane needs both its sides" if split.any() else "the signs are the one solution of a linear system"
    )
    return Signs(signs, words, True)


def from_all_signs(J, lengths, rank: int, twice_linear, bends, slack) -> Signs:
    """Every choice of signs for all but `rank` independent jumps, whose own signs then follow."""
    basis = np.linalg.svd(J / lengths[:, None], full_matrices=False)[2][:rank]
    order = np.asarray(qr(basis @ (J / lengths[:, None]).T, pivoting=True, mode="economic")[-1])
    solved, tried = order[:rank], order[rank:]
    choices = np.array(list(product([-1.0, 1.0], repeat=len(tried))))
    rest = (twice_linear - choices @ J[tried]) @ basis.T
    multiples = np.linalg.solve((J[solved] @ basis.T).T, rest.T).T
    distance = np.abs(np.abs(multiples) - 1) * lengths[solved]
    best = int(np.argmin(distance.max(axis=1)))
    signs = np.empty(len(J))
    signs[solved], signs[tried] = np.where(multiples[best] < 0, -1.0, 1.0), choices[best]
    if np.linalg.norm(twice_linear - signs @ J) <= slack:
        return Signs(signs, "the signs come from trying all of them", True)
    return Signs(bends, "all signs were tried and none give 2 l, so that m neurons do not suffice for m kinks", False)


def from_linear_program(J, lengths, twice_linear) -> np.ndarray:
    scale = lengths.max()
    found = linprog(np.zeros(len(J)), A_eq=J.T / scale, b_eq=twice_linear / scale, bounds=(-1, 1), method="highs")
    return np.where(found.x < 0, -1.0, 1.0) if found.status == 0 else np.ones(len(J))


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
class HomogeneousNeurons:
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


def to_neurons(
    pieces: Pieces, lifted: bool, slack: float, *, choose: bool = True, exact: bool = True, faint: float = 0.0
) -> HomogeneousNeurons:
    """The fewest neurons with these pieces; `choose=False` skips their signs. The last coordinate of a lifted function
    is the bias, and a constant is free.

    Only `exact` answers prove anything: noise may hide a kink or make one up, so that neurons whose slope is below
    `faint` are left out.
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
    W, w = np.vstack(rows), np.concatenate(weights)
    kept = np.linalg.norm(W, axis=1) * np.abs(w) >= faint
    W, w = W[kept], w[kept]
    constant = rest - side if lifted else np.zeros(len(rest))
    return HomogeneousNeurons(W, w, constant, len(jumps), neurons_in_words(len(jumps), len(w), signs, exact))


def neurons_in_words(kinks: int, neurons: int, signs: Signs, exact: bool) -> str:
    fewest = "proved fewest" if exact and signs.proved else "not proved fewest"
    return f"{count(neurons, 'neuron')} for {count(kinks, 'kink')}, {fewest}: {signs.words}"


def count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"
