"""Models handed to Hugging Face answer there as they do here: in its own layers, in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, GPT2Config, LlamaConfig
from transformers.models.bert.modeling_bert import BertAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRMSNorm

import glasshead as gh

from .decoder.boxes import Decoder, llama_frequencies
from .test_export import LAYERS, layer, tokens

NAMES = [name for name in LAYERS if name != "one gh.Attention"]  # of odd dimension


def rotary_block(dim, heads, *, planes=None, still=0, biases=True, shared=1, seed=0, order=None):
    """Heads that turn, `shared` of them on the same keys and values, each in a basis of its own."""
    rng = np.random.default_rng(seed)
    planes = dim // heads // 2 if planes is None else planes
    r, frequencies = 2 * planes + still, 100.0 ** -(np.arange(planes) / planes)
    turnings, made = [], []
    for h in range(heads):
        if h % shared == 0:
            K, V = rng.standard_normal((2, r, dim)) / np.sqrt(dim)
            k_bias = biases * rng.standard_normal(r)
        z = np.exp(rng.standard_normal(planes) + 6j * rng.random(planes))
        turn = np.block([[np.diag(z.real), -np.diag(z.imag)], [np.diag(z.imag), np.diag(z.real)]])
        M = np.zeros((r, r))
        M[: 2 * planes, : 2 * planes], M[2 * planes :, 2 * planes :] = turn, rng.standard_normal((still, still))
        own = rng.permutation(planes)
        rows = np.r_[own, planes + own, 2 * planes : r]
        Q, q_bias = rng.standard_normal((r, dim)) / np.sqrt(dim), biases * rng.standard_normal(r)
        turnings.append(gh._models.Turning((M @ K)[rows], Q, (M @ k_bias)[rows], q_bias, frequencies[own]))
        O = rng.standard_normal((r, dim)) / np.sqrt(dim)  # noqa: E741
        made.append((turnings[-1].W(0), V.T @ O, turnings[-1].key_bias(0)))
    order = range(heads) if order is None else order
    heads = [gh.Attention(made[h][0], made[h][1], key_bias=made[h][2]) for h in order]
    return gh.Block(heads, norms=[gh.Norm("rms", 1e-6)], rotary=gh.Rotary([turnings[h] for h in order]))


def in_gpt2(model, X):
    heads = len(model.heads)
    config = GPT2Config(n_embd=model.dim, n_head=heads, attn_implementation="eager")
    there = GPT2Attention(config, layer_idx=0).double().eval()
    there.load_state_dict(model.to_transformers("gpt2"))
    with torch.no_grad():
        return there(torch.tensor(X))[0][:, -1].numpy()


def in_llama(model, X, rtol=None):
    """The real layer; its own attention in float32 is left out, and so are its frequencies, which are float32."""
    state = model.to_transformers("llama", rtol=rtol)
    config = LlamaConfig(
        hidden_size=model.dim,
        num_attention_heads=len(model.heads),
        num_key_value_heads=state.key_value_heads,
        attention_bias="q_proj.bias" in state,
        attn_implementation="sdpa",
    )
    there = LlamaAttention(config, 0).double().eval()
    there.load_state_dict(state)
    angles = torch.arange(100, 100 + X.shape[1])[None, :, None] * torch.tensor(state.frequencies).repeat(2)
    with torch.no_grad():
        return there(torch.tensor(X), (angles.cos(), angles.sin()))[0][:, -1].numpy()


@pytest.mark.parametrize("name", NAMES)
def test_a_gpt2_answers_like_the_model(name):
    model = LAYERS[name]
    np.testing.assert_allclose(in_gpt2(model, tokens(model)), model(tokens(model)), atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_a_llama_that_does_not_turn_answers_like_the_model(name):
    model = LAYERS[name]
    np.testing.assert_allclose(in_llama(model, tokens(model)), model(tokens(model)), atol=1e-10)
    assert not model.to_transformers("llama").frequencies.any()


@pytest.mark.parametrize("name", NAMES)
def test_a_bert_answers_like_the_model(name):
    model = LAYERS[name]
    config = BertConfig(hidden_size=model.dim, num_attention_heads=len(model.heads), attn_implementation="eager")
    there = BertAttention(config).double().eval()
    missing = there.load_state_dict(model.to_transformers("bert"), strict=False)
    assert missing.missing_keys == ["output.LayerNorm.weight", "output.LayerNorm.bias"]
    there.output.LayerNorm = torch.nn.Identity()
    X = tokens(model)
    with torch.no_grad():
        answers = there(torch.tensor(X))[0][:, -1].numpy() - X[:, -1]
    np.testing.assert_allclose(answers, model(X), atol=1e-10)


TURNING = {
    "all of it": ({}, 4),
    "without biases": ({"biases": False}, 4),
    "fewer planes, and a rest that stands still": ({"planes": 2, "still": 3}, 4),
    "keys and values shared by two": ({"shared": 2}, 2),
    "by all, with a rest": ({"shared": 4, "planes": 2, "still": 4}, 1),
    "shared, in another order": ({"shared": 2, "order": [2, 0, 3, 1]}, 2),
    "by three and one alone": ({"shared": 3}, 4),
}


@pytest.mark.parametrize("kind", TURNING)
def test_a_llama_answers_like_the_block(kind):
    arguments, key_value_heads = TURNING[kind]
    model = rotary_block(32, 4, **arguments)
    X = model.front(tokens(model))
    np.testing.assert_allclose(in_llama(model, X), model.attended(X), atol=1e-10)
    state = model.to_transformers("llama")
    assert state.key_value_heads == key_value_heads
    assert state["k_proj.weight"].shape == (8 * key_value_heads, 32)
    assert ("k_proj.bias" in state) == arguments.get("biases", True)
    assert "its own are folded in" in state.chosen


def test_the_norm_before_is_theirs_with_gains_of_one():
    model = rotary_block(32, 4)
    X = torch.tensor(tokens(model))
    np.testing.assert_allclose(LlamaRMSNorm(32, 1e-6).double()(X).detach(), model.front(tokens(model)), atol=1e-6)


def test_a_recovered_llama_is_put_back():
    box = Decoder(32, heads=4, seed=3, sharing=2, theta=llama_frequencies(4), biases=False)
    model = gh.recover(gh.ValueOracle(box, dim=32), family="block").model
    X = tokens(model)
    with pytest.raises(ValueError, match="rtol"):
        model.to_transformers("llama")
    assert model.to_transformers("llama", rtol=1e-5).key_value_heads == 2
    answers = in_llama(model, model.front(X), rtol=1e-5)
    np.testing.assert_allclose(answers, model.attended(model.front(X)), atol=1e-6)
    np.testing.assert_allclose(answers, box.attended(X), atol=1e-6)


def test_a_recovered_gpt2_is_put_back():
    box = Decoder(32, heads=4, seed=3, norm="layer", network="gelu", eps=1e-5)
    model = gh.recover(gh.ValueOracle(box, dim=32), family="block").model
    X = tokens(model)
    exported = gh.MultiHead(model.heads)
    state = model.to_transformers("gpt2", rtol=1e-7)
    assert state["c_attn.weight"].shape == (32, 96)
    there = GPT2Attention(GPT2Config(n_embd=32, n_head=4, attn_implementation="eager"), layer_idx=0).double().eval()
    there.load_state_dict(state)
    with torch.no_grad():
        answers = there(torch.tensor(model.front(X)))[0][:, -1].numpy()
    np.testing.assert_allclose(answers, exported(model.front(X)), atol=1e-7)
    moved = box.attended(X) - box.attended(X[:, -1:])
    alone = model.attended(model.front(X[:, -1:]))
    np.testing.assert_allclose(answers - alone, moved, atol=1e-6)


def test_what_has_no_place_is_refused():
    model = rotary_block(32, 4)
    for export in (model.to_torch, lambda: model.to_transformers("gpt2"), lambda: model.to_transformers("bert")):
        with pytest.raises(ValueError, match=r"no place for rotary positions.*to_transformers.'llama'"):
            export()
    heads = model.rotary.heads
    other = [replace(head, frequencies=head.frequencies * (1 + 1e-3 * h)) for h, head in enumerate(heads)]
    with pytest.raises(ValueError, match="frequencies differ between heads"):
        gh.Block(model.heads, rotary=gh.Rotary(other)).to_transformers("llama")
    with pytest.raises(ValueError, match=r"8 rows per head have room for 4 frequencies.*more planes than that"):
        rotary_block(32, 4, planes=6).to_transformers("llama")
    with pytest.raises(ValueError, match="do not turn of head 0 does not fit beside 3 frequencies into 8 rows"):
        rotary_block(32, 4, planes=3, still=4).to_transformers("llama")
    sloping = gh.Block(LAYERS["without key biases"].heads, slopes=[0.1, 0.2, 0.3])
    for kind in ("gpt2", "llama", "bert"):
        with pytest.raises(ValueError, match="no place for slopes of scores"):
            sloping.to_transformers(kind)
    with pytest.raises(ValueError, match="3 rows per head are an odd number"):
        layer(12, 4).to_transformers("llama")
