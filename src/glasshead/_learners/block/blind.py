"""What answers at one token do not see of every head's value map, from another token where they do.

Keys z beside copies of another token x are answered like `x + sum_h a_h z B_h`. All that is unknown of it are the
weights, and how far it lies along the directions that the first token is blind to: so few numbers that every answer
tells them exactly, whatever is not seen at x. How far that is, is linear in what the maps lack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._linalg import norms
from ..._oracles import STALLED_ROUNDINGS, Oracle, find_alike, read_single
from .geometry import Reference, Total, copies_of, with_copies

MORE_ROWS, SPARE_EQUATIONS = 1.1, 8  # times as many as there are unknowns, and so many beyond
MISMATCHED = 30.0  # times the typical misfit of a row: another token that happens to be answered alike
WEIGHT_ACCURACY = 1e-12  # weights are of the order of one over the copies


@dataclass(frozen=True)
class SecondReference:
    """Another token, and the heads' keys there, roughly: `(H, d)`."""

    reference: Reference
    keys: np.ndarray


def read_blind_parts(
    oracle: Oracle,
    at: Reference,
    second: SecondReference,
    total: Total,
    z: np.ndarray,
    B: np.ndarray,
    V: list[np.ndarray],
) -> np.ndarray:
    """Value maps `B (H, d, d)` with inputs `V`, made right along the directions that the token `at` is blind to."""
    blind = at.within(total.visible).blind
    unknown = sum(v.shape[1] for v in V)
    z = z[: int(MORE_ROWS * unknown) + SPARE_EQUATIONS]
    weights, along, left = find_along(oracle, second, z, B, blind)
    fine = (left <= MISMATCHED * np.median(left)) & ((weights > 0) & (weights < 1)).all(axis=1)
    if fine.sum() < unknown:
        return B
    z, weights, along = z[fine], weights[fine], along[fine]
    each = np.concatenate([weights[:, [h]] * (z @ v) for h, v in enumerate(V)], axis=1)
    C = np.linalg.lstsq(each, along, rcond=None)[0] @ blind
    ends = np.cumsum([v.shape[1] for v in V])
    return B + np.stack([v @ C[end - v.shape[1] : end] for v, end in zip(V, ends, strict=True)])


def find_along(
    oracle: Oracle, second: SecondReference, z: np.ndarray, B: np.ndarray, blind: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights `(b, H)` of keys z beside copies of the other token, how far `(b, f)` they lie along `blind`, and how
    far off answers still are."""
    other, H = second.reference, len(B)
    copies = copies_of(oracle)
    answers = np.asarray(oracle(with_copies(other.token, z[:, None], copies)))
    directions = np.broadcast_to(blind, (len(z), *blind.shape))
    moves = np.concatenate([np.einsum("bd,hde->bhe", z, B, optimize=True), directions], axis=1)
    inverse = np.linalg.pinv(moves @ other.jacobian)
    e = np.exp(z @ second.keys.T)
    start = np.concatenate([e / (copies + e), np.zeros((len(z), len(blind)))], axis=1)
    left = np.full(len(z), np.inf)

    def read_step(found: np.ndarray, which: np.ndarray) -> np.ndarray:
        moved = np.einsum("bh,bhe->be", found, moves[which], optimize=True)
        off = answers[which] - read_single(oracle, other.token + moved)
        left[which] = norms(off)
        return np.einsum("bk,bkh->bh", off, inverse[which], optimize=True)

    found, _ = find_alike(read_step, start, WEIGHT_ACCURACY, STALLED_ROUNDINGS * oracle.roundoff)
    return found[:, :H], found[:, H:], left
