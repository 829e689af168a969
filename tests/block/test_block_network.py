"""The network inside a block with norms behind its heads and its network: every weight, from answers alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.block.tangents import InsideTangent, PostNormTangent, on_device
from glasshead._models import Inside, Unembedding

torch = pytest.importorskip("torch")


def encoder(dim: int, heads: int, width: int, activation: str, seed: int):
    """A torch layer with norms behind, gains and shifts and all biases at random."""
    torch.manual_seed(seed)
    layer = torch.nn.TransformerEncoderLayer(dim, heads, width, 0.0, activation, batch_first=True).double().eval()
    for norm in (layer.norm1, layer.norm2):
        torch.nn.init.normal_(norm.weight, 1, 0.2)
        torch.nn.init.normal_(norm.bias, 0, 0.2)
    for bias in (layer.self_attn.in_proj_bias, layer.self_attn.out_proj.bias):
        torch.nn.init.normal_(bias, 0, 0.2)
    return layer


def last_answers(layer):
    def ask(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return layer(torch.tensor(X))[:, -1].numpy()

    return ask


@pytest.fixture(scope="module")
def gelu():
    layer = encoder(12, 2, 16, "gelu", 0)
    oracle = gh.ValueOracle(last_answers(layer), dim=12)
    return layer, oracle, gh.recover(oracle, family="block", network=True)


def test_every_weight_between_two_norms_comes_out(gelu):
    layer, oracle, found = gelu
    assert found.queries == oracle.queries
    state = {name: x.numpy() for name, x in layer.state_dict().items()}
    inside, centre, size = found.model.behind, np.eye(12) - 1 / 12, state["norm1.weight"].mean()
    W1 = state["linear1.weight"] * state["norm1.weight"] @ centre
    order = [int(np.linalg.norm(inside.network.W1 - w, axis=1).argmin()) for w in W1]
    assert sorted(order) == list(range(16))
    for mine, true in (
        (inside.network.W1[order], W1),
        (inside.network.b1[order], state["linear1.bias"] + state["linear1.weight"] @ state["norm1.bias"]),
        (inside.network.W2[:, order], centre @ state["linear2.weight"] / size),
        (inside.network.b2, centre @ (state["linear2.bias"] + state["norm1.bias"]) / size),
        (inside.gains, state["norm1.weight"] / size),
        (inside.last_gains, state["norm2.weight"]),
        (inside.last_shifts, state["norm2.bias"]),
    ):
        assert np.abs(mine - true).max() < 1e-9
    assert inside.norm.eps == pytest.approx(1e-5, rel=1e-3)
    assert inside.last.eps == pytest.approx(1e-5 / size**2, rel=1e-3)


def test_such_a_block_asks_no_box_and_is_saved_whole(gelu, tmp_path):
    layer, oracle, found = gelu
    X, before = np.random.default_rng(0).standard_normal((4, 9, 12)), oracle.queries
    again = gh.load(gh.save(found.model, tmp_path / "block.safetensors"))
    for block in (found.model, again):
        assert np.abs(block(X) - last_answers(layer)(X)).max() < 1e-9
        assert block.asked == 0
    assert oracle.queries == before
    assert "between two LayerNorms" in found.reason
    assert "seen up to one factor" in found.reason


def test_it_is_exported_to_torch_and_to_bert(gelu):
    layer, _, found = gelu
    X = np.random.default_rng(1).standard_normal((4, 7, 12))
    want = last_answers(layer)(X)
    assert np.abs(last_answers(found.model.to_layer("torch", rtol=1e-7))(X) - want).max() < 1e-8
    modeling = pytest.importorskip("transformers.models.bert.modeling_bert")
    state = found.model.to_layer("bert", rtol=1e-7)
    config = modeling.BertConfig(
        hidden_size=12, num_attention_heads=2, intermediate_size=16, hidden_act=state.activation
    )
    config._attn_implementation = "eager"
    bert = modeling.BertLayer(config).double().eval()
    bert.load_state_dict(state)
    bert.attention.output.LayerNorm.eps, bert.output.LayerNorm.eps = state.eps
    with torch.no_grad():
        out = bert(torch.tensor(X))
    assert np.abs((out[0] if isinstance(out, tuple) else out)[:, -1].numpy() - want).max() < 1e-8
    with pytest.raises(ValueError, match="norms behind"):
        found.model.to_layer("gpt2")


def test_changes_of_weights_are_carried_by_torch_as_by_numpy(gelu):
    model, rng = gelu[2].model.behind, np.random.default_rng(0)
    here = PostNormTangent.at(model, rng.standard_normal((5, 12)))
    there, answers = on_device(here, "cpu"), rng.standard_normal((5, 12))
    back = here.backwards(answers)
    change = {name: rng.standard_normal(part.shape) for name, part in back.items()}
    tensors = {name: torch.tensor(part) for name, part in change.items()}
    assert np.abs(here.forwards(change) - there.forwards(tensors).numpy()).max() < 1e-10
    for name, part in there.backwards(torch.tensor(answers)).items():
        assert np.abs(part.numpy() - back[name]).max() < 1e-10 * max(1.0, np.abs(back[name]).max())


@pytest.mark.parametrize("kind", ["gelu", "swiglu", "parallel", "logits", "probabilities", "norms behind"])
def test_changes_of_parameters_are_those_of_answers(kind, gelu):
    rng = np.random.default_rng(1)
    x, last = rng.standard_normal((7, 12)), None
    if kind in ("logits", "probabilities"):
        last = Unembedding(
            gh.Norm("rms", 0.1, "behind"), rng.standard_normal((12, 20)), rng.standard_normal(20), kind != "logits"
        )
    gate = {"gate": rng.standard_normal((9, 12)), "gate_bias": rng.standard_normal(9)} if kind == "swiglu" else {}
    weights = (rng.standard_normal(shape) for shape in ((9, 12), 9, (12, 9), 12))
    network = gh.TwoLayer(*weights, activation="silu" if gate else "gelu", **gate)
    total, offset, front = rng.standard_normal((12, 12)), rng.standard_normal(12), gh.Norm("layer", 1e-5)
    inside = Inside(network, gh.Norm("layer", 0.1), front, total, offset, kind == "parallel", last)
    behind = replace(gelu[2].model.behind, last=gh.Norm("layer", 0.1, "behind"))
    here = PostNormTangent.at(behind, x) if kind == "norms behind" else InsideTangent.at(inside, x)
    y = rng.standard_normal(here.answers.shape)
    back = here.backwards(y)
    change = {name: rng.standard_normal(part.shape) for name, part in back.items()}
    forth = here.forwards(change)
    assert np.sum(forth * y) == pytest.approx(sum(np.sum(change[name] * back[name]) for name in back), rel=1e-10)
    step = 1e-6
    there, to = (type(here).at(here.changed({k: s * step * c for k, c in change.items()}), x).answers for s in (1, -1))
    slopes = (there - to) / (2 * step)
    assert np.abs(slopes - forth).max() < 1e-8 * np.abs(forth).max()


def test_relu_between_two_norms_comes_out():
    layer = encoder(12, 2, 12, "relu", 0)
    oracle = gh.ValueOracle(last_answers(layer), dim=12)
    found = gh.recover(oracle, family="block", network=True)
    state, network = {name: x.numpy() for name, x in layer.state_dict().items()}, found.model.network
    assert (network.activation, network.width) == ("relu", 12)
    centre, size = np.eye(12) - 1 / 12, state["norm1.weight"].mean()
    W1, W2 = state["linear1.weight"] * state["norm1.weight"] @ centre, centre @ state["linear2.weight"] / size
    rows = network.W1 / np.linalg.norm(network.W1, axis=1, keepdims=True)
    for w, v in zip(W1, W2.T, strict=True):  # a positive factor moves from a row to its column unseen
        nearest = int((rows @ w).argmax())
        mine = np.outer(network.W2[:, nearest], network.W1[nearest])
        assert np.abs(mine - np.outer(v, w)).max() < 1e-9
    X = np.random.default_rng(2).standard_normal((4, 9, 12))
    assert np.abs(found.model(X) - last_answers(layer)(X)).max() < 1e-9


MIXED = torch.randn(16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 4
gelu_of = torch.nn.functional.gelu
HIDDEN = {
    "tanh": torch.tanh,
    "leaky": lambda z: torch.nn.functional.leaky_relu(z, 0.1),
    "two layers": lambda z: gelu_of(gelu_of(z) @ MIXED),
    "two activations": lambda z: torch.cat([gelu_of(z[:, :8]), torch.nn.functional.silu(z[:, 8:])], dim=1),
}


@pytest.mark.parametrize("kind", [*HIDDEN, "another residual map", "RMSNorm", "no last norm"])
def test_neighbours_are_refused_with_their_heads(kind):
    layer = encoder(12, 2, 16, "gelu", 0)

    def ask(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            tokens = torch.tensor(X)
            u = layer.norm1((tokens + layer.self_attn(tokens, tokens, tokens, need_weights=False)[0])[:, -1])
            y = layer.linear2(HIDDEN.get(kind, gelu_of)(layer.linear1(u)))
            y = y + (u @ MIXED[:12, :12] if kind == "another residual map" else u)
            if kind == "RMSNorm":
                return (y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5) * layer.norm2.weight).numpy()
            return (y if kind == "no last norm" else layer.norm2(y)).numpy()

    with pytest.raises((gh.TargetMismatch, gh.NotConverged)) as refused:
        gh.recover(gh.ValueOracle(ask, dim=12), family="block", network=True)
    assert refused.value.best.heads == 2


def test_in_float32_the_heads_are_all_that_is_offered():
    layer = encoder(16, 2, 24, "gelu", 0).float()

    def ask(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return layer(torch.tensor(X, dtype=torch.float32))[:, -1].numpy()

    with pytest.raises(gh.AccuracyUnreachable, match="ask it in float64") as refused:
        gh.recover(gh.ValueOracle(ask, dim=16), family="block", network=True)
    assert refused.value.best.heads == 2
