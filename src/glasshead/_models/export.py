"""Heads back in the user's world: as fused projections, as a torch layer, under the names of other libraries.

Answers show `W = K^T Q / sqrt(width)`, `key_bias = K^T q_bias / sqrt(width)` and `v = V^T O^T` of every head, and
nothing of the basis in which Q and K, V and O meet. The one chosen here is balanced: K and `[Q, q_bias]`, V and O have
the same singular values, in falling order; a key bias larger than W counts as large as W. A bias of the keys shifts all
scores alike, and one of the values cannot be told from that of the output: both are 0. The functions take heads, so
that a model which is a list of heads inherits `Exported` and names them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._linalg import factored_svd, numerical_rank
from .._types import ArrayLike, Float

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
    def key_bias(self) -> np.ndarray: ...
    @property
    def v(self) -> np.ndarray: ...
    def score_tensors(self) -> dict[str, np.ndarray]: ...


@dataclass(frozen=True, eq=False)
class Projections:
    """The fused projections of a layer as `nn.MultiheadAttention` has them: rows of Q, K, V and columns of O by head.

    `softmax_i((K_h x_i) . (Q_h x_N + q_bias_h) / sqrt(width)) (V_h x_i + v_bias_h)` for each head h, side by side, then
    `O (..) + o_bias`. `chosen` says what answers do not show and was chosen, `lost` the largest share of a matrix that
    did not fit into `width` rows.
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

    @property
    def width(self) -> int:
        """Rows of Q, K and V that each head has."""
        return len(self.Q) // self.heads

    def by_head(self, rows: Float[np.ndarray, "rows *d"]) -> Float[np.ndarray, "heads width *d"]:
        """Rows of Q, K, V or of their biases, cut into heads."""
        return rows.reshape(self.heads, self.width, *rows.shape[1:])


class StateDict(dict[str, Any]):
    """Parameters by name, with `chosen`, a sentence on what answers do not show."""

    def __init__(self, named: Mapping[str, Any], chosen: str) -> None:
        super().__init__(named)
        self.chosen = chosen


class Exported(ABC):
    """A model made of heads that can be handed to other libraries."""

    @abstractmethod
    def _layer(self) -> tuple[Sequence[Scored], ArrayLike | None]:
        """Its heads, and the bias of its outputs or None where nobody knows it."""

    def to_projections(self, width: int | None = None, *, rtol: float | None = None) -> Projections:
        """Q, K, V, O and their biases in the layout of `nn.MultiheadAttention`, with one choice of basis per head.

        >>> gh.MultiHead.random(8, heads=2, rank=4).to_projections().Q.shape
        (8, 8)

        `width` is the number of rows per head, d / H unless told. ValueError where a head does not fit: W or v of a
        higher rank, or a key bias outside of the column space of K. To leave out up to a share `rtol` of a matrix is
        allowed, 1e-10 or the rounding of a product in the model's format; `.lost` has what it was. Recovered from few
        digits, a key bias is off by more than that: pass the error of the recovery. One number per answer is one row
        of O.
        """
        return projections(*self._layer(), width, rtol)

    def to_torch(self, *, rtol: float | None = None) -> Any:
        """An `nn.MultiheadAttention` (`batch_first`, in evaluation mode) that answers like the model.

        `layer(X, X, X)[0][:, -1]` is `model(X)`. For models that answer d numbers with heads that divide d;
        `layer.chosen` says what answers do not show. `rtol` and errors are those of `to_projections`.
        """
        return torch_layer(square(self._layer(), rtol, "nn.MultiheadAttention"))

    def to_transformers(self, kind: str, *, prefix: str = "", rtol: float | None = None) -> StateDict:
        """A state dict of torch tensors for the attention of a Hugging Face model.

        `"bert"`: the names of `BertAttention`, so that
        `bert.encoder.layer[0].attention.load_state_dict(model.to_transformers("bert"), strict=False)` replaces all but
        its LayerNorm; `prefix` goes before every name, `"encoder.layer.0.attention."` for the whole model. `.chosen`
        says what answers do not show. `rtol` and errors are those of `to_projections`.
        """
        if kind not in LAYOUTS:
            raise ValueError(f"expected one of {', '.join(map(repr, LAYOUTS))}, got {kind!r}")
        return named_state(square(self._layer(), rtol, "this kind of layer"), LAYOUTS[kind], prefix)

    def to_transformer_lens(self, width: int | None = None, *, rtol: float | None = None) -> StateDict:
        """The parameters under the names and in the shapes of TransformerLens, as numpy arrays.

        `W_Q, W_K, W_V [head, d_model, d_head]`, `W_O [head, d_head, d_model]`, `b_Q, b_K, b_V [head, d_head]`,
        `b_O [d_model]`: tokens are rows there, `x @ W_Q[h] + b_Q[h]`, and scores are divided by `sqrt(d_head)`.
        `.chosen` says what answers do not show. `width`, `rtol` and errors are those of `to_projections`.
        """
        return transformer_lens(projections(*self._layer(), width, rtol))


def projections(
    heads: Sequence[Scored], bias: ArrayLike | None, width: int | None = None, rtol: float | None = None
) -> Projections:
    """The fused projections of the sum of these heads; a bias of None is unknown."""
    dim, dtype, outputs = heads[0].dim, heads[0].dtype, heads[0].v.shape[1:] or (1,)
    if width is None and dim % len(heads):
        count = f"{len(heads)} heads do not divide d = {dim}"
        raise ValueError(f"{count}, as this layout wants; to_projections takes a width")
    width = dim // len(heads) if width is None else width
    if width < 1:
        raise ValueError(f"expected a width >= 1, got {width}")
    allowed = max(SAME_MODEL, 4 * dim * float(np.finfo(dtype).eps)) if rtol is None else rtol
    cut = [cut_head(head, h, width, allowed) for h, head in enumerate(heads)]
    Q, K, V, O, q_bias = (np.concatenate([part[i] for part in cut]).astype(dtype) for i in range(5))  # noqa: E741
    known = np.zeros(outputs, dtype) if bias is None else np.broadcast_to(np.asarray(bias, dtype), outputs).copy()
    none, lost = np.zeros(len(Q), dtype), max(part[5] for part in cut)
    return Projections(Q, K, V, O.T, q_bias, none, none.copy(), known, len(heads), lost, choice(bias is None, lost))


def choice(unknown_bias: bool, lost: float) -> str:
    """What was chosen, for a reader."""
    basis = "the basis of every head, which answers do not show, makes Q and K, and V and O, equally large"
    biases = "the biases of keys (they do nothing) and values (part of the output bias) are 0"
    output = "the output bias is not known and set to 0" if unknown_bias else "the output bias is the model's"
    return f"Chosen: {basis}; {biases}; {output}" + (f"; a share of {lost:.1e} was left out." if lost else ".")


def cut_head(head: Scored, number: int, width: int, allowed: float) -> tuple[Any, ...]:
    """`Q, K, V (width, d)`, `O^T (width, k)` and `q_bias (width,)` of one head, and what did not fit, as a share."""
    size = float(np.linalg.norm(head.key_bias))
    scale = min(1.0, (head.W_norm or 1.0) / size) if size else 1.0  # else W drowns in the rounding of a large bias
    left, s, right, own = decomposed(head, scale * head.key_bias.astype(np.float64))
    check_fits(f"W of head {number}", own, width, allowed)
    if (lost := share_beyond(s, width)) > allowed:
        raise ValueError(
            f"the key bias of head {number} lies outside of the column space of K: with {width} rows per head a share "
            f"of {lost:.1e} of it would be lost"
        )
    U, sizes, Vt = np.linalg.svd(head.v.astype(np.float64).reshape(head.dim, -1), full_matrices=False)
    check_fits(f"v of head {number}", sizes, width, allowed)
    K, Q = balanced(left, s * np.sqrt(width), right, width)
    V, O = balanced(U, sizes, Vt, width)  # noqa: E741
    return Q[:, :-1], K, V, O, Q[:, -1] / scale, max(lost, share_beyond(sizes, width))


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


def check_fits(what: str, sizes: np.ndarray, width: int, allowed: float) -> None:
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


def square(layer: tuple[Sequence[Scored], ArrayLike | None], rtol: float | None, what: str) -> Projections:
    """Projections for a layer whose answers are as long as its tokens."""
    heads, bias = layer
    dim, outputs = heads[0].dim, heads[0].v.shape[1:]
    if outputs != (dim,):
        raise ValueError(
            f"{what} answers d = {dim} numbers, this model {outputs[0] if outputs else 'one'}; to_projections and "
            "to_transformer_lens have its matrices"
        )
    return projections(heads, bias, None, rtol)


def torch_layer(found: Projections) -> Any:
    import torch

    dtype = torch.as_tensor(found.Q).dtype
    layer: Any = torch.nn.MultiheadAttention(found.Q.shape[1], found.heads, batch_first=True, dtype=dtype)
    state = {
        "in_proj_weight": np.concatenate([found.Q, found.K, found.V]),
        "in_proj_bias": np.concatenate([found.q_bias, found.k_bias, found.v_bias]),
        "out_proj.weight": found.O,
        "out_proj.bias": found.o_bias,
    }
    layer.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    layer.chosen = found.chosen
    return layer.eval()


LAYOUTS = {"bert": {"Q": "self.query", "K": "self.key", "V": "self.value", "O": "output.dense"}}


def named_state(found: Projections, names: Mapping[str, str], prefix: str) -> StateDict:
    """Weights and biases of linear layers with these names, as torch tensors."""
    import torch

    state = {f"{name}.weight": getattr(found, part) for part, name in names.items()}
    state |= {f"{name}.bias": getattr(found, f"{part.lower()}_bias") for part, name in names.items()}
    return StateDict({prefix + name: torch.tensor(array) for name, array in state.items()}, found.chosen)


def transformer_lens(found: Projections) -> StateDict:
    inward = {f"W_{part}": found.by_head(getattr(found, part)).swapaxes(1, 2) for part in "QKV"}
    biases = {f"b_{part}": found.by_head(getattr(found, f"{part.lower()}_bias")) for part in "QKV"}
    return StateDict(inward | {"W_O": found.by_head(found.O.T)} | biases | {"b_O": found.o_bias}, found.chosen)
