"""The output space of every head, from the derivative of one answer: clusters of eigenvalues count heads and ranks.

With `Pi_h` the complementary projectors on the heads' outputs, the answer to `[q + z ; q]` moves with `z B` by the
matrix `sum_h alpha_h Pi_h` plus one of rank H, where `alpha_h` is the weight of head h: each `alpha_h` is an (r_h -
1)-fold eigenvalue, and its eigenspace is the head's output space up to one dimension. A Newton step on "for some
weights w_i the matrix with rows `y_i - w_i z_i` drops rank by r_h", over longer keys, completes the spaces to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._linalg import NullSpace, best_weights, null_space, spare_rows, svd, unit
from ...._meters import Readout
from ...._oracles import Oracle
from .scale import Scale


@dataclass(frozen=True)
class NeedsScalarRoute:
    """Why all outputs at once do not show the heads of this box. One combination of the outputs may show them."""

    reason: str

    def __str__(self) -> str:
        return self.reason


CLUSTER_WIDTHS = np.geomspace(1e-9, 3e-2, 46)  # of a bunch; what is the same for many of them in a row is likely
SMALLEST_CLUSTER = 2  # equal eigenvalues that make a bunch: one alone could be any
MEAN_EIGENVALUE = 0.5  # the weight of one of two tokens in their mean
WIDEST_CLUSTER = 0.1  # a bunch of the second kind, of weights between 0 and 1

Clusters = list[tuple[float, int]]


def clusterings(eigenvalues: np.ndarray, floor: float) -> list[Clusters]:
    """Where each bunch is and how many eigenvalues it has: by gaps between them, and as bunches of one size."""
    ways = bunches_by_gaps(eigenvalues, floor) + of_one_size(np.sort(np.real(eigenvalues)))
    sizes = [tuple(size for _, size in way) for way in ways]
    return [way for at, way in enumerate(ways) if sizes[at] not in sizes[:at]]


def bunches_by_gaps(eigenvalues: np.ndarray, floor: float) -> list[Clusters]:
    """Ways that add up, those that hold for the most widths first."""
    votes: dict[tuple[int, ...], int] = {}
    ways: dict[tuple[int, ...], Clusters] = {}
    for width in (width for width in CLUSTER_WIDTHS if width >= floor):
        found = without_mean_cluster(clustered(eigenvalues, float(width)), len(eigenvalues), float(width))
        sizes = tuple(size for _, size in found)
        if found and sum(sizes) + len(sizes) == len(eigenvalues):
            votes[sizes] = votes.get(sizes, 0) + 1
            ways.setdefault(sizes, found)
    return [ways[sizes] for sizes in sorted(votes, key=lambda sizes: -votes[sizes])]


def clustered(eigenvalues: np.ndarray, width: float) -> Clusters:
    """Runs of nearly real eigenvalues in which neighbours are no further than `width` apart."""
    real = np.sort(np.real(eigenvalues)[np.abs(np.imag(eigenvalues)) <= width])
    parts = np.split(real, np.flatnonzero(np.diff(real) > width) + 1)
    return [(float(np.median(part)), len(part)) for part in parts if len(part) >= SMALLEST_CLUSTER]


def without_mean_cluster(bunches: Clusters, total: int, width: float) -> Clusters:
    """The bunch of a head that takes the mean, where there is one, as if it had left a stray like all others."""
    if sum(size + 1 for _, size in bunches) != total + 1:
        return bunches
    return [(value, size - (abs(value - MEAN_EIGENVALUE) <= width)) for value, size in bunches]


def of_one_size(values: np.ndarray) -> list[Clusters]:
    """Heads of equal rank, the largest ranks first: half a bunch would pass for a whole one."""
    ranks = [rank for rank in range(len(values) - 1, SMALLEST_CLUSTER, -1) if len(values) % rank == 0]
    ways = [tightest(values, rank - 1, len(values) // rank) for rank in ranks]
    return [way for way in ways if way]


def tightest(values: np.ndarray, size: int, count: int) -> Clusters:
    """`count` windows of `size` values that do not overlap, the narrowest ones; none if some are too wide."""
    widths = values[size - 1 :] - values[: len(values) - size + 1]
    free, found = np.ones(len(values), bool), []
    for start in np.argsort(widths):
        window = slice(start, start + size)
        if len(found) == count or widths[start] > WIDEST_CLUSTER:
            break
        if free[window].all():
            free[window] = False
            found.append((float(np.median(values[window])), size))
    return sorted(found) if len(found) == count else []


INPUTS_TRIED = 4  # tried before giving up: two heads of the same weight at one input have different ones at another
NULL_ROUNDINGS = 1e5  # roundings: a null space whose singular values are larger than that, relatively, is none
OVERLAP_ROUNDINGS = 1e5  # roundings: heads' outputs that lie closer together cannot be told apart


def find_spaces(
    oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator
) -> list[NullSpace] | NeedsScalarRoute:
    """For each head a basis of its outputs: about `m + 1` queries to find it and m to make it exact."""
    for _ in range(INPUTS_TRIED):
        oracle.stage = "counting heads"
        q, z = (length * unit(rng.standard_normal(oracle.dim)) for length in (scale.last, scale.key))
        derivative = read_derivative(oracle, readout, q, z, rng)
        ways = clusterings(np.linalg.eigvals(derivative), floor=np.cbrt(oracle.roundoff) / 100)
        if ways:
            oracle.stage = "telling heads apart"
            found = find_first_valid(oracle, readout, derivative, ways, q, scale.key, rng)
            if found:
                return found
    return NeedsScalarRoute(
        f"the eigenvalues of the derivative do not come in bunches that add up to {readout.rank}, at {INPUTS_TRIED} "
        "inputs: value maps of rank 1 or 2 leave none, ranks that add up to more than their sum's mix them, and in "
        f"answers of {-np.log10(oracle.roundoff):.0f} digits heads that overlap may drown"
    )


def read_derivative(oracle: Oracle, readout: Readout, q: np.ndarray, z: np.ndarray, rng) -> np.ndarray:
    """How the answer to `[q + z ; q]` moves with `z B`, to about the cube root of a rounding."""
    step = float(np.cbrt(oracle.roundoff) * np.linalg.norm(z))
    keys = np.concatenate([z[None], z + step * across_inputs(readout, rng)])
    keys = (q + keys) - q  # as the box will see them
    moved = readout.moved(oracle(key_and_query(q, keys)), q)
    return np.linalg.lstsq((keys[1:] - keys[0]) @ readout.map, moved[1:] - moved[0], rcond=None)[0]


def eigenspace(matrix: np.ndarray, value: float, size: int) -> np.ndarray:
    return svd(matrix - value * np.eye(len(matrix)))[2][-size:].T


def across_inputs(readout: Readout, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal directions, as rows, that span what B reads."""
    basis = svd(readout.map)[0]
    return np.linalg.qr(rng.standard_normal((readout.rank, readout.rank)))[0] @ basis.T


def key_and_query(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    return np.stack([q + keys, np.broadcast_to(q, keys.shape)], axis=1)


def find_first_valid(
    oracle: Oracle, readout: Readout, derivative, ways: list[Clusters], q, length, rng
) -> list[NullSpace]:
    """The first way to see the clusters that is true of keys long enough to lose nothing to differences."""
    Y, Z = np.empty((0, readout.rank)), np.empty((0, readout.rank))
    for way in ways:
        if len(way) == 1:  # everything belongs to one head, and what one row moves is parallel to its key's value
            Y, Z = read_more_rows(oracle, readout, Y, Z, q, length, 2, rng)
            if np.linalg.norm(Y - best_weights(Y, Z)[:, None] * Z) <= NULL_ROUNDINGS * oracle.roundoff:
                return [NullSpace(np.eye(readout.rank), 0.0)]
            continue
        rows = readout.rank + min(spare_rows(readout.rank, min(size + 1 for _, size in way)), readout.rank)
        if rows > len(Y):  # fewer equal eigenvalues take more rows
            Y, Z = read_more_rows(oracle, readout, Y, Z, q, length, rows - len(Y), rng)
        drops = null_spaces(Y, Z, derivative, way, NULL_ROUNDINGS * oracle.roundoff)
        if drops and are_separate(drops, OVERLAP_ROUNDINGS * oracle.roundoff):
            return drops
    return []


def read_more_rows(oracle: Oracle, readout: Readout, Y: np.ndarray, Z: np.ndarray, q, length, count: int, rng):
    """Answers `Y` to two-row queries, and what their keys would give alone, `Z`: with the latter scaled to length 1."""
    keys = length * np.concatenate([across_inputs(readout, rng) for _ in range(-(-count // readout.rank))])[:count]
    keys = (q + keys) - q
    moved, full = readout.moved(oracle(key_and_query(q, keys)), q), keys @ readout.map
    size = np.linalg.norm(full, axis=1, keepdims=True)
    return np.concatenate([Y, moved / size]), np.concatenate([Z, full / size])


def null_spaces(Y: np.ndarray, Z: np.ndarray, derivative: np.ndarray, way: Clusters, clear: float) -> list[NullSpace]:
    """Every head's outputs, or nothing if one of them is not there."""
    drops = []
    for value, size in way:
        drops.append(null_space(Y, Z, eigenspace(derivative, value, size), size + 1))
        if drops[-1].ratio > clear:
            return []
    return drops


def are_separate(drops: list[NullSpace], least: float) -> bool:
    s = np.linalg.svd(np.concatenate([drop.basis for drop in drops], axis=1), compute_uv=False)
    return bool(s[-1] > least * s[0])
