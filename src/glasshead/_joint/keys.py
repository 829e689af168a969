"""The keys of all heads at one query token, from a prediction that is nearly right.

One query is one equation, asked on the own hyperplane of some head, where the others hardly count. Yet all keys solve
all equations together, so they need not count for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._meter.frame import random_rotation
from .._types import Float
from .levenberg import least_squares
from .pairs import Even, Pairs

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

        x, left = least_squares(residual, jacobian, np.zeros(sum(self.ranks)), enough)
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
