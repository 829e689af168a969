"""W and key bias of a head, whatever lies behind it, from values."""

import numpy as np
import pytest

import glasshead as gh
from glasshead import answers

from .blocks import ACTIVATIONS, Block, RandomBlock, learn


@pytest.mark.parametrize(("outputs", "accuracy"), [(None, 1e-9), (8, 1e-11)])
@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dim", [16, 32])
def test_a_block_nobody_described_is_read(dim, residual, rank, outputs, accuracy):
    block = Block(dim, rank=rank, residual=residual, outputs=outputs, seed=dim)
    found = learn(block, dim)
    assert found.error(block.W) <= accuracy
    assert found.key_bias_error(block.key_bias) <= accuracy
    assert found.bounded(block.W)
    assert found.learned.rank == (rank or dim)
    assert found.learned.model.residual == residual
    assert found.per_parameter <= (10 if dim == 32 or rank is None else 12.5)


def test_the_reason_says_where_the_confidence_is_from():
    found = gh.recover(gh.ValueOracle(Block(8, seed=1), dim=8), family="any-network")
    assert found.confidence == 0.99
    assert "bounds follow from measured noise: such held for all 332 boxes of an experiment" in found.reason


@pytest.mark.parametrize("act", sorted(ACTIVATIONS))
def test_random_networks_are_read_or_refused_but_never_wrong(act):
    refused = 0
    for seed in range(10):
        block = RandomBlock(seed, act=act)
        try:
            found = learn(block, block.dim, seed=seed)
        except gh.TargetMismatch:
            refused += 1
            continue
        assert found.learned.check.evidence is None
        assert found.error(block.W) <= 1e-7
        assert found.bounded(block.W)
    assert refused <= 1


def softmax_output(X, W, key_bias=0.0):
    scores = np.einsum("bnd,bd->bn", X, X[:, -1] @ W.T + key_bias)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.einsum("bn,bnd->bd", weights / weights.sum(axis=1, keepdims=True), X)


@pytest.mark.parametrize("biases", [False, True])
def test_transformers_that_section_4_1_cannot_read(biases):
    rng = np.random.default_rng(3)
    W, A, w = rng.standard_normal((8, 8)) / 3, rng.standard_normal((8, 16)), rng.standard_normal(16)
    A -= np.outer(A @ w, w) / (w @ w)  # A w = 0: the antisymmetric part of the answers is silent
    b, key_bias = biases * rng.standard_normal(16), biases * rng.standard_normal(8)
    found = learn(lambda X: np.maximum(softmax_output(X, W, key_bias) @ A + b, 0) @ w, 8)
    assert found.error(W) <= 1e-11
    assert found.learned.model.has_key_bias == biases
    assert not found.learned.model.residual


@pytest.mark.parametrize("size", [1e-2, 1.0, 1e2, 1e4])
def test_heads_of_any_size(size):
    block = Block(8, size=size)
    found = learn(block, 8)
    assert found.error(block.W) <= 1e-8
    assert found.bounded(block.W)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("residual", [False, True])
def test_small_dimensions(dim, residual):
    W = np.random.default_rng(dim).standard_normal((dim, dim))
    found = learn(lambda X: np.tanh(softmax_output(X, W).sum(-1) + 0.3 + residual * X[:, -1, 0]), dim)
    assert found.error(W) <= 1e-11
    assert found.learned.model.residual == residual


def test_mean_pooling_is_a_head_without_W():
    mixing = np.random.default_rng(0).standard_normal((6, 9))
    found = learn(lambda X: np.tanh(X.mean(axis=1) @ mixing).sum(axis=-1), 6)
    assert found.learned.rank == 0
    assert found.learned.bound <= 1e-8
    assert "cannot be told from 0" in found.learned.words


@pytest.mark.parametrize(("decimals", "accuracy"), [(9, 1e-4), (6, 5e-2)])
def test_rounded_answers_with_their_promise(decimals, accuracy):
    block = Block(8)
    options = {"tolerance": 0.5 * 10.0**-decimals}
    found = learn(lambda X: np.round(block(X), decimals), 8, options=options)
    assert found.error(block.W) <= accuracy
    assert found.bounded(block.W)


def test_narrow_answers():
    block = Block(8)
    found = learn(lambda X: block(X).astype(np.float32), 8)
    assert found.error(block.W) <= 1e-2
    assert found.bounded(block.W)


def test_tokens_stay_within_max_norm():
    block = Block(8)
    found = learn(block, 8, options={"max_norm": 0.5})  # the oracle itself refuses longer ones
    assert found.error(block.W) <= 1e-8


def test_a_rank_that_is_given_is_used():
    block = Block(16, rank=3)
    given, discovered = learn(block, 16, rank=3), learn(block, 16)
    assert given.error(block.W) <= 1e-9
    assert given.queries < discovered.queries


def test_the_same_seed_asks_the_same_queries():
    block = Block(6)
    first, again, other = (learn(block, 6, seed=seed) for seed in (5, 5, 6))
    assert first.queries == again.queries
    assert np.array_equal(first.learned.model.W, again.learned.model.W)
    assert not np.array_equal(first.learned.model.W, other.learned.model.W)


def test_class_probabilities_through_log_odds():
    block = Block(8, outputs=3)

    def probabilities(X):
        logits = np.exp(block(X))
        return logits / logits.sum(axis=1, keepdims=True)

    found = learn(answers.log_odds(probabilities, 0, 2), 8)
    assert found.error(block.W) <= 1e-10
