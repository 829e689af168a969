"""The usual fused projections of a layer, Q, K, V and W_o, cut into heads: given as matrices or in a torch module."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._types import ArrayLike
from .._validate import as_real, require_shape
from .attention import Attention


def heads_of(
    Q: ArrayLike,
    K: ArrayLike,
    V: ArrayLike,
    W_o: np.ndarray,
    heads: int,
    scale: float | None,
    q_bias: ArrayLike | None,
    v_bias: ArrayLike | None,
) -> list[Attention]:
    """`Q, K, V` hold equally many rows for each head, `W_o (rows of V,)` or `(rows of V, k)` likewise."""
    q, k, v = (cut_by_head(as_real(a, name), heads, name) for a, name in ((Q, "Q"), (K, "K"), (V, "V")))
    require_shape(len(W_o) == heads * len(v[0]), f"W_o with {heads * len(v[0])} columns, like the rows of V", W_o.shape)
    on_q, on_v = cut_bias(q_bias, q, "q_bias"), cut_bias(v_bias, v, "v_bias")
    factor, outputs = len(q[0]) ** -0.5 if scale is None else scale, np.split(W_o, heads)
    return [
        Attention.from_projections(q[h], k[h], v[h], outputs[h], scale=factor, q_bias=on_q[h], v_bias=on_v[h])
        for h in range(heads)
    ]


def cut_by_head(matrix: np.ndarray, heads: int, name: str) -> list[np.ndarray]:
    fits = matrix.ndim == 2 and matrix.size > 0 and len(matrix) % heads == 0
    require_shape(fits, f"{name} of shape (rows, d) with equally many rows for each of {heads} heads", matrix.shape)
    return np.split(matrix, heads)


def cut_bias(bias: ArrayLike | None, rows: list[np.ndarray], name: str) -> Sequence[np.ndarray | None]:
    if bias is None:
        return [None] * len(rows)
    bias, size = as_real(bias, name), sum(map(len, rows))
    require_shape(bias.shape == (size,), f"{name} of shape ({size},)", bias.shape)
    return np.split(bias, len(rows))


def with_readout(W_o: ArrayLike, o_bias: ArrayLike | None, readout: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """`W_o` by input and the bias, both after the read-out."""
    w_o = as_real(W_o, "W_o")
    require_shape(w_o.ndim == 2 and w_o.size > 0, "W_o of shape (k, d)", w_o.shape)
    outputs = len(w_o)
    o_bias = np.zeros(outputs, w_o.dtype) if o_bias is None else as_real(o_bias, "o_bias")
    require_shape(o_bias.shape == (outputs,), f"o_bias of shape ({outputs},), one per row of W_o", o_bias.shape)
    if readout is None:
        return w_o.T, o_bias
    readout = as_real(readout, "readout")
    require_shape(readout.shape == (outputs,), f"readout of shape ({outputs},), one per row of W_o", readout.shape)
    return w_o.T @ readout, np.asarray(o_bias @ readout)


def projections_of(module: Any) -> dict[str, Any]:
    """The arguments of `MultiHead.from_projections`."""
    import torch

    layer: Any = module  # torch's own types are partial
    if not isinstance(layer, torch.nn.MultiheadAttention):
        raise TypeError(f"expected a torch.nn.MultiheadAttention, got {type(module).__name__}")
    require_self_attention(module)
    if module.training and module.dropout > 0:
        warnings.warn(
            f"this layer is in training mode, where it drops weights at random (dropout={module.dropout}); the model "
            "is what it computes after module.eval()",
            stacklevel=3,
        )
    Q, K, V = np.split(array(module.in_proj_weight), 3)
    projections = {"Q": Q, "K": K, "V": V, "W_o": array(module.out_proj.weight), "heads": module.num_heads}
    if module.in_proj_bias is None:
        return projections
    q_bias, _, v_bias = np.split(array(module.in_proj_bias), 3)  # a key's own bias shifts all scores alike
    return projections | {"q_bias": q_bias, "v_bias": v_bias, "o_bias": array(module.out_proj.bias)}


def require_self_attention(module: Any) -> None:
    if not module.embed_dim == module.kdim == module.vdim:
        raise ValueError(
            f"expected a layer that can attend to its own input, kdim = vdim = embed_dim = {module.embed_dim}, "
            f"got kdim={module.kdim}, vdim={module.vdim}"
        )
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(
            "expected a layer without add_bias_kv and add_zero_attn, got one that attends to a token of its own; "
            "ask it as a black box with that token made part of every sequence"
        )


def array(tensor: Any) -> np.ndarray:
    """float32 and float64 stay what they are; the rest fits into float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.element_size() >= 4 else tensor.float()).numpy()
