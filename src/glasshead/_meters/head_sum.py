"""A sum of heads asked about two rows, `[z + q ; q]`, and the geometry of its heads' values.

With `total` the sum of all v, the answer to `[q]` is `bias + q.total`, and to `[z + q ; q]` it is that and

    sum_h sigma(z.k_h) z.v_h,    k_h = W_h q + key_bias_h,

which is all that `SumOfHeads` hands on. Once every v is known, `ValueSpace` has the keys z that only one head answers
to: those orthogonal to the values of all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from .._errors import Evidence, NotConverged, NotIdentifiable, TargetMismatch
from .._linalg import random_rotation
from .._oracles import SINGLE, Oracle
from .._types import Float

SAFETY = 4.0  # times the usual rounding error of a dot product: nothing here is guaranteed, and none is an adversary


@dataclass(frozen=True)
class SumOfHeads:
    """The box, its bias and the sum of all v. `v_norm` is the length of all v together, once these are known.

    A head that takes the mean of the tokens is left out of all of it once it is found: `mean` is its v, `mean_error`
    how far that may be off, seen by a unit key.
    """

    oracle: Oracle
    bias: float
    total: Float[np.ndarray, " d"]
    v_norm: float = 0.0
    mean: Float[np.ndarray, " d"] | None = None
    mean_error: float = 0.0

    @property
    def dim(self) -> int:
        return self.oracle.dim

    def as_sent(self, tokens: np.ndarray) -> np.ndarray:
        """The tokens as the box gets them: a float32 box rounds them, and what was asked is what counts."""
        return tokens.astype(np.float32).astype(np.float64) if self.oracle.roundoff >= SINGLE else tokens

    def read(
        self, Z: Float[np.ndarray, "n d"], q: Float[np.ndarray, "*n d"], copies: int = 1
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
        """The keys z that were really sent, and `sum_h sigma(z.k_h) z.v_h` for each; one q for all, or one for each.

        Of several `copies` of `z + q` all have the same score, so `log(copies)` is added to `z.k_h`.
        """
        X = np.empty((len(Z), copies + 1, self.dim))
        X[:, -1] = self.as_sent(q)
        X[:, :-1] = self.as_sent(Z + X[:, -1])[:, None]
        self.refuse_long_tokens(X)
        sent, last = X[:, 0] - X[:, -1], X[:, -1]
        answers = self.oracle(X) - (self.bias + last @ self.total)
        if self.mean is not None:
            answers = answers - (last + copies / (copies + 1) * sent) @ self.mean
        return sent, answers

    def without_mean_head(self, mean: Float[np.ndarray, " d"], mean_error: float) -> SumOfHeads:
        """The box less a head that takes the mean, with this v."""
        return replace(self, total=self.total - mean, mean=mean, mean_error=mean_error)

    def refuse_long_tokens(self, X: np.ndarray) -> None:
        limit = self.oracle.max_norm
        if limit is not None and np.linalg.norm(X, axis=2).max(initial=0.0) > limit:
            raise NotConverged(f"tokens longer than max_norm = {limit:g} would be needed to take these heads apart")

    def refuse(self, message: str, evidence: Evidence) -> NoReturn:
        """The box is something else, unless it is its limit that makes it look so."""
        if self.oracle.max_norm is not None:
            raise NotConverged(
                f"with tokens up to max_norm = {self.oracle.max_norm:g} heads cannot be told apart: these have to be "
                f"long enough to saturate every head ({evidence})"
            )
        raise TargetMismatch(message, evidence)

    def noise(self, z: np.ndarray | float, q: np.ndarray | float) -> np.ndarray:
        """How far such an answer may be off for keys and queries of these lengths: the promise, and rounding."""
        u, size = 2 * SAFETY * self.oracle.roundoff, (z + 2 * q) * self.v_norm
        promise = (2 * self.oracle.tolerance + self.oracle.rtol * (size + abs(self.bias))) / (1 - self.oracle.rtol)
        return np.asarray(promise + u * (size + abs(self.bias)) + self.mean_error * z)


def read_head_sum(oracle: Oracle, rng: np.random.Generator, known: Mapping[str, Any] | None = None) -> SumOfHeads:
    """The bias from the zero token, the sum of all v from d long ones: d + 1 queries, or none where both are `known`,
    as `bias` and `v`, from an attempt at reading one head."""
    d, reach, frame = oracle.dim, oracle.reach / 2, random_rotation(oracle.dim, rng)
    if known and np.ndim(known["v"]) == 1:
        return SumOfHeads(oracle, float(known["bias"]), known["v"])
    zero = np.asarray(oracle(np.zeros((1, 1, d))))
    if zero.ndim != 1:
        raise ValueError(f"expected one number per answer, got answers of shape {zero.shape[1:]}")
    box = SumOfHeads(oracle, float(zero[0]), np.zeros(d))
    tokens = box.as_sent(reach * frame)
    answers = oracle(tokens[:, None]) - zero[0]
    if oracle.narrow:
        oracle(tokens[None, :2])  # where all v cancel, what is left of one-row answers has few digits
    if oracle.narrow:  # several heads leave too little of so few digits
        raise NotConverged(
            f"answers with a relative error of {oracle.roundoff:.1g} have too few digits to take several heads apart; "
            "ask a box that answers in float32 or float64"
        )
    total = np.linalg.solve(tokens / reach, answers / reach)
    if not np.isfinite(total).all():
        raise NotIdentifiable("the sum of all v is not finite")
    return SumOfHeads(oracle, float(zero[0]), total)


@dataclass(frozen=True)
class HeadValues:
    """The heads' values and how far each may be off."""

    v: Float[np.ndarray, "H d"]
    error: Float[np.ndarray, " H"]

    def __len__(self) -> int:
        return len(self.v)


# The condition number of the unit values beyond which heads are not told apart. Dual vectors are about that long, and
# errors of answers grow with them: of the 16 digits of float64 there are 9 left.
PARALLEL_VALUES = 1e7


@dataclass(frozen=True)
class ValueSpace:
    """The space that values leave.

    `kernel`, orthonormal, is orthogonal to every v: such keys change no value and can be used to steer. `duals[h]` is
    the unit vector in the span of all v that head h alone answers to, with `gains[h] = duals[h] . v_h`.
    """

    values: HeadValues
    kernel: Float[np.ndarray, "d n"]
    duals: Float[np.ndarray, "H d"]
    gains: Float[np.ndarray, " H"]

    @property
    def crosstalk(self) -> float:
        """What a unit key meant for one head may show of the others, since their v are not quite known."""
        heads, d = self.values.v.shape
        return float(3 * np.linalg.norm(self.values.error) / np.sqrt(d)) if heads > 1 else 0.0

    def complement(self, h: int) -> Float[np.ndarray, "d m"]:
        """An orthonormal basis of the keys that only head h answers to, orthogonal to the others' values. Its first
        vector is `duals[h]`, which sees the head's value; the others see none."""
        return np.c_[self.duals[h], self.kernel]

    def others(self, h: int) -> Float[np.ndarray, "d m"]:
        """An orthonormal basis of the span of the other heads' values: all that `complement(h)` leaves."""
        rest = np.delete(self.values.v, h, axis=0)
        return np.linalg.qr((rest / np.linalg.norm(rest, axis=1, keepdims=True)).T)[0]


def value_space(values: HeadValues) -> ValueSpace:
    v = values.v
    heads, d = v.shape
    if heads > max(1, d - 2):
        refuse_crowd(values, d)
    size = np.linalg.norm(v, axis=1)
    left, s, basis = np.linalg.svd(v / size[:, None])
    if s[0] > PARALLEL_VALUES * s[heads - 1]:
        refuse_parallel(s[0] / s[heads - 1])
    dual = (basis[:heads].T / s) @ left.T
    length = np.linalg.norm(dual, axis=0)
    return ValueSpace(values, basis[heads:].T, (dual / length).T, size / length)


def refuse_crowd(values: HeadValues, dim: int) -> NoReturn:
    raise NotConverged(
        f"{len(values)} heads in dimension {dim}: one head is seen alone by keys orthogonal to the values of the "
        f"others, and steering needs two more directions, so {dim - 2} heads can be taken apart at most; how many "
        "there are and their values are known, their W is not",
        known={"v": values.v},
    )


def refuse_parallel(condition: float) -> NoReturn:
    raise NotConverged(
        f"the values of some heads are parallel up to {1 / condition:.0e}: no key shows one of these heads alone"
    )
