"""How many heads a block has, and where each one's outputs are, from second differences at one token.

`f([q + z ; q])` is answered like the token `q + z B / 2 + sum_h (z.k_h) z B_h / 4 + O(z^3)`, with `k_h = W_h q +
key_bias_h`. What `G(q + z B / 2)` leaves of it, for z and -z together, is the quadratic form `Q(z) = sum_h (z.k_h) z B_h
J / 2`. Half of its bilinear form at a fixed z, as a matrix in units of `B J`, is `sum_h (z.k_h) Pi_h` plus a matrix of
rank H: each `z.k_h` is an eigenvalue of `r_h - 1` dimensions, and fewer where answers are blind to some of the outputs.
No second Jacobian, no token to be found, and no matter in which directions answers are blind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._linalg import random_rotation, svd
from ..._oracles import Oracle, single
from .geometry import Reference, Total, View, with_copies

WIDTHS = np.geomspace(1e-8, 3e-2, 66)  # of a bunch, over the typical eigenvalue
SMALLEST_BUNCH = 2  # equal eigenvalues: one alone could be any


@dataclass(frozen=True)
class Bunches:
    """Eigenvalues `values` of so many dimensions, one for each head. `lost` is how many dimensions of each head's
    outputs answers do not show apart from the others'."""

    values: tuple[float, ...]
    sizes: tuple[int, ...]
    lost: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """Of the heads' value maps: one dimension is lost to the head's own key, the others to what is not seen."""
        return tuple(size + 1 + self.lost for size in self.sizes)


def bunches(eigenvalues: np.ndarray, least_lost: int, most_lost: int) -> list[Bunches]:
    """Ways to see H bunches that add up, those that hold for the most widths first.

    Ranks `b_h + 1 + g`, where g dimensions are lost, add up to all `p + g` of them: p eigenvalues, and those lost.
    """
    votes: dict[Bunches, int] = {}
    kept: dict[tuple, Bunches] = {}
    for width in WIDTHS * np.median(np.abs(eigenvalues)):
        real = np.sort(eigenvalues.real[np.abs(eigenvalues.imag) <= width])
        parts = np.split(real, np.flatnonzero(np.diff(real) > width) + 1)
        parts = [part for part in parts if len(part) >= SMALLEST_BUNCH]
        sizes, H = tuple(len(part) for part in parts), len(parts)
        for lost in range(least_lost, most_lost + 1):
            if H and sum(sizes) + H + (H - 1) * lost == len(eigenvalues):
                values = tuple(float(np.median(part)) for part in parts)
                way = kept.setdefault((sizes, lost), Bunches(values, sizes, lost))
                votes[way] = votes.get(way, 0) + 1
    return sorted(votes, key=lambda way: -votes[way])


@dataclass(frozen=True)
class Pencil:
    """The bilinear form at one z in units of `B J`, as a matrix, and what its eigenvectors are in units of answers."""

    matrix: np.ndarray
    basis: np.ndarray

    def space(self, value: float, size: int) -> np.ndarray:
        """Directions `(p, size)` of answers that only the head with that eigenvalue moves."""
        return self.basis @ svd(self.matrix - value * np.eye(len(self.matrix)))[2][-size:].T


def read_pencil(
    oracle: Oracle, at: Reference, view: View, total: Total, size: float, rng: np.random.Generator
) -> Pencil:
    """Eight answers for each dimension."""
    d, q, B = oracle.dim, at.token, total.B
    length = size * oracle.roundoff**0.25
    frame, z = length * np.sqrt(d) * random_rotation(d, rng), length * rng.standard_normal(d)

    def form(Z: np.ndarray) -> np.ndarray:
        both = np.concatenate([Z, -Z])
        left = np.asarray(oracle(with_copies(q, both[:, None], 1))) - single(oracle, q + both @ B / 2)
        return left[: len(Z)] + left[len(Z) :]

    bilinear = np.linalg.solve(frame, form(z + frame) - form(z - frame)) / length
    left, s, right = svd(view.seen(B))
    rank = int(np.sum(s > s[0] * max(d, len(s)) * oracle.roundoff))
    left, s, right = left[:, :rank], s[:rank], right[:rank]
    return Pencil((left.T @ (bilinear @ view.looks) @ right.T) / s[:, None], right.T)
