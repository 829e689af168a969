"""The network inside a block with norms in front: every weight, and a block that needs no box."""

from __future__ import annotations

import numpy as np
import pytest

import glasshead as gh

from .boxes import Decoder, TorchBlock, llama_frequencies

KINDS = {
    "GPT-2": {"norm": "layer", "network": "gelu", "eps": 1e-5},
    "LLaMA": {"theta": llama_frequencies(4), "biases": False},
    "parallel": {"parallel": True},
}


def true_network(box: Decoder) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Of the box: weights in front of the activation and of the gate, for normalised tokens, and output weights."""
    at, gain = box.weights, box.weights["gain"][1][:, None]
    gate = (box.seen() @ (gain * at["B"])).T if box.network == "swiglu" else None
    return (box.seen() @ (gain * at["A"])).T, gate, at["C"].T


def products(gate: np.ndarray | None, W2: np.ndarray) -> np.ndarray:
    """What can be seen behind each activation."""
    return W2.T if gate is None else np.einsum("km,md->mkd", W2, gate).reshape(len(gate), -1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_of_the_network_comes_out(kind, tmp_path):
    box = Decoder(16, 2, seed=5, **KINDS[kind])
    oracle = gh.ValueOracle(box, dim=16)
    found = gh.recover(oracle, family="block", network=True)
    assert found.queries == oracle.queries
    W1, gate, W2 = true_network(box)
    network = found.model.network
    assert network.width == len(W1)
    order = [int(np.linalg.norm(network.W1 - w, axis=1).argmin()) for w in W1]
    assert np.abs(network.W1[order] - W1).max() < 1e-8
    mine = products(None if network.gate is None else network.gate[order], network.W2[:, order])
    assert np.abs(mine - products(gate, W2)).max() < 1e-8
    assert found.model.behind.norm.eps == pytest.approx(box.eps, rel=1e-4)
    again = gh.load(gh.save(found.model, tmp_path / "block.safetensors"))
    X = np.random.default_rng(0).standard_normal((4, 9, 16))
    for block in (found.model, again):
        assert np.abs(block(X) - box(X)).max() < 1e-8 * np.abs(box(X)).max()
        assert block.asked == 0
    assert "TwoLayer(16 ->" in found.reason
    assert "stays a box" not in found.reason


def test_a_torch_layer_with_relu_comes_out_whole():
    torch = pytest.importorskip("torch")
    box = TorchBlock(16, 2, 32, seed=1, activation="relu")
    found = gh.recover(gh.ValueOracle(box, 16), family="block", network=True)
    network, layer = found.model.network, box.layer
    W1, b1, W2 = (x.detach().numpy() for x in (layer.linear1.weight, layer.linear1.bias, layer.linear2.weight))
    true, mine = np.c_[W1 @ (np.eye(16) - 1 / 16), b1], np.c_[network.W1, network.b1]
    order = [int((mine @ row / np.linalg.norm(mine, axis=1)).argmax()) for row in true]
    factors = np.linalg.norm(mine[order], axis=1) / np.linalg.norm(true, axis=1)  # which no query can see
    assert network.width == 32
    assert np.abs(mine[order] / factors[:, None] - true).max() < 1e-8
    assert np.abs(network.W2[:, order] * factors - W2).max() < 1e-8
    X = np.random.default_rng(0).standard_normal((8, 9, 16))
    assert np.abs(found.model(X) - box(X)).max() < 1e-8
    with torch.no_grad():
        assert np.abs(found.model.to_layer("torch")(torch.tensor(X))[:, -1].numpy() - box(X)).max() < 1e-8


def test_another_network_leaves_the_heads_as_the_best():
    class Tanh(Decoder):
        def __call__(self, X):
            at, a = self.weights, X[:, -1] + self.attended(X)
            return a + np.tanh(self.normed(a, 1) @ at["A"] + at["a"]) @ at["C"]

    with pytest.raises(gh.TargetMismatch, match="no activation explains the answers") as refused:
        gh.recover(gh.ValueOracle(Tanh(16, 2, seed=1), dim=16), family="block", network=True)
    assert refused.value.best.heads == 2


def test_a_network_too_wide_behind_norms_is_refused_with_its_heads():
    with pytest.raises(gh.NotConverged, match="no two-layer network of fewer than") as refused:
        gh.recover(gh.ValueOracle(gh.Block.random(12, heads=2, rank=6), dim=12), family="block", network=True)
    assert refused.value.best.family == "block"


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"network": 1}, TypeError, "expected network to be True or False"),
        ({"network": True, "family": "attention"}, ValueError, "expected network=True only with family"),
    ],
)
def test_wrong_arguments(settings, error, words):
    with pytest.raises(error, match=words):
        gh.recover(gh.Attention.random(4), **settings)
