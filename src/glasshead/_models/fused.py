"""Heads as fused projections: Q, K, V and O side by side, as the layers of other libraries have them.

Answers show `W = K^T Q / sqrt(width)`, `key_bias = K^T q_bias / sqrt(width)` and `v = V^T O^T` of every head, and
nothing of the basis in which Q and K, V and O meet. The one chosen here is balanced: K and `[Q, q_bias]`, V and O have
the same singular values, in falling order; a key bias larger than W counts as large as W. A bias of the keys shifts all
scores alike where positions do not turn them, and one of the values cannot be told from that of the output: both are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._linalg import factored_svd, numerical_rank
from .._types import ArrayLike, Float
from .half_split import half_split
from .rotary import Rotary

SAME_MODEL = 1e-10  # of its norm, a matrix may lose so much and still be called the same


@runtime_checkable
class Scored(Protocol):
    """A head as far as it is exported."""

    @property
    def dim(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.floating]: ...
    @property
    def W_norm(self) -> float: ...
    @property
    def W(self) -> np.ndarray: ...
    @property
    def key_bias(self) -> np.ndarray: ...
    @property
    def v(self) -> np.ndarray: ...
    def score_tensors(self) -> dict[str, np.ndarray]: ...


@dataclass(frozen=True)
class Layer:
    """What is exported of a model: its heads, the bias of its outputs or None where nobody knows it, how positions turn
    scores, what a place adds to them, and what else was chosen."""

    heads: Sequence[Scored]
    bias: ArrayLike | None
    rotary: Rotary | None = None
    slopes: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    def allowed(self, rtol: float | None) -> float:
        """The share of a matrix that may be left out."""
        head = self.heads[0]
        return max(SAME_MODEL, 4 * head.dim * float(np.finfo(head.dtype).eps)) if rtol is None else rtol


@dataclass(frozen=True, eq=False)
class Projections:
    """The fused projections of a layer as `nn.MultiheadAttention` has them: rows of Q, K, V and columns of O by head.

    `softmax_i((K_h x_i) . (Q_h x_N + q_bias_h) / sqrt(width)) (V_h x_i + v_bias_h)` for each head h, side by side, then
    `O (..) + o_bias`. `chosen` says what answers do not show and was chosen, `lost` the largest share of a matrix that
    did not fit into `width` rows.

    With rotary positions there are `frequencies`, in radians per place, and biases of keys: `(K_h x_i + k_bias_h) .
    R(t) (Q_h x_N + q_bias_h)`, t places before the last token, where coordinate j turns with coordinate `width / 2 +
    j`, `R(t) (a, b) = (a cos - b sin, b cos + a sin)`.
    """

    Q: Float[np.ndarray, "rows d"]
    K: Float[np.ndarray, "rows d"]
    V: Float[np.ndarray, "rows d"]
    O: Float[np.ndarray, "k rows"]  # noqa: E741 (its name everywhere)
    q_bias: Float[np.ndarray, " rows"]
    k_bias: Float[np.ndarray, " rows"]
    v_bias: Float[np.ndarray, " rows"]
    o_bias: Float[np.ndarray, " k"]
    heads: int
    lost: float
    chosen: str
    frequencies: Float[np.ndarray, " half"] | None = None

    @property
    def width(self) -> int:
        """Rows of Q, K and V that each head has."""
        return len(self.Q) // self.heads

    def by_head(self, rows: Float[np.ndarray, "rows *d"]) -> Float[np.ndarray, "heads width *d"]:
        """Rows of Q, K, V or of their biases, cut into heads."""
        return rows.reshape(self.heads, self.width, *rows.shape[1:])


def projections(layer: Layer, width: int | None = None, rtol: float | None = None) -> Projections:
    """The fused projections of the sum of the layer's heads."""
    heads, bias, allowed = layer.heads, layer.bias, layer.allowed(rtol)
    dim, dtype, outputs = heads[0].dim, heads[0].dtype, heads[0].v.shape[1:] or (1,)
    width = whole_width(dim, len(heads)) if width is None else width
    if width < 1:
        raise ValueError(f"expected a width >= 1, got {width}")
    if layer.slopes is not None:
        raise ValueError("these layouts have no place for slopes of scores (ALiBi), which this model has")
    if layer.rotary is None:
        scoring = [cut_scores(head, h, width, allowed) for h, head in enumerate(heads)]
        Q, K, q_bias = (np.concatenate([part[i] for part in scoring]) for i in range(3))
        k_bias, frequencies, lost = np.zeros(len(Q)), None, max(part[3] for part in scoring)
    else:
        turned = half_split(layer.rotary.heads, width, allowed)
        Q, K, q_bias, k_bias = turned.Q, turned.K, turned.q_bias, turned.k_bias
        frequencies, lost = turned.frequencies, turned.lost
    values = [cut_values(head, h, width, allowed) for h, head in enumerate(heads)]
    V, O = (np.concatenate([part[i] for part in values]) for i in range(2))  # noqa: E741
    known = np.zeros(outputs) if bias is None else np.broadcast_to(np.asarray(bias), outputs)
    lost = max(lost, *(part[2] for part in values))
    return Projections(
        Q=Q.astype(dtype),
        K=K.astype(dtype),
        V=V.astype(dtype),
        O=O.T.astype(dtype),
        q_bias=q_bias.astype(dtype),
        k_bias=k_bias.astype(dtype),
        v_bias=np.zeros(len(V), dtype),
        o_bias=known.astype(dtype),
        heads=len(heads),
        lost=lost,
        chosen=choice(layer, lost),
        frequencies=frequencies,
    )


def choice(layer: Layer, lost: float) -> str:
    """What was chosen, for a reader."""
    said = [
        "the basis of every head, which answers do not show, makes Q and K, and V and O, equally large",
        "the biases of keys (they do nothing) and values (part of the output bias) are 0"
        if layer.rotary is None
        else "the biases of values (part of the output bias) are 0",
        "the output bias is not known and set to 0" if layer.bias is None else "the output bias is the model's",
        *layer.notes,
        *([f"a share of {lost:.1e} was left out"] if lost else []),
    ]
    return f"Chosen: {'; '.join(said)}."


def whole_width(dim: int, heads: int) -> int:
    if dim % heads:
        raise ValueError(f"{heads} heads do not divide d = {dim}, as this layout wants; to_projections takes a width")
    return dim // heads


def cut_scores(head: Scored, number: int, width: int, allowed: float) -> tuple[Any, ...]:
    """`Q, K (width, d)` and `q_bias (width,)` of one head, and what did not fit, as a share."""
    size = float(np.linalg.norm(head.key_bias))
    scale = min(1.0, (head.W_norm or 1.0) / size) if size else 1.0  # else W drowns in the rounding of a large bias
    left, s, right, own = decomposed(head, scale * head.key_bias.astype(np.float64))
    require_fit(f"W of head {number}", own, width, allowed)
    if (lost := share_beyond(s, width)) > allowed:
        raise ValueError(
            f"the key bias of head {number} lies outside of the column space of K: with {width} rows per head a share "
            f"of {lost:.1e} of it would be lost"
        )
    K, Q = balanced(left, s * np.sqrt(width), right, width)
    return Q[:, :-1], K, Q[:, -1] / scale, lost


def cut_values(head: Scored, number: int, width: int, allowed: float) -> tuple[Any, ...]:
    """`V (width, d)` and `O^T (width, k)` of one head, and what did not fit, as a share."""
    U, sizes, Vt = np.linalg.svd(head.v.astype(np.float64).reshape(head.dim, -1), full_matrices=False)
    require_fit(f"v of head {number}", sizes, width, allowed)
    return *balanced(U, sizes, Vt, width), share_beyond(sizes, width)


def decomposed(head: Scored, column: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The singular value decomposition of `[W, column]`, and the singular values of W alone.

    Taken together, a W of lower rank than K leaves room for a key bias that is not in its own column space.
    """
    own = {name: tensor.astype(np.float64) for name, tensor in head.score_tensors().items()}
    if "W" in own:
        U, s, Vt = np.linalg.svd(np.c_[own["W"], column], full_matrices=False)
        return U, s, Vt, np.linalg.svd(own["W"], compute_uv=False)
    Q, K = own["Q"], own["K"]
    with_column = np.pad(Q, ((0, 1), (0, 1)))
    with_column[-1, -1] = 1.0
    return *factored_svd(with_column, np.vstack([K, column])), factored_svd(Q, K)[1]


def share_beyond(sizes: np.ndarray, width: int) -> float:
    """The share of a matrix that its singular values beyond the first `width` make up; rounding is none."""
    counted = sizes[: max(1, numerical_rank(sizes, len(sizes)))]
    whole = float(np.linalg.norm(counted))
    return float(np.linalg.norm(counted[width:])) / whole if whole else 0.0


def require_fit(what: str, sizes: np.ndarray, width: int, allowed: float) -> None:
    """ValueError where a matrix with these singular values has too high a rank."""
    if (share := share_beyond(sizes, width)) <= allowed:
        return
    rank = next(rank for rank in range(width + 1, len(sizes) + 1) if share_beyond(sizes, rank) <= allowed)
    raise ValueError(
        f"{what} has rank {rank}, but there are {width} rows per head: a share of {share:.1e} of it would be lost; "
        f"to_projections(width={rank}) and to_transformer_lens(width={rank}) have room for it"
    )


def balanced(left: np.ndarray, s: np.ndarray, right: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """`A, B` of `width` rows with `A^T B = left diag(s) right`, as far as rows reach; rows of rounding are 0."""
    keep = min(width, numerical_rank(s, len(s)))
    root, missing = np.sqrt(s[:keep])[:, None], ((0, width - keep), (0, 0))
    return np.pad(root * left[:, :keep].T, missing), np.pad(root * right[:keep], missing)
