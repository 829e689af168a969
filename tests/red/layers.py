"""Layers of torch that nobody here wrote, as a user would wrap them."""

from __future__ import annotations

import functools

import numpy as np

import glasshead as gh

from .box import Box, Draw, Scores, kind

TORCH = tuple(f"{form}/{promise}" for form in ("float64", "float32", "bfloat16") for promise in ("none", "norm"))
TORCH += ("float64/loose-rtol", "float64/rounded", "float64/signs")


@functools.cache
def torch():
    import torch

    torch.set_num_threads(1)
    return torch


def prepared(module, draw: Draw):
    """In evaluation mode and in its format, with the initial weights or with biases and gains that are not 0 and 1."""
    t = torch()
    if draw.chance():
        size, source = draw.pick(0.1, 0.3), t.Generator().manual_seed(int(draw.rng.integers(2**31)))
        with t.no_grad():
            for parameter in module.parameters():
                parameter.add_(size * t.randn(parameter.shape, generator=source))
    return module.eval().to(getattr(t, draw.form.name))


def asked(forward, readout, draw: Draw):
    """The last token's output, whole or through a read-out in numpy's float64, as users write it."""
    t, dtype = torch(), getattr(torch(), draw.form.name)

    def answer(X):
        with t.no_grad():
            y = forward(t.tensor(np.ascontiguousarray(X)).to(dtype))[:, -1]
        y = (y.float() if dtype is t.bfloat16 else y).numpy()
        return y if readout is None else y @ readout

    return answer


def wide(parameter) -> np.ndarray:
    return parameter.detach().double().numpy()


def heads_of(layer) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """W, key bias and values (d, d) of every head."""
    dim, heads = layer.embed_dim, layer.num_heads
    width = dim // heads
    Q, K, V = wide(layer.in_proj_weight).reshape(3, heads, width, dim)
    q = wide(layer.in_proj_bias)[:dim].reshape(heads, width) / np.sqrt(width)
    O = wide(layer.out_proj.weight).reshape(dim, heads, width)  # noqa: E741
    return [(K[h].T @ Q[h] / np.sqrt(width), K[h].T @ q[h], V[h].T @ O[:, h].T) for h in range(heads)]


def bias_of(layer) -> np.ndarray:
    return wide(layer.out_proj.weight) @ wide(layer.in_proj_bias)[2 * layer.embed_dim :] + wide(layer.out_proj.bias)


def attention_layer(draw: Draw, heads: int) -> Box:
    t = torch()
    t.manual_seed(int(draw.rng.integers(2**31)))
    dim = heads * draw.pick(2, 4, 8) if heads > 1 else draw.pick(3, 4, 8, 16)
    layer = prepared(t.nn.MultiheadAttention(dim, heads, batch_first=True), draw)
    readout = draw.normal(dim) if draw.scalar or draw.chance(0.4) else None
    parts, bias = heads_of(layer), bias_of(layer)
    if readout is not None:
        parts, bias = [(W, k, v @ readout) for W, k, v in parts], bias @ readout
    truth = gh.MultiHead([gh.Attention(W, v, key_bias=k) for W, k, v in parts], bias=bias)
    truth = truth if heads > 1 else gh.Attention(parts[0][0], parts[0][2], key_bias=parts[0][1], bias=bias)
    count = len(gh.canonical(truth).heads)
    return Box(
        asked(lambda x: layer(x, x, x, need_weights=False)[0], readout, draw), dim, truth, count, "family", 2,
        signs="attention" if heads == 1 else None, family=draw.family("multi-head" if heads > 1 else "attention"),
    )  # fmt: skip


def encoder_layer(draw: Draw, heads: int) -> Box:
    t = torch()
    t.manual_seed(int(draw.rng.integers(2**31)))
    dim = heads * draw.pick(4, 8) if heads > 1 else draw.pick(4, 8, 16)
    first, act = draw.chance(), draw.pick("relu", "gelu")
    made = t.nn.TransformerEncoderLayer(dim, heads, 2 * dim, activation=act, batch_first=True, norm_first=first)
    layer = prepared(made, draw)
    readout = draw.normal(dim) if draw.scalar or draw.chance(0.4) else None
    truth = None
    if heads == 1:
        (W, key_bias, _), gain, shift = heads_of(layer.self_attn)[0], wide(layer.norm1.weight), wide(layer.norm1.bias)
        PG = (np.eye(dim) - 1 / dim) * gain
        truth = Scores(PG @ W @ PG.T, PG @ (W @ shift + key_bias), "layer") if first else Scores(W, key_bias)
    inside = "family" if heads == 1 else "either"
    return Box(
        asked(layer, readout, draw), dim, truth, heads, inside, 2, signs="any-network" if heads == 1 else None,
        family=draw.family("any-network"),
    )  # fmt: skip


def register(heads: int) -> None:
    few = "1 head" if heads == 1 else "several heads"
    kind(f"torch MultiheadAttention, {few}", TORCH, f"torch-mha-{heads}")(lambda draw: attention_layer(draw, heads))
    kind(f"torch TransformerEncoderLayer, {few}", TORCH, f"torch-encoder-{heads}")(
        lambda draw: encoder_layer(draw, heads)
    )


for count in (1, 2, 4):
    register(count)
