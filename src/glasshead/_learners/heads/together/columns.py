"""Where to look at one head: on its own hyperplane, where it is half on, with all others as good as on or off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...._errors import NotConverged
from ...._linalg import random_rotation
from ...._types import Float
from .fit import Even, Pairs
from .levenberg import levenberg

STAND_TRIES = 4000
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
    Z = rng.standard_normal((STAND_TRIES, d))
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


SCORE = 1.5  # of head h, around its stand
AGREE = 1e-8  # of a head's answer: how well all equations are solved, where rounding does not say more
ERRORS = 30.0  # times the error of an answer, likewise
ALMOST = 1 - 1e-12  # the largest gate that is still a number of its own


@dataclass(frozen=True)
class Site:
    """A query token, the pairs predicted there, a stand for each, and a basis of what its key may differ by."""

    face: Even
    pairs: Pairs
    stands: Float[np.ndarray, "H d"]
    bases: list[np.ndarray]

    @property
    def ranks(self) -> list[int]:
        return [B.shape[1] for B in self.bases]

    def pilots(self) -> tuple[Float[np.ndarray, "H d"], Float[np.ndarray, " H"]]:
        return self.face(self.stands)

    def moved(self, Z: Float[np.ndarray, "H d"], y: Float[np.ndarray, " H"]) -> float:
        """By how much the score of a head at its own stand is not what was predicted, at most."""
        values, gates = 0.5 * Z @ self.pairs.V.T, self.pairs.gates(Z)
        weight = (y - (values * gates).sum(axis=1)) / np.diag(values) + np.diag(gates)
        scores = 2 * np.arctanh(np.clip(weight, -ALMOST, ALMOST))
        return float(np.abs(scores - np.diag(Z @ self.pairs.K.T)).max())

    def keys(
        self, pilots: np.ndarray, answers: np.ndarray, rng: np.random.Generator
    ) -> Float[np.ndarray, "H d"] | None:
        """The keys, or None where the equations contradict each other."""
        H = len(self.pairs)
        sent, y = self.face(np.vstack([self.around(h, rng) for h in range(H)]))
        Z, y = np.vstack([pilots, sent]), np.append(answers, y)
        own = np.append(np.arange(H), np.repeat(np.arange(H), self.ranks))
        weight = 2 / np.abs((Z @ self.pairs.V.T)[np.arange(len(Z)), own])
        enough = AGREE + ERRORS * float((weight * self.face.noise(Z)).max())

        def residual(x: np.ndarray) -> np.ndarray:
            return weight * (y - self.changed(x)(Z))

        def jacobian(x: np.ndarray) -> np.ndarray:
            slopes = weight[:, None] * self.changed(x).by_keys(Z)
            return np.concatenate([slopes[:, h, None] * (Z @ B) for h, B in enumerate(self.bases)], axis=1)

        x, left = levenberg(residual, jacobian, np.zeros(sum(self.ranks)), enough)
        return self.changed(x).K if left <= enough else None

    def changed(self, x: Float[np.ndarray, " p"]) -> Pairs:
        parts = np.split(x, np.cumsum(self.ranks)[:-1])
        return Pairs(self.pairs.K + [B @ part for B, part in zip(self.bases, parts, strict=True)], self.pairs.V)

    def around(self, h: int, rng: np.random.Generator) -> Float[np.ndarray, "r d"]:
        """As many keys around the stand of head h as it has unknowns."""
        B, key = self.bases[h], self.pairs.K[h]
        d, r = B.shape
        if r == 0:
            return np.empty((0, d))
        seen = max(float(np.linalg.norm(B.T @ key)), float(np.linalg.norm(key)) * np.sqrt(r / d))
        return self.stands[h] + SCORE * np.sqrt(r) / seen * random_rotation(r, rng) @ B.T

    def error(self, h: int) -> float:
        """About how far the key of head h is off: errors of answers, as scores, for scores of about 1."""
        stand = self.stands[h]
        score = ERRORS * float(self.face.noise(stand[None])[0]) / abs(float(stand @ self.pairs.V[h]))
        return score * float(np.linalg.norm(self.pairs.K[h]))


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
        self.reach = face.box.oracle.reach / 4
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
