"""A box seen otherwise: other tokens are sent than those that are asked about, or answers are combined or made better:
noise is averaged, and a narrow format is read as exact numbers that were rounded at the very end."""

from __future__ import annotations

import math

import numpy as np

from .._errors import NotIdentifiable, WrongOutputs
from .._linalg import mean_zero
from .._models import Norm
from .._types import Float
from .base import DOUBLE, HALF, HALF_REACH, Oracle, Wrapper


class Antisymmetric(Wrapper):
    """Answers `f(X) - f(-X)`, with two queries.

    Without a key bias -X has the scores of X, and `ReLU(z) - ReLU(-z) = z`: for a Transformer without biases this is
    the plain head with `v = A w`, at twice the tolerance. A difference that is all rounding is 0.
    """

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        self.tolerance = 2 * inner.tolerance

    def __call__(self, X: np.ndarray) -> np.ndarray:
        there, back = self.inner(X), self.inner(-X)
        rounding = 8 * self.dim * self.roundoff * (np.abs(there) + np.abs(back))
        return np.where(np.abs(there - back) <= rounding, 0.0, there - back)


class OneNumber(Wrapper):
    """A box whose answers hold one number each, in a row of its own, without the row."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.reshape(self.inner(X), len(X))


class SeveralNumbers(Wrapper):
    """A box that is refused at its first answer, if that holds one number: which costs no query of its own."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        answers = np.asarray(self.inner(X))
        if answers.ndim == 1 or answers.shape[1] == 1:
            raise WrongOutputs(
                f"expected about as many numbers per answer as a token has, {self.dim}, got one; "
                "family='any-network' reads a head from one"
            )
        return answers


class Combined(Wrapper):
    """A box that answers `answers @ weights`, and promises for that what it is given as its promise."""

    def __init__(self, inner: Oracle, weights: Float[np.ndarray, " k"], tolerance: float, rtol: float):
        super().__init__(inner)
        self.weights, self.tolerance, self.rtol = weights, tolerance, rtol

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.inner(X)) @ self.weights


class OneOutput(Wrapper):
    """What one of several outputs has beyond its `bias`, which would drown it.

    It is promised within `tolerance + rtol * |truth|`; rounding of the bias is left to allow for, and of numbers as
    large as `others`, where the output may consist of nothing else.
    """

    def __init__(self, inner: Oracle, output: int, bias: float, tolerance: float, rtol: float, others: float = 0.0):
        super().__init__(inner)
        self.output, self.bias, self.rtol = output, bias, rtol
        self.tolerance = tolerance + (self.roundoff + rtol) * abs(bias) + self.roundoff * others

    @property
    def exact(self) -> bool:
        return self.inner.exact

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.inner(X)[:, self.output] - self.bias


class Within(Wrapper):
    """The box on tokens `E z`, as a box on tokens z of fewer coordinates."""

    def __init__(self, inner: Oracle, E: Float[np.ndarray, "d s"]):
        super().__init__(inner)
        self.E, self.dim = E, E.shape[1]

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.inner(X @ self.E.T)


class Scaled(Wrapper):
    """Multiplies every token by `factor`, 1 at most. For a head that is a head again, with `factor**2 W`,
    `factor key_bias` and `factor v`: the same numbers, rounded elsewhere."""

    def __init__(self, inner: Oracle, factor: float):
        super().__init__(inner)
        self.factor = factor

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.inner(self.factor * X)


class Translated(Wrapper):
    """Adds `origin` to every token. For a head that is a head again: same W and v, with
    `key_bias + W origin` and `bias + origin.v`."""

    def __init__(self, inner: Oracle, origin: np.ndarray):
        super().__init__(inner)
        self.origin = origin
        if inner.max_norm is not None:
            self.max_norm = inner.max_norm - float(np.linalg.norm(origin))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.inner(X + self.origin)


INSIDE_BALL = 0.95  # of the ball that normalised tokens fill: towards its surface tokens grow without limit


class Normalised(Wrapper):
    """Takes normalised tokens in coordinates, and asks the box about tokens with that normalisation.

    LayerNorm leaves d - 1 coordinates, in the `basis` of vectors of mean zero; RMSNorm leaves all d. `eps_error` is
    how far off the eps of the norm may be, relative to it.
    """

    def __init__(self, inner: Oracle, norm: Norm, eps_error: float = 0.0):
        super().__init__(inner)
        self.norm, self.eps_error, d = norm, eps_error, inner.dim
        self.basis: Float[np.ndarray, "d n"] = np.eye(d) if norm.kind == "rms" else mean_zero(d)
        self.dim = self.basis.shape[1]

    @property
    def max_norm(self) -> float:  # type: ignore[override]  # it follows the reach, which shrinks for a float16 box
        """Token and normalised token are equally long up to `sqrt(eps / (1 - |z|^2 / d))`."""
        d, longest_token = self.inner.dim, self.inner.reach
        return float(min(INSIDE_BALL * np.sqrt(d), longest_token / np.sqrt(self.norm.eps + longest_token**2 / d)))

    def tokens(self, Z: np.ndarray) -> np.ndarray:
        return self.norm.token(Z @ self.basis.T)

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        return self.inner(self.tokens(Z))


CERTAIN = 6.0  # standard deviations: Gaussian noise exceeds them once in 5e8 answers, more than any recovery asks for
COPIES_BYTES = 32 * 2**20  # copies of queries made at a time


class Averaged(Wrapper):
    """Asks every query `repeats` times and answers the mean.

    >>> quiet = Averaged(gh.ValueOracle(gh.defences.gaussian(lambda X: X.sum(axis=(1, 2)), 0.1), dim=3), 100, 0.1)
    >>> bool(abs(quiet(np.ones((1, 2, 3)))[0] - 6) < quiet.tolerance), round(quiet.tolerance, 4), quiet.queries
    (True, 0.06, 100)

    Of a single answer `noise` is the standard deviation, `relative` a part of it that is a share of the answer. The
    mean then promises `CERTAIN` of its own, which is no guarantee but lets a learner decide what it can see.
    """

    def __init__(self, inner: Oracle, repeats: int, noise: float, relative: float = 0.0):
        super().__init__(inner)
        self.repeats, self.noise, self.relative = repeats, noise, relative
        self.tolerance = inner.tolerance + CERTAIN * noise / math.sqrt(repeats)
        self.rtol = inner.rtol + CERTAIN * relative / math.sqrt(repeats)

    @property
    def once(self) -> Averaged:
        return Averaged(self.inner, 1, self.noise, self.relative)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        X = np.asarray(X)
        if len(X) == 0 or self.repeats == 1:
            return self.inner(X)
        copies = max(1, COPIES_BYTES // (8 * X.size))
        total, left = np.zeros(()), self.repeats
        while left:
            now = min(copies, left)
            answers = self.inner(np.tile(X, (now, 1, 1)))
            total = total + answers.reshape(now, *answers[: len(X)].shape).sum(axis=0)
            left -= now
        return total / self.repeats


SMALLEST_HALF = 2.0**-25  # half the smallest float16


class Narrow(Wrapper):
    """What a box promises that computes in float64 and rounds its answers: `rtol` of one roundoff, or what it says
    itself if that is more.

    One that computes in the narrow format as well breaks that promise, unless it made it.
    """

    def __init__(self, inner: Oracle):
        super().__init__(inner)
        half = inner.roundoff == HALF
        self.name, self.rounded = "float16" if half else "bfloat16", True
        self.rtol = max(inner.rtol, inner.roundoff)
        self.tolerance = max(inner.tolerance, SMALLEST_HALF if half else 0.0)
        if half:
            self.max_norm = HALF_REACH if inner.max_norm is None else min(inner.max_norm, HALF_REACH)

    @property
    def roundoff(self) -> float:
        return DOUBLE


class Rounded(Wrapper):
    """A box that promises its answers to within a share of a typical one, read as one that rounds them to that: for
    learners that see how far off they are themselves, from fresh answers."""

    def __init__(self, inner: Oracle, share: float):
        super().__init__(inner)
        self.share, self.tolerance, self.rtol = share, 0.0, 0.0

    def promised(self, size: float) -> float:
        """How far off an answer of that size may be."""
        return self.inner.tolerance + self.inner.rtol * size

    @property
    def roundoff(self) -> float:
        return max(self.inner.roundoff, self.share)


def read_unit_rows(oracle: Oracle) -> np.ndarray:
    """`v_i = f([e_i])`, of a box without bias that answers one number: d queries."""
    v = np.asarray(oracle(np.eye(oracle.dim)[:, None]))
    if v.ndim != 1:
        raise ValueError(f"expected a box with one number per answer, as in the paper, got {v.shape[1]}")
    if not v.any():
        raise NotIdentifiable("v = 0: the box answers 0 to everything whatever W is, so no learner could read W")
    return v
