"""Heads that no key shows alone are recovered all the same, exactly, by asking for all of them together."""

import warnings

import numpy as np
import pytest

import glasshead as gh
from tests.multi.layers import changed, layer

from .layers import HIDDEN, SIZES, hidden, only_where_unsaturated


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HIDDEN)
def test_heads_that_hide_each_other(name, size):
    target = hidden(name, size)
    found = gh.recover(gh.ValueOracle(target), family="multi-head")
    assert found.heads == len(target.heads)
    assert gh.distance(found.model, target) <= 1e-8


@pytest.mark.parametrize("name", ["equal values", "twice the scores"])
def test_auto_ends_there_too(name):
    target = hidden(name, (8, 3, 2), biases=False)
    found = gh.recover(gh.ValueOracle(target))
    assert found.family == "multi-head"
    assert gh.distance(found.model, target) <= 1e-8


@pytest.mark.parametrize("size", [(2, 3, 2), (4, 8, 4), (8, 7, 8), (8, 12, 3), (16, 16, 1)])
def test_more_heads_than_can_be_isolated(size):
    target = layer(*size)
    found = gh.recover(gh.ValueOracle(target), family="multi-head")
    assert found.rank == (size[2],) * size[1]
    assert gh.distance(found.model, target) <= 1e-8


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_dimension_one(heads):
    W, v, key_bias = np.random.default_rng(heads).standard_normal((3, heads))
    target = gh.MultiHead([gh.Attention([[3 * W[h]]], [v[h]], key_bias=[key_bias[h]]) for h in range(heads)])
    found = gh.recover(gh.ValueOracle(target), family="multi-head")
    assert gh.distance(found.model, target) <= 1e-8


@pytest.mark.parametrize("max_norm", [10.0, 30.0, 300.0])
@pytest.mark.parametrize("size", SIZES)
def test_tokens_too_short_to_saturate(size, max_norm):
    target = layer(*size, seed=1)
    found = gh.recover(gh.ValueOracle(target, max_norm=max_norm), family="multi-head")
    assert gh.distance(found.model, target) <= 1e-8


@pytest.mark.parametrize("name", ["opposite values", "twice the scores"])
def test_single_precision(name):
    target = hidden(name, (16, 4, 4))
    found = gh.recover(gh.ValueOracle(target, dtype="float32"), family="multi-head")
    assert gh.distance(found.model, target) <= 1e-4


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_scores_of_any_size(scale):
    heads = [
        gh.Attention(scale * h.W, h.v, key_bias=scale * h.key_bias) for h in hidden("equal values", (8, 3, 2)).heads
    ]
    found = gh.recover(gh.ValueOracle(gh.MultiHead(heads)), family="multi-head")
    assert gh.distance(found.model, gh.MultiHead(heads)) <= 1e-8


def test_what_cancels_at_both_ends_is_not_called_unidentifiable():
    target = only_where_unsaturated(4)
    found = gh.recover(gh.ValueOracle(target), family="multi-head")
    assert gh.distance(found.model, target) <= 1e-8


def test_a_rank_that_is_told_bounds_every_head():
    target = hidden("equal values", (16, 4, 4))
    told, not_told = (gh.recover(gh.ValueOracle(target), family="multi-head", rank=rank) for rank in (4, None))
    assert told.rank == not_told.rank == (4, 4, 4, 4)
    assert told.queries < not_told.queries


def test_heads_too_alike_are_merged_with_a_warning():
    target = layer(16, 3, 4)
    first = target.heads[0]
    nearly = changed(target, 1, W=first.W + 1e-7 * target.heads[2].W, key_bias=first.key_bias)
    with pytest.warns(gh.HeadsMerged, match="come out as one"):
        found = gh.recover(gh.ValueOracle(nearly), family="multi-head")
    assert found.heads == 2
    assert gh.equivalent(found.model, nearly, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gh.recover(gh.ValueOracle(target), family="multi-head").heads == 3
