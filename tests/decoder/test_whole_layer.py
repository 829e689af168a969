"""A block whose network is known, in layers of torch and of Hugging Face, answers there as it does here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

import glasshead as gh
from glasshead._models import Inside

DIM, HEADS = 12, 3


def whole_block(norm: str, *, biases: float = 0.3, parallel: bool = False, **network) -> gh.Block:
    """Random heads that fit into d / H rows, with a network behind them."""
    rng = np.random.default_rng(1)
    made = []
    for _ in range(HEADS):
        Q, K, V, O = rng.standard_normal((4, DIM // HEADS, DIM)) / np.sqrt(DIM)  # noqa: E741
        key_bias = biases * K.T @ rng.standard_normal(DIM // HEADS)
        made.append(gh.Attention(K.T @ Q, V.T @ O, key_bias=key_bias if biases else None))
    total = np.sum([head.v for head in made], axis=0)
    model = gh.TwoLayer.random(DIM, 20, biases=biases, seed=2, **network)
    front, second = gh.Norm(norm, 1e-5), gh.Norm(norm, 1e-3)
    inside = Inside(model, second, front, total, biases * rng.standard_normal(DIM), parallel)
    return gh.Block(made, norms=[front], parallel=parallel, behind=inside)


def tokens(n: int = 7) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((4, n, DIM))


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_torch_encoder_layer(activation):
    block, X = whole_block("layer", activation=activation), tokens()
    layer = block.to_layer("torch")
    with torch.no_grad():
        there = layer(torch.tensor(X))[:, -1].numpy()
    np.testing.assert_allclose(there, block(X), atol=1e-10)


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh"])
def test_gpt2_block(activation):
    block, X = whole_block("layer", activation=activation), tokens()
    state = block.to_layer("gpt2")
    config = GPT2Config(
        n_embd=DIM, n_head=HEADS, n_inner=20, activation_function=state.activation, attn_implementation="eager"
    )
    layer = GPT2Block(config, layer_idx=0).double().eval()
    layer.load_state_dict(state)
    layer.ln_1.eps, layer.ln_2.eps = state.eps
    with torch.no_grad():
        there = layer(torch.tensor(X))
    there = there[0] if isinstance(there, tuple) else there
    np.testing.assert_allclose(there[:, -1].numpy(), block(X), atol=1e-10)


@pytest.mark.parametrize("biases", [0.0, 0.3])
def test_llama_layer(biases):
    block, X = whole_block("rms", activation="silu", gated=True, biases=biases), tokens()
    state = block.to_layer("llama")
    assert ("mlp.up_proj.bias" in state) == (biases > 0)
    config = LlamaConfig(
        hidden_size=DIM,
        intermediate_size=20,
        num_attention_heads=HEADS,
        num_key_value_heads=state.key_value_heads,
        hidden_act=state.activation,
        attention_bias="self_attn.q_proj.bias" in state,
        mlp_bias="mlp.up_proj.bias" in state,
        attn_implementation="sdpa",
    )
    layer = LlamaDecoderLayer(config, 0).double().eval()
    layer.load_state_dict(state)
    layer.input_layernorm.variance_epsilon, layer.post_attention_layernorm.variance_epsilon = state.eps
    turned = torch.zeros(1, X.shape[1], DIM // HEADS, dtype=torch.float64)  # positions turn nothing here
    with torch.no_grad():
        there = layer(torch.tensor(X), position_embeddings=(turned.cos(), turned.sin()))
    there = there[0] if isinstance(there, tuple) else there
    # its RMSNorm computes in float32
    np.testing.assert_allclose(there[:, -1].numpy(), block(X), atol=1e-5)


@pytest.mark.parametrize(
    ("block", "kind", "words"),
    [
        (gh.Block.random(12, heads=3), "torch", "expected a block whose network is known"),
        (whole_block("layer"), "t5", "expected one of 'torch', 'bert', 'gpt2', 'llama'"),
        (whole_block("layer"), "bert", "norms in front"),
        (whole_block("layer"), "llama", "norms of kind 'layer'"),
        (whole_block("rms"), "gpt2", "norms of kind 'rms'"),
        (whole_block("rms"), "llama", "no gate"),
        (whole_block("layer", gated=True), "torch", "a gate"),
        (whole_block("layer", activation="silu"), "torch", "the activation 'silu'"),
        (whole_block("layer", parallel=True), "torch", "beside the heads"),
    ],
)
def test_what_does_not_fit_is_refused(block, kind, words):
    with pytest.raises(ValueError, match=words):
        block.to_layer(kind)
