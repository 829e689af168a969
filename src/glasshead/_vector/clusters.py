"""Eigenvalues that come in bunches: each bunch is a head, and its size says the rank of the head's value map.

A head of rank r has r - 1 equal eigenvalues and leaves one stray, so bunches and strays must add up; only a head that
takes the mean of all tokens leaves none. They are known to a few digits only, and a stray may sit next to a bunch:
hence several ways to see them, the likeliest first.
"""

from __future__ import annotations

import numpy as np

WIDTHS = np.geomspace(1e-9, 3e-2, 46)  # of a bunch; what is the same for many of them in a row is likely
FEWEST = 2  # equal eigenvalues that make a bunch: one alone could be any
EVEN = 0.5  # the weight of one of two tokens in their mean
WIDEST = 0.1  # a bunch of the second kind, of weights between 0 and 1

Bunches = list[tuple[float, int]]


def ways_to_bunch(eigenvalues: np.ndarray, floor: float) -> list[Bunches]:
    """Where each bunch is and how many eigenvalues it has: by gaps between them, and as bunches of one size."""
    ways = by_gaps(eigenvalues, floor) + of_one_size(np.sort(np.real(eigenvalues)))
    sizes = [tuple(size for _, size in way) for way in ways]
    return [way for at, way in enumerate(ways) if sizes[at] not in sizes[:at]]


def by_gaps(eigenvalues: np.ndarray, floor: float) -> list[Bunches]:
    """Ways that add up, those that hold for the most widths first."""
    votes: dict[tuple[int, ...], int] = {}
    ways: dict[tuple[int, ...], Bunches] = {}
    for width in (width for width in WIDTHS if width >= floor):
        found = short_of_one(grouped(eigenvalues, float(width)), len(eigenvalues), float(width))
        sizes = tuple(size for _, size in found)
        if found and sum(sizes) + len(sizes) == len(eigenvalues):
            votes[sizes] = votes.get(sizes, 0) + 1
            ways.setdefault(sizes, found)
    return [ways[sizes] for sizes in sorted(votes, key=lambda sizes: -votes[sizes])]


def grouped(eigenvalues: np.ndarray, width: float) -> Bunches:
    """Runs of nearly real eigenvalues in which neighbours are no further than `width` apart."""
    real = np.sort(np.real(eigenvalues)[np.abs(np.imag(eigenvalues)) <= width])
    parts = np.split(real, np.flatnonzero(np.diff(real) > width) + 1)
    return [(float(np.median(part)), len(part)) for part in parts if len(part) >= FEWEST]


def short_of_one(bunches: Bunches, total: int, width: float) -> Bunches:
    """The bunch of a head that takes the mean, where there is one, as if it had left a stray like all others."""
    if sum(size + 1 for _, size in bunches) != total + 1:
        return bunches
    return [(value, size - (abs(value - EVEN) <= width)) for value, size in bunches]


def of_one_size(values: np.ndarray) -> list[Bunches]:
    """Heads of equal rank, the largest ranks first: half a bunch would pass for a whole one."""
    ranks = [rank for rank in range(len(values) - 1, FEWEST, -1) if len(values) % rank == 0]
    ways = [tightest(values, rank - 1, len(values) // rank) for rank in ranks]
    return [way for way in ways if way]


def tightest(values: np.ndarray, size: int, count: int) -> Bunches:
    """`count` windows of `size` values that do not overlap, the narrowest ones; none if some are too wide."""
    widths = values[size - 1 :] - values[: len(values) - size + 1]
    free, found = np.ones(len(values), bool), []
    for start in np.argsort(widths):
        window = slice(start, start + size)
        if len(found) == count or widths[start] > WIDEST:
            break
        if free[window].all():
            free[window] = False
            found.append((float(np.median(values[window])), size))
    return sorted(found) if len(found) == count else []
