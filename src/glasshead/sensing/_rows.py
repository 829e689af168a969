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
        (self.A, a), (self.B, b) = _evened(A), _evened(B)
        even, unit = _evened((t / a / b)[None])
        self.t, self.unit = even[0], float(unit[0])
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


def _evened(rows: Float[np.ndarray, "m d"]) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m"]]:
    """Rows whose entries have size 1, and the size they had. In two steps: squares of tiny numbers would vanish."""
    peak = max(float(rows.max()), -float(rows.min())) or 1.0
    even = rows / peak
    sizes = np.sqrt(np.einsum("md,md->m", even, even) / rows.shape[1])
    sizes[sizes == 0] = 1.0
    even /= sizes[:, None]
    return even, peak * sizes


def _ratio(x: Float[np.ndarray, "m"], y: Float[np.ndarray, "m"]) -> float:
    return float(np.linalg.norm(x) / (np.linalg.norm(y) or 1.0))
