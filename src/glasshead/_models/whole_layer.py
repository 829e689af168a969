"""A block whose network is known, as a whole layer of other libraries: heads, norms and network.

Gains of norms in front are 1 and shifts 0 there, since heads and network have taken them in; norms behind keep theirs,
but for the shifts of the first, which are part of the network's biases. The constant that heads add is the bias of
their output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .circuits import Circuits
from .export import LAYOUTS, StateDict, square, torch_layer, with_tensors
from .inside import Inside
from .post_norm import PostNorm

DEFAULT_EPS = {"layer": 1e-5, "rms": 1e-6}  # where it is too small to have been seen
NORM_KINDS = {"torch": "layer", "bert": "layer", "gpt2": "layer", "llama": "rms"}
MUTED = 1e-12  # of the largest gain: the network cannot be given what it reads there
ACTIVATIONS_OF: dict[str, dict[str, str]] = {
    "torch": {"gelu": "gelu", "relu": "relu"},
    "bert": {"gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu": "relu"},
    "gpt2": {"gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu", "relu": "relu"},
    "llama": {"silu": "silu", "gelu": "gelu", "gelu-tanh": "gelu_pytorch_tanh"},
}


class WholeLayer(Circuits):
    """A model made of heads that may know what is behind them."""

    behind: Any

    def to_layer(self, kind: str, *, rtol: float | None = None) -> Any:
        """The whole block as a layer that answers like it for the last token.

        `"torch"`: an `nn.TransformerEncoderLayer` (`batch_first`, in evaluation mode, `norm_first` where norms stand in
        front). `"bert"`, `"gpt2"` and `"llama"`: a state dict of torch tensors for a `BertLayer`, a `GPT2Block` or a
        `LlamaDecoderLayer` of Hugging Face; its config must have `.activation`, its norms `.eps`, one for each, and
        biases of a LLaMA are there where they are larger than `rtol` of the weights. `rtol` and errors are those of
        `to_projections`. For blocks that were recovered with `network=True`; a ValueError says what else does not fit.
        Of a language model it is the block without its unembedding, which is `block.behind.last`.
        """
        if kind not in NORM_KINDS:
            raise ValueError(f"expected one of {', '.join(map(repr, NORM_KINDS))}, got {kind!r}")
        inside = self.behind
        if not isinstance(inside, Inside | PostNorm):
            raise ValueError("expected a block whose network is known: gh.recover(.., family='block', network=True)")
        require_layer(inside, kind)
        layer = self._layer()
        allowed = layer.allowed(rtol)
        small = np.abs(inside.offset).max() <= allowed * np.abs(inside.total).max()
        layer = replace(layer, bias=None if small else inside.offset)
        found = square(layer, rtol, "this kind of layer", turning=kind == "llama")
        norms = (inside.front, inside.norm) if isinstance(inside, Inside) else (inside.norm, inside.last)
        eps = tuple(norm.eps or DEFAULT_EPS[norm.kind] for norm in norms)
        activation = ACTIVATIONS_OF[kind][inside.network.activation]
        if kind == "torch":
            return encoder_layer(torch_layer(found), inside, activation, eps)
        attention = LAYOUTS[kind](found, allowed)
        if isinstance(inside, PostNorm):
            named = bert_layer(attention, inside)
        else:
            named = gpt2_block(attention, inside) if kind == "gpt2" else llama_layer(attention, inside, allowed)
        state = with_tensors(StateDict(named, found.chosen, attention.frequencies, attention.key_value_heads), "")
        state.activation, state.eps = activation, eps
        return state


def require_layer(inside: Inside | PostNorm, kind: str) -> None:
    """Refuses what such a layer has no place for."""
    network, behind = inside.network, isinstance(inside, PostNorm)
    gains = inside.gains if isinstance(inside, PostNorm) else np.ones(1)
    kinds = {inside.norm.kind, inside.last.kind if isinstance(inside, PostNorm) else inside.front.kind}
    for fits, what in (
        (not inside.parallel, "a network beside the heads"),
        (kind == "torch" or behind == (kind == "bert"), f"norms {'behind' if behind else 'in front'}"),
        (kinds == {NORM_KINDS[kind]}, f"norms of kind {inside.norm.kind!r}"),
        ((network.gate is not None) == (kind == "llama"), "a gate" if network.gate is not None else "no gate"),
        (network.activation in ACTIVATIONS_OF[kind], f"the activation {network.activation!r}"),
        (np.abs(gains).min() > MUTED * np.abs(gains).max(), "gains of 0"),
    ):
        if not fits:
            raise ValueError(f"expected a block that a layer of kind {kind!r} can hold, got one with {what}")


def bert_layer(attention: StateDict, inside: PostNorm) -> dict[str, np.ndarray]:
    network = inside.network
    named = {f"attention.{name}": x for name, x in attention.items()}
    named |= {"attention.output.LayerNorm.weight": inside.gains, "output.LayerNorm.weight": inside.last_gains}
    named |= {"attention.output.LayerNorm.bias": np.zeros(network.dim), "output.LayerNorm.bias": inside.last_shifts}
    named |= {"intermediate.dense.weight": network.W1 / inside.gains, "intermediate.dense.bias": network.b1}
    return named | {"output.dense.weight": network.W2, "output.dense.bias": network.b2}


def encoder_layer(attention: Any, inside: Inside | PostNorm, activation: str, eps: tuple[float, ...]) -> Any:
    """The torch layer, with its attention made already."""
    import torch

    network, d, first = inside.network, attention.embed_dim, isinstance(inside, Inside)
    layer: Any = torch.nn.TransformerEncoderLayer(
        d, attention.num_heads, network.width, 0.0, activation, norm_first=first, batch_first=True, dtype=torch.float64
    )
    layer.self_attn.load_state_dict(attention.state_dict())
    parts = {"linear1.weight": network.W1, "linear1.bias": network.b1}
    parts |= {"linear2.weight": network.W2, "linear2.bias": network.b2}
    if isinstance(inside, PostNorm):
        parts |= {"linear1.weight": network.W1 / inside.gains, "norm1.weight": inside.gains}
        parts |= {"norm2.weight": inside.last_gains, "norm2.bias": inside.last_shifts}
    layer.load_state_dict(layer.state_dict() | {name: torch.tensor(x) for name, x in parts.items()})
    layer.norm1.eps, layer.norm2.eps = eps
    layer.chosen = attention.chosen
    return layer.eval()


def gpt2_block(attention: StateDict, inside: Inside) -> dict[str, np.ndarray]:
    """Its linear maps are for tokens as rows."""
    network, d = inside.network, inside.network.dim
    named = {f"attn.{name}": x for name, x in attention.items()}
    named |= {f"ln_{i}.{part}": np.full(d, value) for i in (1, 2) for part, value in (("weight", 1.0), ("bias", 0.0))}
    named |= {"mlp.c_fc.weight": network.W1.T, "mlp.c_fc.bias": network.b1}
    return named | {"mlp.c_proj.weight": network.W2.T, "mlp.c_proj.bias": network.b2}


def llama_layer(attention: StateDict, inside: Inside, allowed: float) -> dict[str, np.ndarray]:
    network, d = inside.network, inside.network.dim
    named = {f"self_attn.{name}": x for name, x in attention.items()}
    named |= {f"{place}_layernorm.weight": np.ones(d) for place in ("input", "post_attention")}
    maps = {"gate": (network.W1, network.b1), "up": (network.gate, network.gate_bias), "down": (network.W2, network.b2)}
    named |= {f"mlp.{name}_proj.weight": W for name, (W, _) in maps.items()}
    if any(np.abs(b).max() > allowed * np.abs(W).max() for W, b in maps.values()):
        named |= {f"mlp.{name}_proj.bias": b for name, (_, b) in maps.items()}
    return named
