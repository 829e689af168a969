"""`gh.blockdiag`: the finest orthogonal subspaces that several symmetric matrices share.

A tree of cuts: every leaf is a subspace with the best cut through it, the cleanest cut is made next, and it ends where
what couples two parts is more than error. `_commutant` makes one cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._linalg import rms
from .._types import Float, no_type_check
from .._validate import as_real, real, require_shape
from ._commutant import CouplingNoise, Split, nearest_to_commuting, split_at_gap

ASYMMETRY = 0.1  # of the size of an entry: as much can be error


def symmetric_parts(matrices: ArrayLike | Sequence[ArrayLike], tol: float | None) -> Float[np.ndarray, "m n n"]:
    """The symmetric parts, as one array. A little asymmetry is error; it is averaged out."""
    if tol is not None:
        real(tol, "tol", "None or a number >= 0", lambda x: x >= 0)
    given = as_real(matrices, "matrices").astype(np.float64, copy=False)
    A = given[None] if given.ndim == 2 else given
    fits = A.ndim == 3 and A.shape[1] == A.shape[2] and A.size > 0
    require_shape(fits, "matrices of shape (m, n, n) with m, n >= 1", A.shape)
    symmetric = (A + A.transpose(0, 2, 1)) / 2
    asymmetry, size = np.sqrt(np.mean((A - symmetric) ** 2)), np.sqrt(np.mean(A**2))
    if asymmetry > max(ASYMMETRY * size, 3 * (tol or 0.0)):
        raise ValueError(
            f"expected symmetric matrices, got entries that differ from their mirror images by {2 * asymmetry:.2g}, "
            f"where an entry has size {size:.2g}; pass the symmetric parts (A + A.T) / 2 if the rest is error"
        )
    return symmetric


REUSED = 3.0  # the parent's X serves a part as well, if its next gap is cut about as cleanly
KERNEL = 5.0  # times the noise: a part with no larger entries is kernel. Turning has driven them to the diagonal


@no_type_check
def blockdiag(matrices: ArrayLike | Sequence[ArrayLike], tol: float | None = None) -> list[Float[np.ndarray, "n _"]]:
    """Orthonormal bases of the finest subspaces that all these symmetric matrices map into themselves.

    >>> rng = np.random.default_rng(0)
    >>> hidden = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    >>> blocks = rng.standard_normal((4, 5, 5)) * np.kron([[1, 0], [0, 1]], np.ones((3, 3)))[:5, :5]
    >>> [basis.shape[1] for basis in gh.blockdiag(hidden @ (blocks + blocks.transpose(0, 2, 1)) @ hidden.T)]
    [2, 3]

    The subspaces are orthogonal to each other and together everything; the strongest comes first. Directions that all
    matrices map to 0 are one subspace, the last. A single matrix splits into eigenvectors; where equal blocks leave a
    choice of subspaces, one is made.

    `tol` is the standard deviation of an entry's error. Without it the error is learned from the matrices: what couples
    two parts is error if it is at rounding level, or alike for all parts and small (up to 3% of the size of an entry if
    it looks independent, 1e-6 if not). Noise beyond that cannot be told from one large block, which always fits: pass
    `tol`.

    The symmetric X that nearly commute with all matrices have the subspaces for eigenspaces. One of them, cut at its
    widest gap, gives two parts; they are turned to couple least, and split on. For m matrices that takes
    `O(m n^4 + n^6)` operations, and for n > 48 `O(m n^3)` a step of Lanczos, with `O(m n^2)` memory.
    """
    blocks, kernel = blocks_and_kernel(symmetric_parts(matrices, tol), tol)
    return [*blocks, kernel] if kernel.size else blocks


def blocks_and_kernel(A: Float[np.ndarray, "m n n"], tol: float | None) -> tuple[list[np.ndarray], np.ndarray]:
    n, size = A.shape[1], rms(A)
    if size == 0:
        return [], np.eye(n)
    noise = CouplingNoise(size, 8 * n * 2.0**-52 * size, tol)
    leaves = [Leaf.of(A, np.eye(n))]
    while cuts := [leaf for leaf in leaves if leaf.cut is not None and noise.explains(leaf.cut)]:
        leaf = min(cuts, key=lambda each: each.rms)
        leaves.remove(leaf)
        leaves += leaf.halves()
        if leaf.cut is not None:
            noise.add(leaf.cut)
    return blocks_from_kernel(leaves, KERNEL * noise.level)


@dataclass(frozen=True, eq=False)
class Leaf:
    """A subspace, the matrices within it, and the best cut through it; None for a line."""

    basis: Float[np.ndarray, "n s"]
    within: Float[np.ndarray, "m s s"]
    cut: Split | None
    X: Float[np.ndarray, "s s"]

    @classmethod
    def of(cls, A: np.ndarray, basis: np.ndarray, X: np.ndarray | None = None, clean: float = 0.0) -> Leaf:
        """The leaf of a basis; `X` nearly commutes, and is as good as the best if it cuts as cleanly as `clean`."""
        within = basis.T @ A @ basis
        if basis.shape[1] == 1:
            return cls(basis, within, None, np.zeros((1, 1)))
        if X is not None:
            cut = split_at_gap(within, X)
            if cut.rms <= clean:
                return cls(basis, within, cut, X)
        best = nearest_to_commuting(within)
        return cls(basis, within, split_at_gap(within, best), best)

    @property
    def rms(self) -> float:
        return self.cut.rms if self.cut else np.inf

    @property
    def size(self) -> float:
        return rms(self.within)

    def halves(self) -> list[Leaf]:
        assert self.cut is not None
        return [self.half(part) for part in (self.cut.first, self.cut.second)]

    def half(self, part: np.ndarray) -> Leaf:
        inner = Leaf.of(self.within, part, part.T @ self.X @ part, REUSED * self.rms)
        return Leaf(self.basis @ part, inner.within, inner.cut, inner.X)


def blocks_from_kernel(leaves: list[Leaf], small: float) -> tuple[list[np.ndarray], np.ndarray]:
    """The blocks, the strongest first, and the kernel: what is left of a part whose matrices are noise."""
    blocks = sorted((leaf for leaf in leaves if leaf.size > small), key=lambda leaf: -float(np.sum(leaf.within**2)))
    kernel = [leaf.basis for leaf in leaves if leaf.size <= small]
    return [leaf.basis for leaf in blocks], np.hstack([np.zeros((len(leaves[0].basis), 0)), *kernel])
