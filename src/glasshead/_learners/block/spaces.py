"""How many heads a block has, and where each one's outputs are, from second differences at one token.

`f([q + z ; q])` is answered like the token `q + z B / 2 + sum_h (z.k_h) z B_h / 4 + O(z^3)`, with `k_h = W_h q +
key_bias_h`. What `G(q + z B / 2)` leaves of it, for z and -z together, is the quadratic form `Q(z) = sum_h (z.k_h) z
B_h J / 2`. Half of its bilinear form at a fixed z, as a matrix in units of `B J`, is `sum_h (z.k_h) Pi_h` plus a matrix
of rank H: each `z.k_h` is an eigenvalue of `r_h - 1` dimensions, and fewer where answers are blind to some of the
outputs. No second Jacobian, no token to be found, and no matter in which directions answers are blind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._linalg import random_rotation, svd
from ..._oracles import Oracle, read_single
from .geometry import Reference, Rows, Total, View, few_digits, find_moves, with_copies

WIDTHS = np.geomspace(1e-8, 3e-2, 66)  # of a bunch, over the typical eigenvalue
SECOND_ORDER, SIXTH_ORDER = ((1, 1.0),), ((1, 1.5), (2, -0.6), (3, 0.1))  # steps of differences, and their weights
MATCHED_ROUNDINGS = 6.0  # of an answer: how exactly tokens are found
SMALLEST_BUNCH = 2  # equal eigenvalues: one alone could be any


@dataclass(frozen=True)
class Bunches:
    """Eigenvalues `values` of so many dimensions, one for each head. `lost` is how many dimensions of each head's
    outputs answers do not show apart from the others', `stray` how many its own key takes."""

    values: tuple[float, ...]
    sizes: tuple[int, ...]
    lost: int
    stray: int = 1

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the heads' value maps: what shows, what is lost to the head's own key, and what is not seen."""
        return tuple(size + self.stray + self.lost for size in self.sizes)


def bunches(eigenvalues: np.ndarray, least_lost: int, most_lost: int, stray: int = 1) -> list[Bunches]:
    """Ways to see H bunches that add up: by gaps, and as heads of equal rank; these first where gaps count as many,
    since an eigenvalue that belongs to none may lie next to a bunch.

    Ranks `b_h + stray + g`, where g dimensions are lost, add up to all `p + g` of them: p eigenvalues, and those lost.
    """
    if len(eigenvalues) == 0:
        return []
    lost = range(least_lost, most_lost + 1)
    gaps = by_gaps(eigenvalues, lost, stray)
    equal = [way for g in lost for way in of_equal_rank(eigenvalues, g, stray)]
    counted = [way for way in equal if gaps and (len(way.sizes), way.lost) == (len(gaps[0].sizes), gaps[0].lost)]
    ways = counted + gaps + equal
    first: dict[tuple, Bunches] = {}
    for way in ways:
        first.setdefault((way.sizes, way.lost), way)
    return list(first.values())


def of_equal_rank(eigenvalues: np.ndarray, lost: int, stray: int) -> list[Bunches]:
    """The fewest heads of one rank: half a bunch would pass for a whole one."""
    p, values = len(eigenvalues), np.sort(np.real(eigenvalues))
    for H in range(1, p // SMALLEST_BUNCH + 1):
        size, rest = divmod(p - stray * H - (H - 1) * lost, H)
        if rest or size < SMALLEST_BUNCH:
            continue
        widths = values[size - 1 :] - values[: p - size + 1]
        free, parts = np.ones(p, bool), []
        for start in np.argsort(widths):
            if len(parts) == H or widths[start] > WIDTHS[-1] * np.median(np.abs(values)):
                break
            if free[start : start + size].all():
                free[start : start + size] = False
                parts.append(float(np.median(values[start : start + size])))
        if len(parts) == H:
            return [Bunches(tuple(parts), (size,) * H, lost, stray)]
    return []


def by_gaps(eigenvalues: np.ndarray, lost: range, stray: int) -> list[Bunches]:
    """Runs of eigenvalues with gaps between them, those that hold for the most widths of a gap first."""
    votes: dict[tuple, int] = {}
    ways: dict[tuple, Bunches] = {}
    for width in WIDTHS * np.median(np.abs(eigenvalues)):
        real = np.sort(np.real(eigenvalues)[np.abs(np.imag(eigenvalues)) <= width])
        parts = np.split(real, np.flatnonzero(np.diff(real) > width) + 1)
        parts = [part for part in parts if len(part) >= SMALLEST_BUNCH]
        sizes, H = tuple(len(part) for part in parts), len(parts)
        for g in lost:
            if H and sum(sizes) + stray * H + (H - 1) * g == len(eigenvalues):
                ways.setdefault((sizes, g), Bunches(tuple(float(np.median(part)) for part in parts), sizes, g, stray))
                votes[sizes, g] = votes.get((sizes, g), 0) + 1
    return [ways[key] for key in sorted(votes, key=lambda key: -votes[key])]


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
    """Eight answers for each dimension; three times as many where few digits make long keys necessary, whose fourth and
    sixth powers then cancel. Kinks that lie between would be too much for that: there the tokens themselves are found
    that are answered alike, which know of no kinks."""
    d, q, B = oracle.dim, at.token, total.B
    length = size * oracle.roundoff**0.25
    matched, wanted = few_digits(oracle) and at.kinked, MATCHED_ROUNDINGS * oracle.roundoff
    powers = SIXTH_ORDER if few_digits(oracle) else SECOND_ORDER
    rotation, z = random_rotation(d, rng), rng.standard_normal(d)
    farthest = powers[-1][0] * (np.sqrt(d) + float(np.linalg.norm(z)))
    length = min(length, (oracle.reach - float(np.linalg.norm(q))) / farthest)  # or tokens may not be sent
    frame, z = length * np.sqrt(d) * rotation, length * z

    def read_form(Z: np.ndarray) -> np.ndarray:
        both = np.concatenate([Z, -Z])
        answers, first = np.asarray(oracle(with_copies(q, both[:, None], 1))), both @ B / 2
        if matched:
            left = view.seen(find_moves(oracle, at, view, Rows(both, answers, first, 1), wanted).moves - first)
        else:
            left = answers - read_single(oracle, q + first)
        return left[: len(Z)] + left[len(Z) :]

    even = sum(weight / k**2 * (read_form(k * (z + frame)) - read_form(k * (z - frame))) for k, weight in powers)
    bilinear = np.linalg.solve(frame, even) / length
    left, s, right = svd(view.seen(B))
    rank = int(np.sum(s > s[0] * max(d, len(s)) * oracle.roundoff))
    left, s, right = left[:, :rank], s[:rank], right[:rank]
    bilinear = bilinear if matched else bilinear @ view.looks
    return Pencil((left.T @ bilinear @ right.T) / s[:, None], right.T)
