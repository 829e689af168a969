"""What `family="auto"` costs: next to nothing for boxes of some family, a bounded number of queries for all others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshead as gh
from tests.any_network.blocks import Block
from tests.helpers import Impostors, head, low_rank
from tests.joint.layers import hidden
from tests.multi.layers import layer
from tests.vector import boxes as vector


class Odd:
    """One head with an odd network behind it: tanh, and no biases."""

    def __init__(self, dim: int, seed: int):
        rng = np.random.default_rng(seed)
        self.dim, self.A = dim, rng.standard_normal((dim, 8)) / np.sqrt(dim)
        self.head = gh.Attention(rng.standard_normal((dim, dim)), rng.standard_normal((dim, dim)))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.tanh(self.head(X) @ self.A).sum(axis=1)


KNOWN = {
    "a head": (head(8), "attention"),
    "a head with biases": (head(16, key_bias=1.0, bias=1.0), "attention"),
    "a head of low rank": (low_rank(32, 2), "attention"),
    "a head with 8 outputs": (vector.head(8, 8, key_bias=0.5, bias=0.5), "attention"),
    "a head with 2 outputs": (vector.head(6, 2), "attention"),
    "two heads in two dimensions": (gh.MultiHead.random(2, 2, seed=0), "multi-head"),
    "three heads in two dimensions": (gh.MultiHead.random(2, 3, seed=1), "multi-head"),
    "two heads": (layer(4, 2, 4), "multi-head"),
    "two heads of rank 3": (layer(6, 2, 3), "multi-head"),
    "three heads": (layer(8, 3, 2), "multi-head"),
    "four heads": (layer(16, 4, 4), "multi-head"),
    "heads with equal values": (hidden("equal values", (8, 3, 2)), "multi-head"),
    "heads beside a mean": (hidden("the mean beside parallel values", (8, 3, 2)), "multi-head"),
    "a layer": (vector.layer(16, 4), "multi-head"),
    "a larger layer": (vector.layer(32, 4), "multi-head"),
    "a layer of small values": (vector.layer(12, 6), "multi-head"),
    "a Transformer": (gh.Transformer.random(8, 8, seed=1), "transformer"),
    "a block": (Block(8, seed=8), "any-network"),
    "a block with 8 outputs": (Block(4, outputs=8, seed=4), "any-network"),
    "an odd network": (Odd(4, seed=0), "any-network"),
    "a wider odd network": (Odd(8, seed=1), "any-network"),
}


def asked(box, dim: int, **arguments) -> tuple[int, str]:
    """How many queries it took, and to find what."""
    found = gh.recover(gh.ValueOracle(lambda X: box(X), dim=dim), **arguments)
    return found.queries, found.family


@pytest.mark.parametrize("name", KNOWN)
def test_next_to_nothing(name):
    box, family = KNOWN[name]
    named, found = asked(box, box.dim, family=family)
    automatic, also = asked(box, box.dim)
    assert found == also == family
    assert automatic <= 1.03 * named + 32


FEW_DIGITS = {
    "a head": (head(8, key_bias=1.0, bias=1.0), "attention"),
    "two heads": (layer(4, 2, 1), "multi-head"),
    "two heads of rank 2": (layer(8, 2, 2, seed=1), "multi-head"),
    "two heads of rank 4": (layer(16, 2, 4, seed=1), "multi-head"),
    "three heads": (layer(8, 3, 2, seed=1), "multi-head"),
    "a layer": (vector.layer(16, 4), "multi-head"),
    "a Transformer": (gh.Transformer.random(8, 8, seed=1), "transformer"),
    "a wide Transformer": (gh.Transformer.random(8, 32, seed=1), "transformer"),
    "a block": (Block(8, seed=8), "any-network"),
    "a small block": (Block(4, seed=1), "any-network"),
    "a block of tanh": (Block(8, act="tanh", seed=2), "any-network"),
    "a block of ReLU and norms": (Block(8, act="relu", seed=5), "any-network"),
    "heads in a block": (gh.Block.random(8, 2, rank=3, seed=3), "block"),
}


def single(box):
    return lambda X: box(X).astype(np.float32)


@pytest.mark.parametrize("name", FEW_DIGITS)
def test_next_to_nothing_in_float32(name):
    box, family = FEW_DIGITS[name]
    named, found = asked(single(box), box.dim, family=family)
    automatic, also = asked(single(box), box.dim)
    assert found == also == family
    assert automatic <= 1.03 * named + 32


@pytest.mark.parametrize("tolerance", [1e-9, 1e-7])
@pytest.mark.parametrize("name", ["a Transformer", "a wide Transformer", "a block"])
def test_next_to_nothing_with_a_tolerance(name, tolerance):
    box, family = FEW_DIGITS[name]

    def recovered(**arguments):
        noisy = gh.defences.noisy(box, tolerance)
        return gh.recover(gh.ValueOracle(noisy, dim=box.dim, tolerance=tolerance), **arguments)

    named, automatic = recovered(family=family), recovered()
    assert named.family == automatic.family == family
    assert automatic.queries <= 1.03 * named.queries + 32


def test_heads_that_fail_beside_what_one_head_left_are_read_anew():
    box = layer(4, 2, 1, seed=5)
    assert asked(single(box), 4)[1] == "multi-head"


def encoder(dim: int, heads: int):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True, dtype=torch.float64)
    layer.eval()

    def box(X):
        with torch.no_grad():
            return layer(torch.as_tensor(X))[:, -1].numpy()

    return box


def first_output(box):
    return lambda X: box(X)[:, 0]


def positioned(box):
    return lambda X: box(X + np.arange(X.shape[1])[:, None])


def impostor(name: str, dim: int):
    return getattr(Impostors(dim), name)


FOREIGN = {
    "positions": (lambda: impostor("positional_encoding", 8), 8),
    "linear attention": (lambda: impostor("linear_attention", 8), 8),
    "hard attention": (lambda: impostor("hard_attention", 8), 8),
    "drift": (lambda: impostor("drifts", 8), 8),
    "an answer that stays": (lambda: impostor("constant_after_a_while", 8), 8),
    "an encoder layer": (lambda: encoder(16, 4), 16),
    "one output of it": (lambda: first_output(encoder(16, 4)), 16),
    "positions in a layer": (lambda: positioned(vector.layer(8, 2)), 8),
    "hard attention in float32": (lambda: single(impostor("hard_attention", 8)), 8),
    "nearly a head in float32": (lambda: single(impostor("nearly_one_head", 8)), 8),
    "an encoder layer in float32": (lambda: single(encoder(16, 4)), 16),
    "one output of it in float32": (lambda: single(first_output(encoder(16, 4))), 16),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_refusal_costs_what_the_plan_says(name):
    make, dim = FOREIGN[name]
    oracle = gh.ValueOracle(make(), dim=dim)
    with pytest.raises(gh.GlassheadError):
        gh.recover(oracle)
    answer = make()(np.zeros((1, 1, dim)))
    assert oracle.queries <= gh.plan(dim, family="auto", outputs=np.size(answer), dtype=str(np.asarray(answer).dtype))


def test_what_takes_more_than_auto_is_planned_for_is_said_to_take_its_name():
    heads = gh.MultiHead.random(4, 2, rank=2, seed=2)
    oracle = gh.ValueOracle(lambda X: np.clip(heads(X), -5, 5), dim=4)
    with pytest.raises(gh.NotConverged, match=r"may be of family 'multi-head'.*name the family"):
        gh.recover(oracle)
    assert oracle.queries <= gh.plan(4, family="auto")


def test_the_plan_of_auto_is_a_fifth_more_than_the_dearest():
    assert gh.plan(16, family="auto") == -(-12 * gh.plan(16, family="any-network") // 10)
    assert gh.plan(16, family="auto", heads=40) == -(-12 * gh.plan(16, family="multi-head", heads=40) // 10)
    assert gh.plan(16, family="auto", outputs=16) == -(-12 * gh.plan(16, family="block") // 10)
    assert gh.plan(16, family="auto", answers="sign") == gh.plan(16, answers="sign")
    assert gh.plan(4, family="auto") == gh.plan(8, family="auto") == 2160
