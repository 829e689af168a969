"""Boxes beside the family of decoder blocks, which must be refused, with a reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshead as gh

from .boxes import (
    NEIGHBOURS,
    OTHER_PLACES,
    Decoder,
    Experts,
    FirstPlace,
    KeyExperts,
    QKNorm,
    Sandwich,
    SoftCapped,
    llama_frequencies,
)


def in_single(box):
    """The box with tokens and answers rounded to float32."""
    return lambda X: box(X.astype(np.float32).astype(np.float64)).astype(np.float32)


REFUSED = (gh.TargetMismatch, gh.NotConverged)


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
@pytest.mark.parametrize("rotary", [False, True])
def test_neighbours_are_refused(neighbour, rotary):
    options = {"theta": llama_frequencies(4)} if rotary and neighbour is not Experts else {}
    for norm in ("rms", "layer"):
        box = neighbour(24, 3, seed=1, norm=norm, **options)
        with pytest.raises(REFUSED) as refused:
            gh.recover(gh.ValueOracle(box, 24), family="block")
        assert "inside glasshead failed" not in str(refused.value)


def test_the_query_token_is_the_last_one():
    with pytest.raises(REFUSED, match="the first"):
        gh.recover(gh.ValueOracle(FirstPlace(24, 3, seed=1), 24), family="block")


@pytest.mark.parametrize("neighbour", OTHER_PLACES)
def test_positions_of_another_kind_are_named_with_two_sequences_that_show_them(neighbour):
    box = neighbour(12, 2, seed=1)
    with pytest.raises(REFUSED, match="positions") as refused:
        gh.recover(gh.ValueOracle(box, 12), family="block")
    if "orders" in refused.value.known:
        one, other = refused.value.known["orders"]
        assert sorted(map(tuple, one)) == sorted(map(tuple, other))
        assert np.array_equal(one[-1], other[-1])
        assert np.abs(box(one[None]) - box(other[None])).max() > 1e-3


def test_without_a_norm_in_front_of_the_network_nothing_settles():
    class NoSecondNorm(Decoder):
        def normed(self, x, i):
            return x if i == 1 else super().normed(x, i)

    with pytest.raises(gh.NotConverged, match="a norm in front of the network"):
        gh.recover(gh.ValueOracle(NoSecondNorm(24, 3, seed=1), 24), family="block")


def test_where_single_precision_is_too_little_the_digits_are_named():
    box = Decoder(32, 2, seed=0, network="gelu")
    with pytest.raises(gh.AccuracyUnreachable, match="7 digits"):
        gh.recover(gh.ValueOracle(in_single(box), 32, dtype="float32"), family="block")


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_neighbours_are_refused_in_single_precision_too(neighbour):
    for norm in ("rms", "layer"):
        box = neighbour(24, 3, seed=1, norm=norm, eps=1e-5, network="gelu")
        with pytest.raises((*REFUSED, gh.AccuracyUnreachable)) as refused:
            gh.recover(gh.ValueOracle(in_single(box), 24, dtype="float32"), family="block")
        assert "inside glasshead failed" not in str(refused.value)


def test_heads_wider_than_the_model_are_refused_with_that_word():
    with pytest.raises(gh.NotConverged, match="wider than the model"):
        gh.recover(gh.ValueOracle(Decoder(24, 4, rank=12, seed=1), 24), family="block")


def test_why_no_wide_heads_show_is_said_where_positions_might_tell_them_apart():
    box = Sandwich(12, 4, rank=6, seed=1, theta=llama_frequencies(3))
    with pytest.raises(gh.NotConverged, match="nor do heads that are wider than the model together show: no weights"):
        gh.recover(gh.ValueOracle(box, 12), family="block")


def test_an_accuracy_is_refused_where_positions_matter():
    box = Decoder(12, 2, seed=1, theta=llama_frequencies(3))
    with pytest.raises(gh.AccuracyUnreachable, match="nothing bounds W where positions matter") as refused:
        gh.recover(gh.ValueOracle(box, 12), family="block", accuracy=1e-3)
    assert refused.value.best.heads == 2


@pytest.mark.parametrize("neighbour", [SoftCapped, QKNorm, KeyExperts, Sandwich])
def test_neighbours_with_wide_heads_are_refused(neighbour):
    box = neighbour(12, 3, rank=6, seed=1, theta=llama_frequencies(3))
    with pytest.raises(REFUSED) as refused:
        gh.recover(gh.ValueOracle(box, 12), family="block")
    assert "inside glasshead failed" not in str(refused.value)


def test_shapes_of_rotary_positions_are_checked():
    good = gh.Rotary.random(8, heads=2, rank=4, seed=1)
    with pytest.raises(ValueError, match="2 heads"):
        gh.Block(gh.Block.random(8, 2).heads, rotary=gh.Rotary(good.heads[:1]))


def test_heads_too_narrow_to_be_told_apart_are_said_to_be():
    """Of width 4, behind a norm that is no sandwich."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, dtype=torch.float64).eval()
    with pytest.raises(REFUSED, match="of so small a rank that nothing may be left to tell them apart"):
        gh.recover(gh.from_torch(layer, 8), family="block")
