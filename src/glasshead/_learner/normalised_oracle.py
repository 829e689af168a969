"""A box that normalises its tokens, seen from behind the normalisation."""

from __future__ import annotations

import numpy as np

from .._meter.lever import longest
from .._models.norm import Norm
from .._oracle import Oracle
from .._oracle.base import Wrapper
from .._types import Float

INNER = 0.95  # of the ball that normalised tokens fill: towards its surface tokens grow without limit


class Normalised(Wrapper):
    """Takes normalised tokens in coordinates, and asks the box about tokens with that normalisation.

    LayerNorm leaves d - 1 coordinates, in the `basis` of vectors of mean zero; RMSNorm leaves all d. `eps_error` is
    how far off the eps of the norm may be, relative to it.
    """

    def __init__(self, inner: Oracle, norm: Norm, eps_error: float = 0.0):
        super().__init__(inner)
        self.norm, self.eps_error, d = norm, eps_error, inner.dim
        self.basis: Float[np.ndarray, "d n"] = np.eye(d) if norm.kind == "rms" else mean_zero(d)

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.basis.shape[1]

    @property
    def max_norm(self) -> float:  # type: ignore[override]
        """Token and normalised token are equally long up to `sqrt(eps / (1 - |z|^2 / d))`."""
        d, longest_token = self.inner.dim, longest(self.inner)
        return float(min(INNER * np.sqrt(d), longest_token / np.sqrt(self.norm.eps + longest_token**2 / d)))

    def tokens(self, Z: np.ndarray) -> np.ndarray:
        return self.norm.token(Z @ self.basis.T)

    def __call__(self, Z):
        return self.inner(self.tokens(Z))


def mean_zero(dim: int) -> Float[np.ndarray, "d n"]:
    """An orthonormal basis of the vectors whose entries sum to zero: a reflection that swaps e_0 and the diagonal."""
    mirror = np.full(dim, -1 / np.sqrt(dim))
    mirror[0] += 1
    reflection = np.eye(dim) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)
    return np.ascontiguousarray(reflection[:, 1:])
