"""The measurements in their natural scale: every a_k and b_k brought to one length, and t to length sqrt(m)."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from .._types import Float
from ._factors import Factors


class Rows:
    """`A`, `B`, `t` with entries of size 1; `W_here = W / unit`."""

    def __init__(self, A: Float[np.ndarray, "m d1"], B: Float[np.ndarray, "m d2"], t: Float[np.ndarray, "m"]) -> None:
        a, b = _lengths(A) / A.shape[1] ** 0.5, _lengths(B) / B.shape[1] ** 0.5
        self.A, self.B, even = A / a[:, None], B / b[:, None], t / a / b
        self.unit = float(np.sqrt(np.mean(even**2))) or 1.0
        self.t = even / self.unit
        self.lengths = a * b

    def __len__(self) -> int:
        return len(self.t)

    def subset(self, index: np.ndarray) -> Rows:
        part = copy(self)
        part.__dict__.pop("single", None)
        part.A, part.B, part.t, part.lengths = (x[index] for x in (self.A, self.B, self.t, self.lengths))
        return part

    @cached_property
    def single(self) -> tuple[Float[np.ndarray, "m d1"], Float[np.ndarray, "m d2"]]:
        """Half the memory traffic; column-major because both products of a tangent step then run fast."""
        return self.A.astype(np.float32, order="F"), self.B.astype(np.float32, order="F")

    def residual(self, misfit: Float[np.ndarray, "m"]) -> float:
        """Relative, over the measurements as given and over those of unit a_k and b_k: the larger of the two."""
        return max(_ratio(misfit, self.t), _ratio(misfit * self.lengths, self.t * self.lengths))

    def in_callers_units(self, W: Factors) -> Factors:
        return W._replace(s=W.s * self.unit)


class Point:
    """A matrix of rank r with everything about the measurements that a step from it needs."""

    def __init__(self, rows: Rows, W: Factors) -> None:
        self.W = W
        self.AU, self.BV = W.U @ rows.A.T, W.V @ rows.B.T
        self.misfit = rows.t - np.einsum("rm,rm->m", self.AU * W.s[:, None], self.BV)
        self.size = float(np.linalg.norm(self.misfit)) / len(rows) ** 0.5
        self.residual = rows.residual(self.misfit)


def _lengths(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m"]:
    lengths = np.linalg.norm(rows, axis=1)
    return np.where(lengths > 0, lengths, 1.0)


def _ratio(x: Float[np.ndarray, "m"], y: Float[np.ndarray, "m"]) -> float:
    return float(np.linalg.norm(x) / (np.linalg.norm(y) or 1.0))
