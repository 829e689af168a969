"""Which side of each hyperplane is the neuron's? The question on which the number of neurons depends.

A neuron `c ReLU(s J.x)` with s = ±1 is `(c |J.x| + c s J.x) / 2`, so m neurons make `l.x + (1/2) sum_k c_k |J_k.x|`
exactly when `2 l = sum_k ± J_k` for some choice of signs. For independent J_k that is a linear system with one
solution, which also settles how many neurons more it takes where its entries are not all ±1. With few dependencies all
signs of the dependent J_k can be tried. A linear program over the box [-1, 1]^m finds the choice with probability near
1 up to about m = 2 d: beyond that the box has other feasible points than its corner. In general this is a vector
partition problem, and two extra neurons, `ReLU(r.x) - ReLU(-r.x)`, carry the remainder instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linprog

from .._types import Float
from .tolerances import INDEPENDENT, WHOLE_MULTIPLE

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
