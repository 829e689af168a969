"""Language models of one block, from logits: every weight of the network, the last norm and the unembedding."""

from __future__ import annotations

import numpy as np
import pytest

import glasshead as gh

from .boxes import Decoder, llama_frequencies
from .test_network import products, true_network

KINDS = {
    "GPT-2, log-probabilities": {"norm": "layer", "network": "gelu", "eps": 1e-5, "probabilities": True},
    "LLaMA, logits": {"theta": llama_frequencies(4), "biases": False},
}


class Straight(Decoder):
    """No norm in front of the unembedding."""

    def __call__(self, X):
        a = X[:, -1] + self.attended(X)
        inner = self.normed(a, 1) @ self.weights["A"] + self.weights["a"]
        return (a + gelu(inner) @ self.weights["C"]) @ self.weights["E"] + 0.3


class Tanh(Decoder):
    def __call__(self, X):
        at, a = self.weights, X[:, -1] + self.attended(X)
        return self.normed(a + np.tanh(self.normed(a, 1) @ at["A"] + at["a"]) @ at["C"], 2) @ at["E"]


def gelu(z):
    return gh.TwoLayer([[1.0]], None, [[1.0]], None, activation="gelu").act.value(z)


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_model_comes_out(kind, tmp_path):
    box = Decoder(16, 2, seed=1, final=32, **KINDS[kind])
    oracle = gh.ValueOracle(box, dim=16)
    found = gh.recover(oracle, family="block", network=True)
    assert found.queries == oracle.queries
    block, network, (W1, gate, W2) = found.model, found.model.network, true_network(box)
    assert network.width == len(W1)
    order = [int(np.linalg.norm(network.W1 - w, axis=1).argmin()) for w in W1]
    assert np.abs(network.W1[order] - W1).max() < 1e-7
    mine = products(None if network.gate is None else network.gate[order], network.W2[:, order])
    assert np.abs(mine - products(gate, box.seen() @ W2)).max() < 1e-7
    assert block.behind.norm.eps == pytest.approx(box.eps, rel=1e-3)
    assert block.behind.last.norm.eps == pytest.approx(box.eps, rel=1e-3)
    assert [norm.place for norm in block.norms] == ["before", "behind"]
    again = gh.load(gh.save(block, tmp_path / "model.safetensors"))
    X = np.random.default_rng(0).standard_normal((8, 9, 16))
    for model in (block, again):
        assert np.abs(model(X) - box(X)).max() < 1e-8 * np.abs(box(X)).max()
        assert model.asked == 0
    assert gh.distance(block, again) == 0.0
    assert "whose gains and shift are part of the unembedding to 32 lo" in found.reason


def test_without_a_last_norm():
    box = Straight(16, 2, seed=1, final=32)
    found = gh.recover(gh.ValueOracle(box, dim=16), family="block", network=True)
    X = np.random.default_rng(0).standard_normal((8, 9, 16))
    assert np.abs(found.model(X) - box(X)).max() < 1e-8 * np.abs(box(X)).max()
    assert "then an unembedding to 32 logits" in found.reason


def test_another_network_is_refused_with_its_heads():
    box = Tanh(16, 2, seed=1, final=32)
    with pytest.raises(gh.TargetMismatch, match="neurons were found, but no activation") as refused:
        gh.recover(gh.ValueOracle(box, dim=16), family="block", network=True)
    assert refused.value.best.heads == 2
