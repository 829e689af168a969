"""Models of Hugging Face, made from configurations with random weights, and their layers: asked as they answer
themselves, and what stands in front of the heads is said."""

import doctest
import logging
import sys

import numpy as np
import pytest
import torch
import transformers
from transformers.models.bert.modeling_bert import BertLayer

import glasshead as gh

from .local import in_float64, made

X = np.random.default_rng(2).standard_normal((3, 6, 16))
T = torch.tensor(X)


@pytest.fixture(autouse=True)
def quiet():
    """transformers speaks of token ids that do not fit a vocabulary of 40."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


def answers(call):
    with torch.no_grad():
        found = call()
    return (found[0] if isinstance(found, tuple) else found)[:, -1].numpy()


def test_the_example_runs():
    examples = doctest.DocTestFinder().find(gh.from_transformers, globs={"gh": gh, "transformers": transformers})
    assert doctest.DocTestRunner().run(examples[0]) == (0, 3)


WHOLE = [
    ("Bert", "Model", "hidden"),
    ("Bert", "ForMaskedLM", "logits"),
    ("GPT2", "LMHeadModel", "hidden"),
    ("GPT2", "LMHeadModel", "logits"),
    ("Llama", "ForCausalLM", "hidden"),
    ("Llama", "ForCausalLM", "logits"),
    ("Albert", "Model", "hidden"),
]


@pytest.mark.parametrize(("name", "head", "output"), WHOLE)
def test_a_whole_model_answers_as_it_does_itself(name, head, output):
    model = made(name, head, layers=1)
    oracle = gh.from_transformers(model, output=output)
    tokens = T[..., : oracle.dim]
    asked = model if output == "logits" else model.base_model
    key = "logits" if output == "logits" else "last_hidden_state"
    np.testing.assert_allclose(oracle(tokens.numpy()), answers(lambda: asked(inputs_embeds=tokens)[key]), atol=1e-13)
    assert oracle.dim == (8 if name == "Albert" else 16)


def test_the_first_layer_of_each_family_is_what_the_model_has_behind_its_front():
    """A model of one layer, and that layer alone behind the same front, by hand."""
    bert, gpt2, llama = made("Bert", layers=1), made("GPT2", layers=1), made("Llama", layers=1)
    rotary = llama.rotary_emb(T, torch.arange(6)[None])
    causal = torch.full((6, 6), -torch.inf, dtype=torch.float64).triu(1)
    by_hand = {
        bert: lambda: bert.encoder.layer[0](T),
        gpt2: lambda: gpt2.h[0](T, attention_mask=causal[None, None]),
        llama: lambda: llama.layers[0](T, attention_mask=causal[None, None], position_embeddings=rotary),
    }
    for model, call in by_hand.items():
        np.testing.assert_allclose(gh.from_transformers(model, layer=0)(X), answers(call), atol=1e-12)


@pytest.mark.parametrize("name", ["Bert", "GPT2", "Llama", "DistilBert", "GPTNeoX", "Mistral", "Bloom", "Qwen2", "OPT"])
def test_a_later_layer_is_asked_as_the_model_asks_it(name):
    model = made(name, **({"num_key_value_heads": 1} if name in ("Mistral", "Qwen2") else {}))
    seen = {}

    def see(which):
        return lambda _, args, found: seen.update({which: found[0] if isinstance(found, tuple) else found})

    layers = next(part for part in model.modules() if isinstance(part, torch.nn.ModuleList))
    hooks = [layer.register_forward_hook(see(which)) for which, layer in enumerate(layers)]
    with torch.no_grad():
        model(inputs_embeds=T)
    for hook in hooks:
        hook.remove()
    oracle = gh.from_transformers(model, layer=1)
    np.testing.assert_allclose(oracle(seen[0].numpy()), seen[1][:, -1].numpy(), atol=1e-12)
    assert not layers[1]._forward_pre_hooks


@pytest.mark.parametrize(("name", "below"), [("Bert", 1e-7), ("GPT2", 1e-7)])
def test_a_layer_is_recovered(name, below):
    model = made(name)
    found = gh.recover(gh.from_transformers(model, layer=0))
    assert (found.family, found.heads) == ("block", 2)
    if name == "Bert":
        heads = model.encoder.layer[0].attention
        weights = heads.self.query, heads.self.key, heads.self.value, heads.output.dense
        Q, K, V, O = (part.weight.detach().numpy() for part in weights)  # noqa: E741
    else:
        heads = model.h[0].attn
        gain = model.h[0].ln_1.weight.detach().numpy()
        Q, K, V = np.split(heads.c_attn.weight.detach().numpy().T * gain, 3)
        O = heads.c_proj.weight.detach().numpy().T  # noqa: E741
    truth = gh.MultiHead.from_projections(Q, K, V, O, 2)
    seen = np.eye(16) - (1 / 16 if name == "GPT2" else 0.0)  # of tokens behind a LayerNorm

    def off(one, other):
        other = seen @ other.W @ seen
        return np.linalg.norm(seen @ one.W @ seen - other) / np.linalg.norm(other)

    assert max(min(off(one, other) for other in truth.heads) for one in found.model.heads) < below


def test_position_vectors_in_front_are_found_as_the_note_says():
    model = made("GPT2", "LMHeadModel", layers=1)
    oracle = gh.from_transformers(model, output="logits")
    assert "stand wpe, which change tokens by their place: gh.recover finds vectors that are added" in oracle.notes[0]
    found = gh.recover(oracle)
    assert isinstance(found.model, gh.Placed)
    vectors = model.transformer.wpe.weight.detach().numpy()[: len(found.model.positions)]
    apart = (found.model.positions - vectors) - (found.model.positions - vectors).mean(axis=1, keepdims=True)
    assert np.abs(apart).max() < 1e-6 * np.abs(vectors).max()


def test_a_llama_in_float64_is_said_to_compute_in_float32_and_is_not_recovered():
    oracle = gh.from_transformers(made("Llama", "ForCausalLM", layers=1), output="logits")
    assert oracle.notes[:4] == (
        "tokens reach its first layer as they are",
        "it turns keys and queries by their places, for which a gh.Block has `rotary`",
        "its cosines and sines are those of float32: rotary to seven digits only",
        "LlamaRMSNorm may compute in float32 inside: answers in float64 have about seven digits that are right",
    )
    assert oracle.roundoff == 2.0**-24
    with pytest.raises(gh.AccuracyUnreachable):
        gh.recover(oracle)


@pytest.mark.parametrize("kw", [{"layer": 0}, {"output": "logits"}])
def test_a_llama_that_computes_in_float64_is_recovered(kw):
    model = in_float64(made("Llama", "ForCausalLM", layers=1))
    oracle = gh.from_transformers(model, **kw)
    assert not any("float32" in note for note in oracle.notes)
    found = gh.recover(oracle)
    assert (found.family, found.heads) == ("block", 2)
    heads = model.model.layers[0].self_attn
    Q, K, V, O = (  # noqa: E741
        part.weight.detach().numpy() for part in (heads.q_proj, heads.k_proj, heads.v_proj, heads.o_proj)
    )
    truth = gh.MultiHead.from_projections(Q, K, V, O, 2).heads
    for one in found.model.heads:
        assert min(np.linalg.norm(one.W - other.W) / np.linalg.norm(other.W) for other in truth) < 1e-6


@pytest.mark.parametrize(
    ("name", "kw", "note"),
    [
        (
            "Bert",
            {},
            "stand embeddings.token_type_embeddings, embeddings.position_embeddings, embeddings.LayerNorm, which",
        ),
        ("Bert", {}, "it has 2 layers, and gh.recover sees through one"),
        ("Bert", {"layer": 1}, "layer 1 of 2, a BertLayer, is asked alone"),
        ("Llama", {"layer": 1}, "it turns keys and queries by their places"),
        ("Bloom", {"layer": 1}, "its scores fall with the distance of tokens"),
        ("Bloom", {}, "stand word_embeddings_layernorm, which change all tokens alike"),
    ],
)
def test_what_stands_around_the_heads_is_said(name, kw, note):
    assert any(note in said for said in gh.from_transformers(made(name), **kw).notes)


def test_which_paths_are_exact_in_float64():
    """LayerNorms are; RMSNorms of LLaMA are not, nor is its softmax with eager attention."""
    for name in ("Bert", "GPT2", "GPTNeoX"):
        for way in ("sdpa", "eager"):
            oracle = gh.from_transformers(made(name, attn_implementation=way), layer=0)
            rounded = way == "eager" and name == "GPTNeoX"
            assert any("float32 inside" in note for note in oracle.notes) is rounded, (name, way)
    llama = in_float64(made("Llama", attn_implementation="eager"))
    assert any("attn_implementation='eager'" in note for note in gh.from_transformers(llama, layer=0).notes)
    bloom = gh.from_transformers(made("Bloom"), layer=0).notes
    assert any(note.startswith("attention with attn_implementation='eager' may compute in float32") for note in bloom)
    llama.set_attn_implementation("sdpa")
    assert not any("float32" in note for note in gh.from_transformers(llama, layer=0).notes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_narrow_model_is_named(dtype):
    model = made("GPT2", "LMHeadModel", layers=1, dtype=getattr(torch, dtype))
    oracle = gh.from_transformers(model, layer=0)
    assert f"it is asked in {dtype}" in oracle.notes
    assert oracle.roundoff == gh._oracles.ROUNDOFF[dtype]
    tokens = T.to(getattr(torch, dtype))
    alone = answers(lambda: model.transformer.h[0](tokens, None, None, None).double())
    np.testing.assert_allclose(oracle(X), alone, atol=0.1 if dtype == "bfloat16" else 1e-5)


def test_some_logits_are_chosen():
    model = made("GPT2", "LMHeadModel", layers=1)
    every = gh.from_transformers(model, output="logits")
    some = gh.from_transformers(model, output="logits", token_ids=[3, 1])
    assert np.array_equal(some(X), every(X)[:, [3, 1]])


def test_the_rest_is_passed_on():
    oracle = gh.from_transformers(made("Bert"), layer=0, tolerance=1e-3, max_norm=5.0)
    assert (oracle.tolerance, oracle.max_norm) == (1e-3, 5.0)
    signs = gh.from_transformers(
        made("Bert", "ForSequenceClassification", num_labels=1), output="logits", answers="sign"
    )
    assert signs(X).dtype == bool


class Handed(transformers.PreTrainedModel):
    """A model that hands the tokens it began with to every layer."""

    config_class = transformers.BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = torch.nn.ModuleList(Handing(config.hidden_size) for _ in range(config.num_hidden_layers))
        self.post_init()

    def get_input_embeddings(self):
        return self.words

    def forward(self, input_ids=None, inputs_embeds=None):
        hidden = inputs_embeds
        for layer in self.layers:
            hidden = layer(hidden_states=hidden, first=(inputs_embeds,))
        return {"last_hidden_state": hidden}


class Handing(torch.nn.Linear):
    def __init__(self, dim):
        super().__init__(dim, dim)

    def forward(self, hidden_states, first):
        return super().forward(hidden_states) + first[0]


def handed():
    return Handed(transformers.BertConfig(hidden_size=16, num_hidden_layers=2, vocab_size=40)).double().eval()


def test_a_model_of_ones_own():
    model = handed()
    with torch.no_grad():
        wanted = model(inputs_embeds=T)["last_hidden_state"][:, -1].numpy()
    np.testing.assert_allclose(gh.from_transformers(model)(X), wanted, atol=1e-13)


WRONG = {
    "another module": (lambda: gh.from_transformers(torch.nn.Linear(4, 4)), TypeError, r"call gh.from_torch\(module"),
    "a layer": (lambda: gh.from_transformers(made("Bert").encoder.layer[0]), TypeError, "got BertLayer"),
    "output": (
        lambda: gh.from_transformers(made("Bert"), output="x"),
        ValueError,
        "one of .*'hidden', 'logits'.*got 'x'",
    ),
    "no head": (
        lambda: gh.from_transformers(made("Bert"), output="logits"),
        ValueError,
        "a model with logits, got Bert",
    ),
    "another head": (
        lambda: gh.from_transformers(made("Bert", "ForQuestionAnswering"), output="logits"),
        gh.OracleError,
        r"to answer logits, got \['start_logits', 'end_logits'\]",
    ),
    "logits of a layer": (
        lambda: gh.from_transformers(made("GPT2", "LMHeadModel"), 0, "logits"),
        ValueError,
        "expected output='hidden' with layer=",
    ),
    "no such layer": (lambda: gh.from_transformers(made("Bert"), 2), ValueError, "one of 0 to 1, got 2"),
    "no number": (lambda: gh.from_transformers(made("Bert"), "0"), ValueError, "expected layer to be an integer"),
    "no list of layers": (lambda: gh.from_transformers(made("Albert"), 0), ValueError, "no list of layers was found"),
    "ids of a hidden state": (
        lambda: gh.from_transformers(made("Bert"), token_ids=[1]),
        ValueError,
        "expected output='logits' with token_ids=",
    ),
    "no such id": (
        lambda: gh.from_transformers(made("GPT2", "LMHeadModel"), output="logits", token_ids=[40]),
        ValueError,
        "below 40, the size of the vocabulary",
    ),
    "two stacks": (
        lambda: gh.from_transformers(made("T5", d_model=16, d_kv=8, num_heads=2, d_ff=32, num_layers=1)),
        ValueError,
        r"one stack of layers, got T5Model.*pass model.get_encoder\(\)",
    ),
    "tokens handed on": (
        lambda: gh.from_transformers(handed(), 1),
        ValueError,
        "a layer that can be cut out; this Handing is handed something else that depends on",
    ),
    "a model that fails": (
        lambda: gh.from_transformers(made("Mistral", num_key_value_heads=8), 1),
        gh.OracleError,
        r"the model raised RuntimeError: .*\(asked: \(1, 3, 16\), up to its MistralDecoderLayer",
    ),
    "pixels": (
        lambda: gh.from_transformers(transformers.ViTModel(transformers.ViTConfig(hidden_size=12)).eval()),
        ValueError,
        "expected a model that takes inputs_embeds, got ViTModel",
    ),
    "training": (
        lambda: gh.from_transformers(made("Bert").train()),
        ValueError,
        r"training mode.*call module.eval\(\)",
    ),
    "keyword": (lambda: gh.from_transformers(made("Bert"), colour=1), TypeError, "colour"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_asked_is_refused_with_a_sentence(case):
    ask, error, words = WRONG[case]
    with pytest.raises(error, match=words):
        ask()


def test_a_model_that_is_too_short_says_so():
    oracle = gh.from_transformers(made("GPT2", n_positions=4), layer=0)
    with pytest.raises(gh.OracleError, match="the model raised IndexError"):
        oracle(X)


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"needs transformers, .*pip install 'glasshead\[transformers\]'"):
        gh.from_transformers(BertLayer)
