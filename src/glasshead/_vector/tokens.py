"""Which key tokens to send together: every head must tell all of them apart, and all of them must span everything.

Head h sees n tokens `D (n, d)` through `D C_h`, `C_h` orthonormal directions that it reads well. Tokens are well chosen
if every `D C_h` has orthogonal rows of one length, and so has D itself over all queries. Both hold nearly after a few
rounds of making first the one true and then the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .svd import svd

ROUNDS = 12
FAINT = 1e-3  # of what C reads: directions fainter than that cost more than they give
LEVEL = 0.5  # of the median singular value: smaller ones are lifted to that in the end


@dataclass(frozen=True)
class Readers:
    """What all heads read, side by side: `joint` directions, its `inverse`, and where one head ends."""

    joint: np.ndarray
    inverse: np.ndarray
    ends: np.ndarray


def side_by_side(bases: list[np.ndarray]) -> Readers:
    joint = np.concatenate(bases, axis=1)
    return Readers(joint, np.linalg.pinv(joint, rcond=FAINT), np.cumsum([C.shape[1] for C in bases])[:-1])


def token_blocks(bases: list[np.ndarray], each: int, total: int, rng: np.random.Generator) -> np.ndarray:
    """`(blocks, each, d)`: at least `total` tokens of length about 1."""
    readers, d = side_by_side(bases), len(bases[0])
    blocks = -(-total // each)
    D = rng.standard_normal((blocks * each, d))
    best, quality = D, 0.0
    for _ in range(ROUNDS):
        D = told_apart(orthogonal(D), readers, each)
        reached = least(D, readers, each) * least_singular(D)
        if reached > quality:
            best, quality = D, reached
    return (best / np.sqrt(np.mean(np.sum(best**2, axis=1)))).reshape(blocks, each, d)


def orthogonal(D: np.ndarray) -> np.ndarray:
    """The nearest matrix of this shape with equal singular values, of rows of length about 1."""
    left, _, right = svd(D)
    return left @ right * np.sqrt(len(D) / min(D.shape))


def told_apart(D: np.ndarray, readers: Readers, each: int) -> np.ndarray:
    """The small singular values of every block that a head sees lifted, with the least change of D."""
    seen = D @ readers.joint
    shaped = seen.reshape(-1, each, seen.shape[1])
    lifted = [lift(part) for part in np.split(shaped, readers.ends, axis=2)]
    return D + (np.concatenate(lifted, axis=2).reshape(seen.shape) - seen) @ readers.inverse


def lift(blocks: np.ndarray) -> np.ndarray:
    left, s, right = np.linalg.svd(blocks, full_matrices=False)
    level = np.median(s, axis=-1, keepdims=True)
    return left * np.clip(s, LEVEL * level, None)[:, None] @ right


def least(D: np.ndarray, readers: Readers, each: int) -> float:
    seen = (D @ readers.joint).reshape(-1, each, readers.joint.shape[1])
    parts = np.split(seen, readers.ends, axis=2)
    return float(min(np.linalg.svd(part, compute_uv=False).min() for part in parts))


def least_singular(D: np.ndarray) -> float:
    return float(np.linalg.svd(D, compute_uv=False)[-1])
