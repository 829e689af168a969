"""Which outputs belong to which head, with neither the heads nor their number known.

`B^-1 B_h` are complementary projectors `Pi_h` when the value maps' ranks add up to that of their sum B. In the
coordinates `z B`, the derivative of `[q + z ; q] -> answer` is `sum_h alpha_h Pi_h` plus one rank for each head:
`alpha_h` is an eigenvalue r - 1 times over, with head h's outputs, all but one direction, as its eigenvectors.
"""

from __future__ import annotations

import numpy as np

from .._oracle import Oracle
from .clusters import Bunches, ways_to_bunch
from .needs import NeedsScalarRoute
from .rank_drop import Drop, drop_rank, fit, spare_rows
from .readout import Readout
from .scale import Scale, unit
from .svd import svd

INPUTS = 4  # tried before giving up: two heads of the same weight at one input have different ones at another
LOST = 1e5  # roundings: a null space whose singular values are larger than that, relatively, is none
BLURRED = 1e5  # roundings: heads' outputs that lie closer together cannot be told apart


def find_spaces(oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator) -> list[Drop]:
    """For each head a basis of its outputs: about `m + 1` queries to find it and m to make it exact."""
    for _ in range(INPUTS):
        oracle.stage = "counting heads"
        q, z = (length * unit(rng.standard_normal(oracle.dim)) for length in (scale.last, scale.key))
        derivative = differentiate(oracle, readout, q, z, rng)
        ways = ways_to_bunch(np.linalg.eigvals(derivative), floor=np.cbrt(oracle.roundoff) / 100)
        if ways:
            oracle.stage = "telling heads apart"
            found = first_that_holds(oracle, readout, derivative, ways, q, scale.key, rng)
            if found:
                return found
    raise NeedsScalarRoute(
        f"the eigenvalues of the derivative do not come in bunches that add up to {readout.rank}, at {INPUTS} inputs: "
        "value maps of rank 1 or 2 leave none, ranks that add up to more than their sum's mix them, and in answers of "
        f"{-np.log10(oracle.roundoff):.0f} digits heads that overlap may drown"
    )


def differentiate(oracle: Oracle, readout: Readout, q: np.ndarray, z: np.ndarray, rng) -> np.ndarray:
    """How the answer to `[q + z ; q]` moves with `z B`, to about the cube root of a rounding."""
    step = float(np.cbrt(oracle.roundoff) * np.linalg.norm(z))
    keys = np.concatenate([z[None], z + step * across_inputs(readout, rng)])
    keys = (q + keys) - q  # as the box will see them
    moved = readout.moved(oracle(two_rows(q, keys)), q)
    return np.linalg.lstsq((keys[1:] - keys[0]) @ readout.map, moved[1:] - moved[0], rcond=None)[0]


def eigenspace(matrix: np.ndarray, value: float, size: int) -> np.ndarray:
    return svd(matrix - value * np.eye(len(matrix)))[2][-size:].T


def across_inputs(readout: Readout, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal directions, as rows, that span what B reads."""
    basis = svd(readout.map)[0]
    return np.linalg.qr(rng.standard_normal((readout.rank, readout.rank)))[0] @ basis.T


def two_rows(q: np.ndarray, keys: np.ndarray) -> np.ndarray:
    return np.stack([q + keys, np.broadcast_to(q, keys.shape)], axis=1)


def first_that_holds(oracle: Oracle, readout: Readout, derivative, ways: list[Bunches], q, length, rng) -> list[Drop]:
    """Of the ways to see the bunches the first that is true of keys long enough to lose nothing to differences."""
    Y, Z = np.empty((0, readout.rank)), np.empty((0, readout.rank))
    for way in ways:
        if len(way) == 1:  # everything belongs to one head, and what one row moves is parallel to its key's value
            Y, Z = more_rows(oracle, readout, Y, Z, q, length, 2, rng)
            if np.linalg.norm(Y - fit(Y, Z)[:, None] * Z) <= LOST * oracle.roundoff:
                return [Drop(np.eye(readout.rank), 0.0)]
            continue
        rows = readout.rank + min(spare_rows(readout.rank, min(size + 1 for _, size in way)), readout.rank)
        if rows > len(Y):  # fewer equal eigenvalues take more rows
            Y, Z = more_rows(oracle, readout, Y, Z, q, length, rows - len(Y), rng)
        drops = all_drops(Y, Z, derivative, way, LOST * oracle.roundoff)
        if drops and separate(drops, oracle.roundoff):
            return drops
    return []


def more_rows(oracle: Oracle, readout: Readout, Y: np.ndarray, Z: np.ndarray, q, length, count: int, rng):
    """Answers `Y` to two-row queries, and what their keys would give alone, `Z`: with the latter scaled to length 1."""
    keys = length * np.concatenate([across_inputs(readout, rng) for _ in range(-(-count // readout.rank))])[:count]
    keys = (q + keys) - q
    moved, full = readout.moved(oracle(two_rows(q, keys)), q), keys @ readout.map
    size = np.linalg.norm(full, axis=1, keepdims=True)
    return np.concatenate([Y, moved / size]), np.concatenate([Z, full / size])


def all_drops(Y: np.ndarray, Z: np.ndarray, derivative: np.ndarray, way: Bunches, clear: float) -> list[Drop]:
    """Every head's outputs, or nothing if one of them is not there."""
    drops = []
    for value, size in way:
        drops.append(drop_rank(Y, Z, eigenspace(derivative, value, size), size + 1))
        if drops[-1].ratio > clear:
            return []
    return drops


def separate(drops: list[Drop], roundoff: float) -> bool:
    s = np.linalg.svd(np.concatenate([drop.basis for drop in drops], axis=1), compute_uv=False)
    return bool(s[-1] > BLURRED * roundoff * s[0])
