"""A bias-free Transformer as a plain head: half of it cancels."""

from __future__ import annotations

import numpy as np

from .._models import Norm
from .._types import Float
from .base import Oracle, Wrapper


class Antisymmetric(Wrapper):
    """Answers `f(X) - f(-X)`, with two queries.

    Without a key bias -X has the scores of X, and `ReLU(z) - ReLU(-z) = z`: for a Transformer without biases this is
    the plain head with `v = A w`, at twice the tolerance. A difference that is all rounding is 0.
    """

    tolerance = property(lambda self: 2 * self.inner.tolerance)  # type: ignore[assignment]

    def __call__(self, X):
        there, back = self.inner(X), self.inner(-X)
        rounding = 8 * self.dim * self.roundoff * (np.abs(there) + np.abs(back))
        return np.where(np.abs(there - back) <= rounding, 0.0, there - back)


class OneNumber(Wrapper):
    """A box whose answers hold one number each, without the row; `shape` is what an answer came in."""

    shape: tuple[int, ...] = ()

    def __call__(self, X):
        answers = self.inner(X)
        self.shape = np.shape(answers)[1:]
        return np.reshape(answers, len(X))


class Scaled(Wrapper):
    """Multiplies every token by `factor`, 1 at most. For a head that is a head again, with `factor**2 W`,
    `factor key_bias` and `factor v`: the same numbers, rounded elsewhere."""

    def __init__(self, inner: Oracle, factor: float):
        super().__init__(inner)
        self.factor = factor

    def __call__(self, X):
        return self.inner(self.factor * X)


class Translated(Wrapper):
    """Adds `origin` to every token. For a head that is a head again: same W and v, with
    `key_bias + W origin` and `bias + origin.v`."""

    def __init__(self, inner: Oracle, origin: np.ndarray):
        super().__init__(inner)
        self.origin = origin

    @property
    def max_norm(self) -> float | None:  # type: ignore[override]
        inner = self.inner.max_norm
        return None if inner is None else inner - float(np.linalg.norm(self.origin))

    def __call__(self, X):
        return self.inner(X + self.origin)


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
        d, longest_token = self.inner.dim, self.inner.reach
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
