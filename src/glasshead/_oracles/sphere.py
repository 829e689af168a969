"""Tokens behind a norm: they lie on a sphere, and where it stands in front of all heads nothing else shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._errors import NotConverged
from .._linalg import mean_zero, norms, random_rotation
from .._types import ArrayLike, Float
from .base import Oracle

KEY_LENGTH = 2.0**30  # of keys, over ordinary tokens: the eps of a norm is nothing to them


@dataclass(frozen=True)
class Sphere:
    """Normalised tokens, in coordinates: rows of `basis (p, d)` are orthonormal, and tokens have the length sqrt(d)."""

    kind: str  # "rms", or "layer" for tokens without their mean
    basis: Float[np.ndarray, "p d"]

    @classmethod
    def of(cls, kind: str, dim: int) -> Sphere:
        return cls(kind, np.eye(dim) if kind == "rms" else mean_zero(dim).T)

    @property
    def radius(self) -> float:
        return float(np.sqrt(self.basis.shape[1]))

    @property
    def size(self) -> int:
        """The dimension of the space that the tokens lie in."""
        return len(self.basis)

    def onto(self, x: Float[np.ndarray, "*b p"]) -> Float[np.ndarray, "*b p"]:
        return self.radius * x / np.linalg.norm(x, axis=-1, keepdims=True)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator) -> Float[np.ndarray, "*b p"]:
        return self.onto(rng.standard_normal((*shape, self.size)))

    def tangents(self, q: Float[np.ndarray, " p"]) -> Float[np.ndarray, "t p"]:
        """Orthonormal directions along the sphere at q."""
        return np.linalg.qr(q[:, None], mode="complete")[0][:, 1:].T

    def around(
        self, q: Float[np.ndarray, " p"], count: int, angles: ArrayLike, rng: np.random.Generator
    ) -> Float[np.ndarray, "n p"]:
        """Tokens at angles from q, in all directions evenly: those of orthogonal frames. No two of them are opposite:
        two such pairs would depend on each other."""
        tangents, frames = self.tangents(q), []
        if len(tangents) == 0:
            raise NotConverged("what a norm leaves of a token is one number and its sign: no token lies beside another")
        while sum(map(len, frames)) < count:
            frames.append(random_rotation(len(tangents), rng) @ tangents)
        angles = np.broadcast_to(angles, count)[:, None]
        return np.cos(angles) * q + np.sin(angles) * self.radius * np.concatenate(frames)[:count]


def key_length(oracle: Oracle) -> float:
    """How long keys are, over ordinary tokens."""
    return min(KEY_LENGTH, oracle.reach / (4 * float(np.sqrt(oracle.dim))))


# Of what another key would have changed: a norm in front forgets lengths, but for its eps, and LayerNorm means too. To
# longer keys an eps is little; these are asked only where ordinary ones leave it open, since scores may grow with them.
ALIKE_AT = {1.0: 0.05, 64.0: 1e-6}
SAME_ANSWER = ALIKE_AT[64.0]


def find_sphere(oracle: Oracle, rng: np.random.Generator, alike_at: dict[float, float] = ALIKE_AT) -> Sphere | None:
    """Which norm stands in front of the heads, if any: whether a key that is twice as long, or one with another mean,
    is answered alike. Six queries at each length: without a norm no head overlooks both x and -x as they grow."""
    x, y, q = (Sphere.of("rms", oracle.dim).random((), rng) for _ in range(3))
    q *= min(1.0, key_length(oracle))
    kind = ""
    for length, alike in alike_at.items():
        keys = min(length, key_length(oracle)) * np.stack([x, 2 * x, x + 1, y, -x, -2 * x])
        answers = np.asarray(oracle(np.stack([keys, np.broadcast_to(q, keys.shape)], axis=1))).reshape(len(keys), -1)
        longer, shifted, other = norms(answers[1:4] - answers[0])
        if not max(longer, float(np.linalg.norm(answers[5] - answers[4]))) <= alike * other:
            return None
        kind = "layer" if shifted <= alike * other else "rms"
    return Sphere.of(kind, oracle.dim)


def find_order(oracle: Oracle, sphere: Sphere, rng: np.random.Generator) -> bool:
    """Whether the order of keys matters, as for rotary positions. Three queries."""
    x, y, z, q = min(1.0, oracle.reach / sphere.radius) * sphere.random((4,), rng) @ sphere.basis
    answers = np.asarray(oracle(np.stack([[x, y, q], [y, x, q], [x, z, q]])))
    swapped, other = norms(answers[1:] - answers[0])
    return bool(swapped > SAME_ANSWER * other)
