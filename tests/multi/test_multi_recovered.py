"""Several heads from scalar answers: all of them, to many digits, with about as many queries as parameters."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.heads.one_by_one.learn import learn_multi_head

from .layers import changed, errors, layer, learned, parameters

CASES = [
    (2, 1, 2), (8, 1, 3), (24, 1, 24), (4, 2, 2), (8, 2, 2), (6, 2, 6), (5, 3, 2), (12, 3, 12), (16, 8, 2), (32, 4, 8),
]  # fmt: skip


@pytest.mark.parametrize(("dim", "heads", "rank"), CASES)
@pytest.mark.parametrize("biases", [False, True])
def test_every_head_is_found(dim, heads, rank, biases):
    target = layer(dim, heads, rank, seed=1, biases=biases)
    found, _ = learned(target)
    assert found.rank == (rank,) * heads
    assert max(errors(found.model, target).values()) <= 1e-10
    assert found.model.has_key_bias == biases
    assert gh.equivalent(found.model, target, tol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_as_many_queries_as_parameters(seed):
    target = layer(32, 4, 8, seed=seed)
    found, oracle = learned(target, seed=seed)
    assert oracle.queries - 64 <= 1.27 * parameters(32, [8] * 4)
    assert found.limit == parameters(32, [8] * 4)
    assert max(errors(found.model, target).values()) <= 1e-10


def test_the_same_seed_asks_the_same_queries():
    asked = []
    for _ in range(2):
        asked.append([])
        target = layer(8, 2, 2)
        gh_box = gh.ValueOracle(lambda X, target=target, log=asked[-1]: log.append(X.copy()) or target(X), dim=8)
        learn_multi_head(gh_box, np.random.default_rng(3))
    assert len(asked[0]) == len(asked[1])
    assert all(np.array_equal(a, b) for a, b in zip(*asked, strict=True))


def test_ranks_are_discovered_one_by_one():
    rng, target = np.random.default_rng(5), layer(24, 4, 4)
    for h, rank in enumerate((1, 2, 7, 24)):
        W = rng.standard_normal((24, rank)) @ rng.standard_normal((rank, 24)) / 24
        target = changed(target, h, W=W, key_bias=rng.standard_normal(24) / 5)
    found, _ = learned(target)
    assert sorted(found.rank) == [1, 2, 7, 24]
    assert max(errors(found.model, target).values()) <= 1e-9


def test_a_given_rank_is_enough():
    target = layer(16, 3, 4)
    found, _ = learned(target, rank=4)
    assert found.rank == (4, 4, 4)
    assert max(errors(found.model, target).values()) <= 1e-10


def test_only_some_heads_have_a_key_bias():
    target = changed(layer(16, 3, 4), 1, key_bias=np.zeros(16))
    found, _ = learned(target)
    assert sorted(head.has_key_bias for head in found.model.heads) == [False, True, True]
    assert max(errors(found.model, target).values()) <= 1e-10


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_size_of_the_scores_does_not_matter(scale):
    target = layer(24, 3, 4)
    for h, head in enumerate(target.heads):
        target = changed(target, h, W=scale * head.W, key_bias=scale * head.key_bias)
    assert max(errors(learned(target)[0].model, target).values()) <= 1e-9


def test_a_head_with_nothing_but_a_key_bias():
    target = changed(layer(16, 3, 4), 0, W=np.zeros((16, 16)))
    found, _ = learned(target)
    assert sorted(found.rank) == [0, 4, 4]
    assert max(errors(found.model, target).values()) <= 1e-9


@pytest.mark.parametrize(("size", "W"), [(1e-3, 1e-8), (1e-6, 1e-5)])
def test_faint_heads_are_found(size, W):
    target = layer(32, 4, 4)
    target = changed(target, 2, v=size * target.heads[2].v)
    found, _ = learned(target)
    assert errors(found.model, target)["W"] <= W


def test_as_many_heads_as_half_the_dimension_and_more():
    target = layer(48, 28, 4, seed=2)
    found, _ = learned(target)
    assert found.rank == (4,) * 28
    assert max(errors(found.model, target).values()) <= 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_float32_boxes(seed):
    target = layer(32, 4, 8, seed=seed, dtype="float32")
    try:
        found, _ = learned(target, seed=seed, dtype="float32")
    except gh.GlassheadError:
        return  # refused, with the reason
    assert max(errors(found.model, target).values()) <= 1e-3


def test_rounded_answers():
    target = layer(16, 3, 4)
    found, _ = learned(gh.defences.rounded(target, 8), tolerance=0.5e-8, dim=16)
    assert found.rank == (4, 4, 4)
    assert errors(found.model, target)["W"] <= 1e-4


def test_an_accuracy_asked_for_saves_queries():
    rng = np.random.default_rng(0)
    target = layer(24, 2, 3)
    for h, head in enumerate(target.heads):
        target = changed(target, h, W=head.W + 1e-6 * rng.standard_normal((24, 24)))
    oracle, whole = gh.ValueOracle(target), gh.ValueOracle(target)
    found = learn_multi_head(oracle, np.random.default_rng(0), accuracy=1e-3)
    learn_multi_head(whole, np.random.default_rng(0))
    assert oracle.queries < whole.queries
    assert errors(found.model, target)["W"] <= 1e-3
