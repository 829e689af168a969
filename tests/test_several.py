"""Several heads and several outputs, through the one entry."""

import json

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.promise import find_promise

from .helpers import Impostors
from .multi.layers import layer


@pytest.mark.parametrize(("dim", "heads", "rank"), [(8, 2, 2), (12, 3, 3), (6, 2, None)])
@pytest.mark.parametrize("family", ["auto", "multi-head"])
def test_recovers_a_sum_of_heads(dim, heads, rank, family):
    target = gh.MultiHead.random(dim, heads, rank=rank, seed=dim)
    found = gh.recover(target, family=family)
    assert (found.family, found.heads) == ("multi-head", heads)
    assert found.rank == (rank or dim,) * heads
    assert gh.distance(found.model, target) < 1e-9
    assert gh.equivalent(found.model, target)
    assert found.bound is None
    assert found.limit <= found.queries


def test_two_heads_are_no_impostors_any_more():
    box = Impostors(6)
    for kind in (box.two_heads, box.nearly_one_head):
        found = gh.recover(gh.ValueOracle(kind, dim=6))
        assert found.heads == 2
        assert "one head does not explain it" in found.reason


def test_what_sees_positions_is_refused_early():
    oracle = gh.ValueOracle(Impostors(32).positional_encoding, dim=32)
    with pytest.raises(gh.TargetMismatch):
        gh.recover(oracle)
    assert oracle.queries <= 32 + 128


@pytest.mark.parametrize("family", ["auto", "attention"])
def test_one_head_with_many_outputs_takes_three_queries_a_dimension(family):
    rng = np.random.default_rng(0)
    target = gh.Attention(rng.standard_normal((64, 64)) / 8, rng.standard_normal((64, 64)))
    found = gh.recover(target, family=family)
    assert gh.distance(found.model, target) < 1e-9
    assert found.queries <= 3 * 64 + 104
    assert found.rank == 64


def test_an_accuracy_asks_for_a_guarantee():
    rng = np.random.default_rng(0)
    target = gh.Attention(rng.standard_normal((6, 6)), rng.standard_normal((6, 3)))
    found = gh.recover(target, accuracy=1e-9)
    assert np.linalg.norm(found.model.W - target.W) <= found.bound <= 1e-9


def test_a_layer_with_many_outputs():
    rng = np.random.default_rng(1)
    heads = [
        gh.Attention.from_projections(*rng.standard_normal((3, 8, 32)) / 6, rng.standard_normal((8, 32)))
        for _ in range(4)
    ]
    target = gh.MultiHead(heads, bias=rng.standard_normal(32))
    found = gh.recover(target)
    assert found.heads == 4
    assert gh.distance(found.model, target) < 1e-8
    assert found.queries < 1000


@pytest.mark.parametrize("family", ["auto", "multi-head"])
def test_more_heads_than_outputs(family):
    rng = np.random.default_rng(2)
    target = gh.MultiHead([gh.Attention(rng.standard_normal((6, 6)), rng.standard_normal((6, 2))) for _ in range(3)])
    found = gh.recover(target, family=family)
    assert (found.family, found.heads) == ("multi-head", 3)
    assert gh.distance(found.model, target) < 1e-9


def test_a_recovery_of_several_heads_comes_back_from_a_folder(tmp_path):
    found = gh.recover(gh.MultiHead.random(8, 2, rank=2, seed=3))
    found.save(tmp_path)
    again = gh.load_recovery(tmp_path)
    assert again.rank == found.rank
    assert gh.distance(again.model, found.model) == 0
    assert json.loads(json.dumps(found.to_dict()))["heads"] == 2


def test_a_transformer_has_one_output():
    with pytest.raises(ValueError, match="expected one number per answer for family 'transformer'"):
        gh.recover(gh.ValueOracle(lambda X: np.tanh(X[:, -1]), dim=3), family="transformer")


@pytest.mark.parametrize(("mean", "size"), [(1.5e6, 340.0), (2500.0, 1.8), (1e4, 1.0)])
@pytest.mark.parametrize("rank", [3, None])
def test_a_loud_mean_beside_a_head_is_not_one_head_that_explains_nothing(mean, size, rank):
    rng = np.random.default_rng(5)
    heads = [
        gh.Attention(np.zeros((4, 4)), mean * np.array([0.5, -0.5, 0.5, 0.5])),
        gh.Attention(rng.standard_normal((4, 2)) @ rng.standard_normal((2, 4)) / 2, size * rng.standard_normal(4) / 2),
    ]
    target, noise = gh.MultiHead(heads, bias=100.0), np.random.default_rng(6)
    box = gh.ValueOracle(lambda X: target(X) * (1 + 1e-9 * noise.uniform(-1, 1, len(X))), dim=4, rtol=1e-9)
    try:
        found = gh.recover(box, rank=rank)
    except gh.GlassheadError:
        return
    assert found.residual <= 1e-6


def test_rays_that_end_in_nothing_are_rough_all_the_same():
    def box(X):
        size = np.linalg.norm(X[:, -1], axis=1)
        return np.where(size > 63, 0.0, size**2 * np.sin(1e6 * X[:, -1].sum(axis=1)))

    seen = gh.Evidence("some law", np.zeros((1, 4)), "expected 1", "2")
    mismatch = gh.TargetMismatch("no head", seen)
    told = find_promise(gh.ValueOracle(box, dim=4), mismatch, np.random.default_rng(0))
    assert "lie off by about" in str(told)  # and no tolerance is advised that is larger than what answers differ by
    assert "promise tolerance=" not in str(told)


@pytest.mark.parametrize("target", [layer(8, 2, 2), layer(8, 8, 2), lambda X: X.mean(axis=1) @ np.ones(8)])
def test_what_is_only_checked_is_not_called_certain(target):
    found = gh.recover(gh.ValueOracle(target, dim=8), family="multi-head")
    assert found.bound is None
    assert found.confidence < 1
