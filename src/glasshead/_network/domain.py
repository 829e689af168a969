"""Where a network may be asked: anywhere, or on a sphere only; and second derivatives along lines of either.

On a sphere lines are great circles, and the second derivative along one is that of space less the slope outwards over
the radius, which nobody can ask about. That slope is the same for every direction at a point: it adds a multiple of the
identity to the matrix of second derivatives, and costs one dimension. Directions must be tangent at the point. Base
points are therefore taken in a plane or a space of three dimensions, and everything orthogonal to it is tangent at all
of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._linalg import random_rotation, unit
from .._oracles import CHUNK_BYTES, InputOracle, Oracle
from .._types import Float

# Both of order 8.
SECOND_DERIVATIVE = np.array([-1 / 560, 8 / 315, -1 / 5, 8 / 5, -205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560])
FIRST_DERIVATIVE = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
SECOND_COARSE = np.array([0, 1 / 90, -3 / 20, 3 / 2, -49 / 18, 3 / 2, -3 / 20, 1 / 90, 0])  # of order 6
HIGHEST = np.array([1, -8, 28, -56, 70, -56, 28, -8, 1]) / np.sqrt(12870)  # what is left of a smooth line is noise
STENCIL_PLACES = np.arange(-4, 5)
AROUND = STENCIL_PLACES[STENCIL_PLACES != 0]
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))  # radians: multiples of it are spread over the circle and never opposite
LARGE_DIM = 24  # dimensions from which three may be kept for base points
FEW_OUTPUTS, MOST_KEPT = 4, 4  # so few numbers leave it to points to tell neurons apart: in a plane they are too alike


def as_single_tokens(f: Any, dim: Any) -> Oracle:
    """An oracle on `(B, 1, d)`."""
    return f if isinstance(f, Oracle) else InputOracle(f, dim, "recover_network(f, dim)")


@dataclass
class Domain(ABC):
    """`frame` is orthonormal rows; second derivatives are measured along some of the last `len(frame) - kept` of them,
    which are tangent at every base point."""

    oracle: Oracle
    frame: Float[np.ndarray, "d d"]
    radius: float
    kept: int
    accepted: float = 1e-9  # how far off fresh answers may be, of the largest one
    rays: bool = False  # whether answers are known up to their lengths only, and have length 1

    @property
    def dim(self) -> int:
        return self.frame.shape[1]

    @property
    def tangents(self) -> Float[np.ndarray, "n d"]:
        return self.frame[self.kept :]

    def ask(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Answers, a row each, however many numbers they are."""
        rows = max(1, CHUNK_BYTES // (8 * self.dim))
        parts = [np.asarray(self.oracle(X[i : i + rows, None])) for i in range(0, len(X), rows)]
        return np.concatenate(parts).reshape(len(X), -1).astype(np.float64)

    @property
    @abstractmethod
    def radial(self) -> bool:
        """Whether a multiple of the identity is added to second derivatives."""

    @abstractmethod
    def along(self, p: np.ndarray, v: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The points t along the lines through p in the directions v."""

    @abstractmethod
    def base_points(self, n: int, before: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Where second derivatives are taken: n more points after the first `before`."""

    @abstractmethod
    def own_tangents(self, p: Float[np.ndarray, " d"]) -> Float[np.ndarray, "n d"]:
        """The directions that are tangent at this base point alone."""

    @abstractmethod
    def inputs(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Random inputs where the network bends."""

    def read_stencils(self, p: np.ndarray, v: np.ndarray, step: float) -> Float[np.ndarray, "n 9 k"]:
        """Answers at nine places along each line, `9 n` queries."""
        X = self.along(p[:, None], v[:, None], step * STENCIL_PLACES[None, :, None])
        return self.ask(X.reshape(-1, self.dim)).reshape(len(p), len(STENCIL_PLACES), -1)

    def read_derivatives(
        self, p: Float[np.ndarray, "n d"], v: Float[np.ndarray, "n d"], centre: Float[np.ndarray, "n k"], step: float
    ) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """First and second derivatives at p along v, with the answers at p known: 8 queries each."""
        if len(p) == 0:
            return centre, centre
        X = self.along(p[:, None], v[:, None], step * AROUND[None, :, None])
        answers = self.ask(X.reshape(-1, self.dim)).reshape(len(p), len(AROUND), -1)
        stencils = (weights[STENCIL_PLACES != 0] for weights in (FIRST_DERIVATIVE, SECOND_DERIVATIVE))
        first, second = (np.einsum("s,nsk->nk", weights, answers) for weights in stencils)
        return first / step, (second + SECOND_DERIVATIVE[4] * centre) / step**2


class Anywhere(Domain):
    """All inputs may be sent; `radius` is the length of those at which neurons bend."""

    @property
    def radial(self) -> bool:
        return False

    def along(self, p, v, t):
        return p + t * v

    def base_points(self, n, before, rng):
        return self.inputs(n, rng)

    def own_tangents(self, p):
        return self.frame[:0]

    def inputs(self, n, rng):
        length = self.radius * np.exp(rng.uniform(np.log(0.5), np.log(1.5), (n, 1)))
        return length * unit(rng.standard_normal((n, self.dim)))


class SphereDomain(Domain):
    """Only inputs of length `radius` may be sent."""

    @property
    def radial(self) -> bool:
        return True

    def along(self, p, v, t):
        X = np.cos(t / self.radius) * p + self.radius * np.sin(t / self.radius) * v
        return X * (self.radius / np.linalg.norm(X, axis=-1, keepdims=True))

    def base_points(self, n, before, rng):
        if self.kept == 2:
            angle = GOLDEN_ANGLE * np.arange(before + 1, before + n + 1)
            return self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1) @ self.frame[:2]
        return self.radius * unit(rng.standard_normal((n, self.kept))) @ self.frame[: self.kept]

    def own_tangents(self, p):
        inside = self.frame[: self.kept]
        return np.linalg.svd((inside @ p)[None])[2][1:] @ inside

    def inputs(self, n, rng):
        return self.radius * unit(rng.standard_normal((n, self.dim)))


def find_domain(oracle: Oracle, sphere: bool, radius: float, accepted: float, rng: np.random.Generator) -> Domain:
    """The domain with a random frame; on a sphere one input is asked, to see how many numbers an answer has."""
    frame = random_rotation(oracle.dim, rng)
    if not sphere:
        return Anywhere(oracle, frame, radius, 0, accepted)
    domain = SphereDomain(oracle, frame, radius, 3 if oracle.dim >= LARGE_DIM else 2, accepted)
    few = domain.ask(radius * frame[:1]).shape[1] < FEW_OUTPUTS
    return replace(domain, kept=min(MOST_KEPT, max(2, oracle.dim // 4))) if few else domain
