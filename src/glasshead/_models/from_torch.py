"""`torch.nn.MultiheadAttention` as fused projections. Torch is imported here only, and only when asked for."""

from __future__ import annotations

import warnings

import numpy as np


def projections_of(module) -> dict:
    """The arguments of `MultiHead.from_projections`."""
    import torch

    if not isinstance(module, torch.nn.MultiheadAttention):
        raise TypeError(f"expected a torch.nn.MultiheadAttention, got {type(module).__name__}")
    check_self_attention(module)
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


def check_self_attention(module) -> None:
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


def array(tensor) -> np.ndarray:
    """float32 and float64 stay what they are; the rest fits into float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.element_size() >= 4 else tensor.float()).numpy()
