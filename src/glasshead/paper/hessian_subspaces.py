"""Appendix C.1: Hessians of `F(z) = f([z + q ; q])` from value queries reveal the hidden orthogonal subspaces."""

from __future__ import annotations

import numpy as np

from .._errors import NotIdentifiable, TargetMismatch
from .._linalg import rms
from .._oracles import Oracle, as_oracle, read_unit_rows
from .._types import Answering, Float
from .._validate import positive, whole
from ._blockdiag import blocks_and_kernel


def read_hessian_at_zero(oracle: Oracle, q: np.ndarray, v: np.ndarray, step: float) -> Float[np.ndarray, "d d"]:
    """Four times the Hessian at 0, with `d (d + 1) / 2` queries: half of what central differences take.

    For every head `F(z) - F(-z) = z.v`, so with v, the sum of all, known, the even part `F(z) - q.v - z.v / 2` is known
    from z alone.
    """
    Z, a, b = directions(len(q), step)
    even = read_curve(oracle, Z, q) - q @ v - Z @ v / 2
    return symmetric_from(8 * even / step**2, a, b)


def read_hessian(oracle: Oracle, q: np.ndarray, z: np.ndarray, step: float) -> Float[np.ndarray, "d d"]:
    """Four times the Hessian at z by central differences: `d (d + 1) + 1` queries."""
    Z, a, b = directions(len(q), step)
    answers = read_curve(oracle, np.vstack([z + Z, z - Z, z[None]]), q)
    second = answers[: len(Z)] + answers[len(Z) : -1] - 2 * answers[-1]
    return symmetric_from(4 * second / step**2, a, b)


def directions(d: int, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`step * (e_a + e_b)` for a < b, and `step * e_a` for a = b."""
    a, b = np.triu_indices(d)
    unit = np.eye(d)
    return step * (unit[a] + unit[b]) / np.where(a == b, 2, 1)[:, None], a, b


def symmetric_from(quadratic: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The symmetric matrix with these values of `x . A x` along `directions`, steps divided out."""
    diagonal = quadratic[a == b]
    A = np.diag(diagonal)
    A[a, b] = A[b, a] = np.where(a == b, quadratic, (quadratic - diagonal[a] - diagonal[b]) / 2)
    return A


def read_curve(oracle: Oracle, Z: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.asarray(oracle(np.stack([Z + q, np.broadcast_to(q, Z.shape)], axis=1)))


ABOVE_ERROR = 10.0  # times the error of a Hessian's entry: what a direction must answer to count as used
ERROR_SAFETY = 2.0  # errors of one Hessian stand for those of all, and are not spread evenly over its entries
OVERLAP = 0.1  # cosine between directions of two heads from which on they are not called orthogonal


def hessian_subspaces(
    oracle: Oracle | Answering, step: float = 1e-3, points: int = 2, seed: int = 0
) -> list[Float[np.ndarray, "d _"]]:
    """Orthonormal bases of the subspaces of Assumption C.1, one for each head, to about the square of `step`.

    >>> rng = np.random.default_rng(0)
    >>> bases = np.split(np.linalg.qr(rng.standard_normal((6, 6)))[0], 2, axis=1)
    >>> box = gh.MultiHead([gh.Attention(E @ rng.standard_normal((3, 3)) @ E.T, E @ np.ones(3)) for E in bases])
    >>> found = gh.paper.proposition_c_2(box, gh.paper.hessian_subspaces(box))
    >>> found.heads, gh.distance(found.model, box) < 1e-5
    (2, True)

    `A_j`, four times the Hessian of `f([z + e_j ; e_j])` at z = 0, is `sum_h W_h e_j v_h^T + v_h (W_h e_j)^T`: block-
    diagonal in the hidden basis, for all j at once, and so is the Hessian at any other z. The finest common blocks of
    all of them, by `gh.blockdiag`, are the subspaces. At 0 alone a head whose W has rank one falls into two; `points`
    Hessians elsewhere, at random tokens, hold it together. What no Hessian sees is added from the same answers:
    directions a head only reads queries from, and the v of a head with W = 0. Directions that no head uses are left
    out.

    That takes `d` queries for the sum of all v, `(d + 1) d (d + 1) / 2` for the Hessians at 0, one of them twice, with
    two steps, which tells how far off they are, and `2 points (d (d + 1) + 1)` for the others, each twice. The error is
    about `step**2` times the cube of a column of W, and rounding over `step**2`.
    """
    oracle = as_oracle(oracle)
    step, points = positive(step, "step"), whole(points, "points", least=0)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    v = read_unit_rows(oracle)
    A = np.stack([read_hessian_at_zero(oracle, e_j, v, step) for e_j in np.eye(oracle.dim)])
    error = find_entry_error(A, oracle, v, step)
    elsewhere = [read_hessian_elsewhere(oracle, A, v, step, error, rng) for _ in range(points)]
    blocks, kernel = blocks_and_kernel(np.concatenate([A, np.reshape(elsewhere, (points, *A.shape[1:]))]), error)
    if not blocks:
        raise NotIdentifiable(
            f"no Hessian stands above its error of {error:.1g} an entry: W = 0 in every head, so that the box averages "
            f"and has no subspaces, or its answers are too coarse for step={step:g} and a larger one is needed"
        )
    blocks = [np.hstack([E, queries_only(A, E, kernel, error)]) for E in blocks]
    return nearest_orthonormal(blocks + averaging(blocks, v, error / rms(A)))


def find_entry_error(A: np.ndarray, oracle: Oracle, v: np.ndarray, step: float) -> float:
    """The error of an entry, from the largest Hessian and the same one with twice the step; rounding at least."""
    j = int(np.argmax(np.linalg.norm(A, axis=(1, 2))))
    rounding = ERROR_SAFETY * 8 * oracle.roundoff * float(np.abs(v).max()) / step**2
    return max(rounding, step_difference(read_hessian_at_zero(oracle, np.eye(oracle.dim)[j], v, 2 * step), A[j]))


def step_difference(coarse: np.ndarray, fine: np.ndarray) -> float:
    return ERROR_SAFETY * rms(coarse - fine)


def read_hessian_elsewhere(
    oracle: Oracle, A: np.ndarray, v: np.ndarray, step: float, error: float, rng: np.random.Generator
) -> np.ndarray:
    """Reads the Hessian at a random query token and a z with scores of about 1, where the sigmoid is curved; weighed by
    its error."""
    d = oracle.dim
    q, z = rng.standard_normal((2, d)) / np.array([[np.sqrt(d)], [1.0]])
    key = np.linalg.norm(np.tensordot(q, A, 1)) / (np.sqrt(2) * np.linalg.norm(v)) or 1.0
    fine, coarse = (read_hessian(oracle, q, z / key, times * step / key) for times in (1, 2))
    own = step_difference(coarse, fine)
    return fine * error / own if own > error else fine


def queries_only(A: np.ndarray, E: np.ndarray, kernel: np.ndarray, error: float) -> np.ndarray:
    """The directions k of the kernel with `W_h k != 0`: `sum_j k_j A_j` is then not 0 within head h's block."""
    if not kernel.size:
        return kernel
    seen = kernel.T @ (E.T @ A @ E).reshape(len(A), -1)
    U, s, _ = np.linalg.svd(seen, full_matrices=False)
    return kernel @ U[:, s > ABOVE_ERROR * error * np.sqrt(max(seen.shape))]


def averaging(blocks: list[np.ndarray], v: np.ndarray, relative: float) -> list[np.ndarray]:
    """What the blocks leave of the sum of all v belongs to a head that averages: its Hessians are 0."""
    together = np.hstack(blocks)
    left = v - together @ (together.T @ v)
    return [left[:, None]] if np.linalg.norm(left) > ABOVE_ERROR * relative * np.linalg.norm(v) else []


def nearest_orthonormal(blocks: list[np.ndarray]) -> list[np.ndarray]:
    together = np.hstack([E / np.linalg.norm(E, axis=0) for E in blocks])
    off = np.abs(together.T @ together - np.eye(together.shape[1])).max()
    if off > OVERLAP:
        raise TargetMismatch(
            f"expected heads in orthogonal subspaces, got two heads that read the same queries (cosine {off:.2f}): "
            "either they overlap, or Hessians at 0 split a head whose W has rank one, which points=2 mends; "
            'gh.recover(oracle, family="multi-head") needs no such assumption'
        )
    U, _, Vt = np.linalg.svd(together, full_matrices=False)  # the nearest orthonormal columns
    return np.split(U @ Vt, np.cumsum([E.shape[1] for E in blocks])[:-1], axis=1)
