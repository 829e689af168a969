"""Where to look at one head: on its own hyperplane, where it is half on, with all others as good as on or off."""

from __future__ import annotations

import numpy as np

from .._types import Float
from .pairs import Pairs

TRIES = 4000
OFF = 8.0  # the score of the others: what is left of them is known well enough
BESIDE = 1e-3  # of a head's key, outside of the key looked at: less is a proportional one, which no stand turns off
FURTHEST = 1e4  # the longest stand, over the length at which the head's score would be 1


def stands(pairs: Pairs, reach: float, rng: np.random.Generator) -> Float[np.ndarray, "H d"]:
    return np.array([stand(pairs, h, reach, rng) for h in range(len(pairs))])


def stand(pairs: Pairs, h: int, reach: float, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
    """The key, of random ones orthogonal to `k_h`, at which an error of an answer spoils head h least."""
    d, size = pairs.K.shape[1], float(np.linalg.norm(pairs.K[h]))
    if d == 1:
        return 1 / pairs.K[h]  # there is no hyperplane to stand on
    own = pairs.K[h] / size
    Z = rng.standard_normal((TRIES, d))
    Z -= np.outer(Z @ own, own)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    across = np.linalg.norm(pairs.K - np.outer(pairs.K @ own, own), axis=1)
    others = across > BESIDE * np.linalg.norm(pairs.K, axis=1)
    least = np.abs(Z @ pairs.K[others].T).min(axis=1, initial=np.inf)
    length = np.minimum(np.minimum(OFF / least, reach), FURTHEST / size) + 1 / size
    values = np.abs(Z @ pairs.V.T)
    mixed = values.sum(axis=1) / np.maximum(values[:, h], np.finfo(float).tiny)
    best = int(np.argmin(mixed * (length * size) ** 2))
    return length[best] * Z[best]
