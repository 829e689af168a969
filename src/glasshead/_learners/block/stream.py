"""What lies behind the heads of a block, asked about as if it were the box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._errors import NotConverged
from ..._linalg import mean_zero, norms, unit
from ..._models import Block, Norm, token_before
from ..._oracles import Oracle, read_single
from ..._types import Float

SETTLING_ROUNDS, SETTLED_TOKEN = 24, 1e-15  # of the longest token: a few roundings


@dataclass(frozen=True)
class Stream:
    """The box, asked about what lies behind its heads instead of about tokens."""

    oracle: Oracle
    block: Block
    front: Norm

    @property
    def total(self) -> Float[np.ndarray, "d d"]:
        return np.sum([head.v for head in self.block.heads], axis=0)

    @property
    def basis(self) -> Float[np.ndarray, "p d"]:
        """A basis of what a norm lets through."""
        d = self.oracle.dim
        return mean_zero(d).T if self.front.kind == "layer" else np.eye(d)

    def tokens(self, a: Float[np.ndarray, "B d"], offset: np.ndarray) -> Float[np.ndarray, "n d"]:
        """Tokens that are a behind the heads, those that were found: for a short a there may be none. In a parallel
        block the network reads tokens directly."""
        x = a if self.block.parallel else self.tokens_before(a - offset)
        return x[np.isfinite(x).all(axis=1)]

    def tokens_before(self, u: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """Tokens with `x + norm(x) total = u`: where u is long the sum settles by itself."""
        x, total = u, self.total
        for _ in range(SETTLING_ROUNDS):
            x, before = u - self.front(x) @ total, x
            if norms(x - before).max() <= SETTLED_TOKEN * norms(u).max():
                return x
        return token_before(self.front, total, u)

    def read(self, a: Float[np.ndarray, "B d"], offset: np.ndarray) -> Float[np.ndarray, "B d"]:
        """What the network adds at a."""
        x = self.tokens(a, offset)
        if len(x) < len(a):
            raise NotConverged("no token was found for a point behind the heads, where the network reads it")
        return np.asarray(read_single(self.oracle, x)) - x - self.front(x) @ self.total - offset

    def sphere(self, n: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
        basis = self.basis
        return np.sqrt(basis.shape[1]) * unit(rng.standard_normal((n, len(basis)))) @ basis
