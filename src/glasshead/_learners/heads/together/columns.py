"""Every column of every W, by following the keys of all heads to other query tokens.

At the query token `q + s x` the key of head h is `k_h + s W_h x`. The values are known, so the keys there are a small
nonlinear system: for every head as many answers as its key has unknowns, asked around a point of the head's own
hyperplane `z.k_h = 0`, where it is half on and all others as good as on or off. The step s is as long as scores at
these points still follow from what is known. Once the columns of a head span less than all of space, so may its
unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...._errors import NotConverged
from ...._least_squares import levenberg
from ...._linalg import random_rotation
from ...._types import Float
from .even import EvenPart
from .pairs import ANSWER_ERRORS, FOLLOWED, LARGEST_GATE, PROPORTIONAL, SMALLEST_COLUMN, Pairs

HYPERPLANE_TRIES = 4000
OFF_SCORE = 8.0  # the score of the others: what is left of them is known well enough
FARTHEST_POINT = 1e4  # the longest such point, over the length at which the head's score would be 1


def hyperplane_point(pairs: Pairs, h: int, reach: float, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
    """The key, of random ones orthogonal to `k_h`, at which an error of an answer spoils head h least."""
    d, size = pairs.K.shape[1], float(np.linalg.norm(pairs.K[h]))
    if d == 1:
        return 1 / pairs.K[h]  # the hyperplane is the origin
    own = pairs.K[h] / size
    Z = rng.standard_normal((HYPERPLANE_TRIES, d))
    Z -= np.outer(Z @ own, own)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    across = np.linalg.norm(pairs.K - np.outer(pairs.K @ own, own), axis=1)
    others = across > PROPORTIONAL * np.linalg.norm(pairs.K, axis=1)
    least = np.abs(Z @ pairs.K[others].T).min(axis=1, initial=np.inf)
    length = np.minimum(np.minimum(OFF_SCORE / least, reach), FARTHEST_POINT / size) + 1 / size
    values = np.abs(Z @ pairs.V.T)
    mixed = values.sum(axis=1) / np.maximum(values[:, h], np.finfo(float).tiny)
    best = int(np.argmin(mixed * (length * size) ** 2))
    return length[best] * Z[best]


POINT_SCORE = 1.5  # of head h, around its point


@dataclass(frozen=True)
class Prediction:
    """A query token, the pairs predicted there, a point of every head's hyperplane, and a basis of what its key may
    differ by."""

    even: EvenPart
    pairs: Pairs
    points: Float[np.ndarray, "H d"]
    bases: list[np.ndarray]

    @property
    def ranks(self) -> list[int]:
        return [B.shape[1] for B in self.bases]

    def read_pilots(self) -> tuple[Float[np.ndarray, "H d"], Float[np.ndarray, " H"]]:
        return self.even(self.points)

    def score_change(self, Z: Float[np.ndarray, "H d"], y: Float[np.ndarray, " H"]) -> float:
        """By how much the score of a head at its own point is not what was predicted, at most."""
        values, gates = 0.5 * Z @ self.pairs.V.T, self.pairs.gates(Z)
        weight = (y - (values * gates).sum(axis=1)) / np.diag(values) + np.diag(gates)
        scores = 2 * np.arctanh(np.clip(weight, -LARGEST_GATE, LARGEST_GATE))
        return float(np.abs(scores - np.diag(Z @ self.pairs.K.T)).max())

    def read_keys(
        self, pilots: np.ndarray, answers: np.ndarray, rng: np.random.Generator
    ) -> Float[np.ndarray, "H d"] | None:
        """The keys, or None where the equations contradict each other."""
        H = len(self.pairs)
        sent, y = self.even(np.vstack([self.around_point(h, rng) for h in range(H)]))
        Z, y = np.vstack([pilots, sent]), np.append(answers, y)
        own = np.append(np.arange(H), np.repeat(np.arange(H), self.ranks))
        weight = 2 / np.abs((Z @ self.pairs.V.T)[np.arange(len(Z)), own])
        enough = FOLLOWED + ANSWER_ERRORS * float((weight * self.even.noise(Z)).max())

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

    def around_point(self, h: int, rng: np.random.Generator) -> Float[np.ndarray, "r d"]:
        """As many keys around the point of head h as it has unknowns."""
        B, key = self.bases[h], self.pairs.K[h]
        d, r = B.shape
        if r == 0:
            return np.empty((0, d))
        seen = max(float(np.linalg.norm(B.T @ key)), float(np.linalg.norm(key)) * np.sqrt(r / d))
        return self.points[h] + POINT_SCORE * np.sqrt(r) / seen * random_rotation(r, rng) @ B.T

    def key_error(self, h: int) -> float:
        """About how far the key of head h is off: errors of answers, as scores, for scores of about 1."""
        point = self.points[h]
        score = ANSWER_ERRORS * float(self.even.noise(point[None])[0]) / abs(float(point @ self.pairs.V[h]))
        return score * float(np.linalg.norm(self.pairs.K[h]))


LARGEST_CHANGE = 1.5  # of a score at a head's own point, that a step may make
SMALL_CHANGE = 0.3  # a smaller one doubles the step
STEP_DOWN, STEP_UP = 3.0, 2.0
COLUMN_TRIES = 24
WEAK_DIRECTION = 0.03  # of the largest singular value: a direction that columns hardly show
COLUMNS_BEYOND = 3  # more that are read then


class ColumnReader:
    """Asks for columns of every W; `bases[h]` spans those of head h, once its rank is known."""

    def __init__(self, even: EvenPart, pairs: Pairs, rng: np.random.Generator, rank: int | None):
        self.even, self.pairs, self.rng, self.rank = even, pairs, rng, rank
        self.reach = even.box.oracle.reach / 4
        points = np.array([hyperplane_point(pairs, h, self.reach, rng) for h in range(len(pairs))])
        self.prediction = Prediction(even, pairs, points, [np.eye(even.box.dim)] * len(pairs))
        self.size = float(np.linalg.norm(even.q))  # of the step to another query token
        self.found: list[np.ndarray] = []  # W_h times each direction asked, (H, d)

    @property
    def ranks(self) -> list[int]:
        return self.prediction.ranks

    def read_all(self) -> Float[np.ndarray, "H d d"]:
        """Reads `W_h` of every head h, column by column in a random basis."""
        directions = random_rotation(self.even.box.dim, self.rng)
        for direction in directions:
            self.found.append(self.read_column(direction))
            self.prediction = replace(self.prediction, bases=[self.column_span(h) for h in range(len(self.pairs))])
        W = np.einsum("jha,jb->hab", np.array(self.found), directions)
        # The column that told the rank left the span by its error only. Very long tokens would show that as a score.
        return np.array([B @ (B.T @ one) for B, one in zip(self.prediction.bases, W, strict=True)])

    def read_column(self, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, "H d"]:
        """Reads `W_h` times a unit vector, for every head h."""
        for _ in range(COLUMN_TRIES):
            size = self.size
            prediction = replace(self.prediction, even=self.even.at(self.even.q + size * direction))
            pilots, answers = prediction.read_pilots()
            moved = prediction.score_change(pilots, answers)
            keys = prediction.read_keys(pilots, answers, self.rng) if moved <= LARGEST_CHANGE else None
            if keys is None:
                self.size /= STEP_DOWN
                continue
            if moved < SMALL_CHANGE:
                self.size = min(self.size * STEP_UP, self.reach)
            return (keys - self.pairs.K) / size
        raise NotConverged("the heads' keys at another query token, however near, do not follow from what is known")

    def column_span(self, h: int) -> np.ndarray:
        """The span of the columns of head h, once these are more than its dimensions, and show all of it well."""
        known = self.prediction.bases[h]
        if known.shape[1] < len(known):
            return known
        columns = np.array([column[h] for column in self.found]).T
        U, s, _ = np.linalg.svd(columns)
        least = SMALLEST_COLUMN * float(np.linalg.norm(self.pairs.K[h])) / self.size
        rank = int(np.sum(s > FOLLOWED * (s[0] + least) + self.prediction.key_error(h) / self.size))
        spare = columns.shape[1] - rank
        if self.rank is not None and columns.shape[1] >= self.rank:  # then none is needed to tell
            rank, spare = min(rank, self.rank), columns.shape[1] - self.rank + 1
        weak = rank > 0 and s[rank - 1] < WEAK_DIRECTION * s[0]
        return U[:, :rank] if spare > COLUMNS_BEYOND or (spare > 0 and not weak) else known
