"""Heads back in the user's world: as fused projections, as a torch layer, under the names of other libraries.

`fused` makes the projections, `half_split` those of rotary positions, and `sharing` finds heads that can stand on the
same keys and values. A model which is a list of heads inherits `Exported` and names them. With a norm before the heads
what is exported reads tokens behind that norm, which then has gains of 1 and shifts of 0: its own are folded in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .fused import Layer, Projections, projections
from .sharing import grouped


class StateDict(dict[str, Any]):
    """Parameters by name, with `chosen`, a sentence on what answers do not show.

    `frequencies` are those of rotary positions, in radians per place, or None: what a rotary embedding elsewhere has as
    `inv_freq`, coordinate j turning with coordinate `width / 2 + j`. `key_value_heads` counts heads of keys and values.
    """

    def __init__(
        self,
        named: Mapping[str, Any],
        chosen: str,
        frequencies: np.ndarray | None = None,
        key_value_heads: int | None = None,
    ) -> None:
        super().__init__(named)
        self.chosen: str = chosen
        self.frequencies: np.ndarray | None = frequencies
        self.key_value_heads: int | None = key_value_heads
        self.activation: str = ""  # and eps of both norms, of a whole layer: what its config must have
        self.eps: tuple[float, ...] = ()


class Exported(ABC):
    """A model made of heads that can be handed to other libraries."""

    @abstractmethod
    def _layer(self) -> Layer:
        """Its heads, and what is known of biases and positions."""

    def to_projections(self, width: int | None = None, *, rtol: float | None = None) -> Projections:
        """Q, K, V, O and their biases in the layout of `nn.MultiheadAttention`, with one choice of basis per head.

        >>> gh.MultiHead.random(8, heads=2, rank=4).to_projections().Q.shape
        (8, 8)

        `width` is the number of rows per head, d / H unless told. ValueError where a head does not fit: W or v of a
        higher rank, or a key bias outside of the column space of K. To leave out up to a share `rtol` of a matrix is
        allowed, 1e-10 or the rounding of a product in the model's format; `.lost` has what it was. Recovered from few
        digits, a key bias is off by more than that: pass the error of the recovery. One number per answer is one row
        of O. Rotary positions have `.frequencies`, which are the same for all heads: those found for different heads
        may be apart by `rtol` radians per place. Slopes of scores have no place here.
        """
        return projections(self._layer(), width, rtol)

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
        its LayerNorm; `"gpt2"`: those of `GPT2Attention`. `prefix` goes before every name,
        `"encoder.layer.0.attention."` for the whole model.

        `"llama"`: those of `LlamaAttention`, whose `num_key_value_heads` must be `.key_value_heads`, and whose rotary
        embedding must have `.frequencies` as its `inv_freq` (0 where positions do not turn anything). Heads that read
        the same keys and values share them, and are put in a row; `attention_bias` is wanted where the state dict has
        biases. `.chosen` says what answers do not show. `rtol` and errors are those of `to_projections`.
        """
        if kind not in LAYOUTS:
            raise ValueError(f"expected one of {', '.join(map(repr, LAYOUTS))}, got {kind!r}")
        layer = self._layer()
        found = square(layer, rtol, "this kind of layer", turning=kind == "llama")
        state = LAYOUTS[kind](found, layer.allowed(rtol))
        return with_tensors(state, prefix)

    def to_transformer_lens(self, width: int | None = None, *, rtol: float | None = None) -> StateDict:
        """The parameters under the names and in the shapes of TransformerLens, as numpy arrays.

        `W_Q, W_K, W_V [head, d_model, d_head]`, `W_O [head, d_head, d_model]`, `b_Q, b_K, b_V [head, d_head]`,
        `b_O [d_model]`: tokens are rows there, `x @ W_Q[h] + b_Q[h]`, and scores are divided by `sqrt(d_head)`.
        Rotary positions have `.frequencies`, and coordinates are paired as with `rotary_adjacent_pairs=False`.
        `.chosen` says what answers do not show. `width`, `rtol` and errors are those of `to_projections`.
        """
        return transformer_lens(projections(self._layer(), width, rtol))


def square(layer: Layer, rtol: float | None, what: str, turning: bool = False) -> Projections:
    """Projections for a layer whose answers are as long as its tokens, and which has rotary positions or has not."""
    dim, outputs = layer.heads[0].dim, layer.heads[0].v.shape[1:]
    if outputs != (dim,):
        raise ValueError(
            f"{what} answers d = {dim} numbers, this model {outputs[0] if outputs else 'one'}; to_projections and "
            "to_transformer_lens have its matrices"
        )
    if layer.rotary is not None and not turning:
        raise ValueError(
            f"{what} has no place for rotary positions, which this model has; to_transformers('llama') and "
            "to_transformer_lens have them"
        )
    return projections(layer, None, rtol)


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


def with_tensors(state: StateDict, prefix: str) -> StateDict:
    """Arrays as torch tensors, under names that begin with the prefix."""
    import torch

    tensors = {prefix + name: torch.tensor(array) for name, array in state.items()}
    return StateDict(tensors, state.chosen, state.frequencies, state.key_value_heads)


def bert_state(found: Projections, allowed: float) -> StateDict:
    names = {"Q": "self.query", "K": "self.key", "V": "self.value", "O": "output.dense"}
    weights = {f"{name}.weight": getattr(found, part) for part, name in names.items()}
    biases = {f"{name}.bias": getattr(found, f"{part.lower()}_bias") for part, name in names.items()}
    return StateDict(weights | biases, found.chosen)


def gpt2_state(found: Projections, allowed: float) -> StateDict:
    """Its linear maps are for tokens as rows, those of queries, keys and values side by side."""
    named = {
        "c_attn.weight": np.concatenate([found.Q, found.K, found.V]).T,
        "c_attn.bias": np.concatenate([found.q_bias, found.k_bias, found.v_bias]),
        "c_proj.weight": found.O.T,
        "c_proj.bias": found.o_bias,
    }
    return StateDict(named, found.chosen)


def llama_state(found: Projections, allowed: float) -> StateDict:
    if found.width % 2:
        raise ValueError(f"a LLaMA turns pairs of coordinates, and {found.width} rows per head are an odd number")
    own = grouped(found, allowed)
    named = {f"{part.lower()}_proj.weight": getattr(own, part) for part in "QKVO"}
    biases = {"q": own.q_bias, "k": own.k_bias, "v": np.zeros_like(own.k_bias), "o": found.o_bias}
    if any(np.any(bias) for bias in biases.values()):
        named |= {f"{part}_proj.bias": bias for part, bias in biases.items()}
    frequencies = np.zeros(found.width // 2) if found.frequencies is None else found.frequencies
    return StateDict(named, found.chosen, frequencies, own.key_value_heads)


LAYOUTS: dict[str, Callable[[Projections, float], StateDict]] = {
    "bert": bert_state,
    "gpt2": gpt2_state,
    "llama": llama_state,
}


def transformer_lens(found: Projections) -> StateDict:
    inward = {f"W_{part}": found.by_head(getattr(found, part)).swapaxes(1, 2) for part in "QKV"}
    biases = {f"b_{part}": found.by_head(getattr(found, f"{part.lower()}_bias")) for part in "QKV"}
    named = inward | {"W_O": found.by_head(found.O.T)} | biases | {"b_O": found.o_bias}
    return StateDict(named, found.chosen, found.frequencies)
