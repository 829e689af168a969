"""Heads that a fuzzer found to be missed, misread or refused for no reason."""

import numpy as np
import pytest

import glasshead as gh


def layer(seed, dim, outputs, ranks, silent=False):
    """Value maps of these ranks; the first head may take the mean of all tokens."""
    rng = np.random.default_rng(seed)
    heads = []
    for h, rank in enumerate(ranks):
        W = rng.standard_normal((dim, dim)) / np.sqrt(dim) * (not (silent and h == 0))
        v = rng.standard_normal((dim, rank)) @ rng.standard_normal((rank, outputs)) / np.sqrt(rank)
        heads.append(gh.Attention(W, v))
    return gh.MultiHead(heads, bias=rng.standard_normal(outputs))


@pytest.mark.parametrize("family", ["auto", "attention", "multi-head"])
@pytest.mark.parametrize("outputs", [4, 9])
def test_one_head_that_takes_the_mean_with_many_outputs(family, outputs):
    rng = np.random.default_rng(outputs)
    target = gh.Attention(np.zeros((9, 9)), rng.standard_normal((9, outputs)), bias=rng.standard_normal(outputs))
    found = gh.recover(target, family=family)
    assert (found.heads, found.rank) == (1, 0)
    assert gh.distance(found.model, target) < 1e-12


@pytest.mark.parametrize("ranks", [(4, 4), (3, 5), (5, 3, 4)])
def test_a_head_that_takes_the_mean_beside_others_with_many_outputs(ranks):
    for seed in range(6):
        target = layer(seed, sum(ranks) + 2, sum(ranks) + 3, ranks, silent=True)
        found = gh.recover(target, family="multi-head")
        assert found.heads == len(ranks)
        assert gh.distance(found.model, target) < 1e-9


def test_a_key_bias_hardly_above_rounding_is_no_recovery():
    rng = np.random.default_rng(3)
    for size in 10 ** rng.uniform(-6, 0, 30):
        v, key_bias = rng.standard_normal((5, 4)), size * rng.standard_normal(5)
        target = gh.Attention(*(np.float32(a) for a in (np.zeros((5, 5)), v)), key_bias=np.float32(key_bias), bias=99.0)
        try:
            found = gh.recover(gh.ValueOracle(target, dtype="float32"))
        except gh.GlassheadError:
            continue
        assert not found.model.has_key_bias or gh.distance(found.model, target) < 1e-2


@pytest.mark.parametrize("family", ["auto", "multi-head"])
def test_one_number_in_a_row_of_its_own(family):
    rng = np.random.default_rng(0)
    heads = [gh.Attention(rng.standard_normal((7, 7)), rng.standard_normal((7, 1))) for _ in range(2)]
    target = gh.MultiHead(heads, bias=[1.0])
    found = gh.recover(target, family=family)
    assert gh.distance(found.model, target) < 1e-9
    assert np.shape(found.model(np.ones((3, 2, 7)))) == (3, 1)


def several(seed):
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(5, 11))
    heads = []
    for _ in range(3):
        rank = int(rng.integers(1, dim + 1))
        W = rng.standard_normal((dim, rank)) @ rng.standard_normal((rank, dim)) / np.sqrt(rank * dim)
        heads.append(gh.Attention(W, rng.standard_normal(dim), key_bias=rng.standard_normal(dim)))
    return gh.MultiHead(heads, bias=rng.standard_normal())


PASSED = 784, 1129, 1304, 1581, 1749, 1919, 2092, 2975  # once, for one head with bounds as wide as W
SINGULAR = 1849, 3408  # keys that do not tell the columns measured apart


@pytest.mark.parametrize("seed", PASSED + SINGULAR)
def test_several_heads_do_not_pass_for_one(seed):
    target = several(seed)
    with pytest.raises(gh.TargetMismatch):
        gh.recover(target, family="attention")
    found = gh.recover(target)
    assert found.heads == 3
    assert gh.distance(found.model, target) < 1e-6
