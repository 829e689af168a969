"""The keys of all heads at other query tokens: column after column of W, and fewer questions once a rank is known.

From one query token to a near one the keys change little, so the same stands serve.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._errors import NotConverged
from .._meter.frame import random_rotation
from .._meter.lever import longest
from .._types import Float
from .keys import Site
from .pairs import Even, Pairs
from .stands import stands

MOVED, STILL = 1.5, 0.3  # the largest change of a score that a step may make at a stand; and one to double the step
SMALLER, LARGER = 3.0, 2.0
TRIES = 24
NOTHING = 1e-8  # of the columns so far: what a new one has outside their span, if it has nothing
WEAK, SPARE = 0.03, 3  # of the largest singular value: a direction that columns hardly show; then so many more
FAINT = 1e-3  # of a key: about the smallest column, in steps, that W is expected to have


class Columns:
    """Asks for columns of every W; `bases[h]` spans those of head h, once its rank is known."""

    def __init__(self, face: Even, pairs: Pairs, rng: np.random.Generator, rank: int | None):
        self.face, self.pairs, self.rng, self.rank = face, pairs, rng, rank
        self.reach = longest(face.box.oracle) / 4
        self.site = Site(face, pairs, stands(pairs, self.reach, rng), [np.eye(face.box.dim)] * len(pairs))
        self.size = float(np.linalg.norm(face.q))  # of the step to another query token
        self.found: list[np.ndarray] = []  # W_h times each direction asked, (H, d)

    @property
    def ranks(self) -> list[int]:
        return self.site.ranks

    def all(self) -> Float[np.ndarray, "H d d"]:
        """Every W."""
        directions = random_rotation(self.face.box.dim, self.rng)
        for direction in directions:
            self.found.append(self.column(direction))
            self.site = replace(self.site, bases=[self.narrowed(h) for h in range(len(self.pairs))])
        W = np.einsum("jha,jb->hab", np.array(self.found), directions)
        # The column that told the rank left the span by its error only. Very long tokens would show that as a score.
        return np.array([B @ (B.T @ one) for B, one in zip(self.site.bases, W, strict=True)])

    def column(self, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, "H d"]:
        """Every W times a unit vector."""
        for _ in range(TRIES):
            site, size = replace(self.site, face=self.face.at(self.face.q + self.size * direction)), self.size
            pilots, answers = site.pilots()
            moved = site.moved(pilots, answers)
            keys = site.keys(pilots, answers, self.rng) if moved <= MOVED else None
            if keys is None:
                self.size /= SMALLER
                continue
            if moved < STILL:
                self.size = min(self.size * LARGER, self.reach)
            return (keys - self.pairs.K) / size
        raise NotConverged("the heads' keys at another query token, however near, do not follow from what is known")

    def narrowed(self, h: int) -> np.ndarray:
        """The span of the columns of head h, once these are more than its dimensions, and show all of it well."""
        known = self.site.bases[h]
        if known.shape[1] < len(known):
            return known
        columns = np.array([column[h] for column in self.found]).T
        U, s, _ = np.linalg.svd(columns)
        least = FAINT * float(np.linalg.norm(self.pairs.K[h])) / self.size
        rank = int(np.sum(s > NOTHING * (s[0] + least) + self.site.error(h) / self.size))
        spare = columns.shape[1] - rank
        if self.rank is not None and columns.shape[1] >= self.rank:  # then none is needed to tell
            rank, spare = min(rank, self.rank), columns.shape[1] - self.rank + 1
        weak = rank > 0 and s[rank - 1] < WEAK * s[0]
        return U[:, :rank] if spare > SPARE or (spare > 0 and not weak) else known
