"""The few dimensions that the keys of a head lie in, and how rotary positions turn them there.

Heads that share their values usually share their keys: then all of their keys lie in one space, and turn alike, so that
fewer last tokens show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._linalg import svd

SPARE_LAST, SPARE_KEYS = 3, 2  # last tokens beyond the dimensions of a space, and how many times as many keys
FAINT, JUMP = 1e-5, 1e4  # of the largest singular value, and how much smaller than the one before: from there on it is
# what the box rounds inside, as in a table of angles in float32
KEY_NOISE = 2.0  # times the error of keys that their misfit says


@dataclass(frozen=True)
class Fitted:
    """`k (h, t, p)` and the rest of log-odds `(h, t)`, of one last token, the inverse of their errors, and the worst
    misfit."""

    k: np.ndarray
    rest: np.ndarray
    worth: np.ndarray
    misfit: float


def turn(keys: np.ndarray, space: np.ndarray) -> np.ndarray:
    """The matrix in coordinates of the space that takes keys `(t, j, p)` from one place to the next."""
    inside = keys @ space
    here, there = (x.reshape(-1, space.shape[1]) for x in (inside[:-1], inside[1:]))
    return np.linalg.lstsq(here, there, rcond=None)[0].T


def few_dimensions(
    found: list[Fitted], groups: list[list[int]], apart: float
) -> list[tuple[np.ndarray, list[int]]] | None:
    """The space `(p, r)` that the keys of each head lie in, if all have so few dimensions, and the heads that have it
    in common: a whole group, if that shares its keys as it shares its values, or the head alone."""
    spaces: dict[int, tuple[np.ndarray, list[int]]] = {}
    for group in groups:
        for heads in (group, *([h] for h in group)):
            space = space_of(found, heads, apart)
            spaces = {h: (space, heads) for h in heads if space is not None} | spaces
        if not all(h in spaces for h in group):
            return None
    return [spaces[h] for h in range(len(spaces))]


def space_of(found: list[Fitted], heads: list[int], apart: float) -> np.ndarray | None:
    """A basis of all keys of these heads, by the singular values above a share `apart` of the largest and above what
    errors of keys make; None where there are not enough keys to tell."""
    keys = np.concatenate([one.k[heads].reshape(-1, one.k.shape[-1]) for one in found])
    noise = max(float(np.median([one.misfit / one.worth[h] for one in found])) for h in heads)
    _, s, right = svd(keys)
    rank = max(1, int(np.sum(s > max(apart * s[0], KEY_NOISE * noise * (1 + np.sqrt(len(keys) / keys.shape[1]))))))
    jumps = np.flatnonzero((s[1:rank] <= FAINT * s[0]) & (s[1:rank] * JUMP <= s[: rank - 1]))
    rank = int(jumps[0]) + 1 if len(jumps) else rank
    enough = len(keys) >= SPARE_KEYS * rank and len(found) * len(heads) >= rank + SPARE_LAST
    return right[:rank].T if enough else None
