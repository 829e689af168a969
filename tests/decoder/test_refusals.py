"""Boxes beside the family of decoder blocks, which must be refused, with a reason."""

from __future__ import annotations

import pytest

import glasshead as gh

from .boxes import NEIGHBOURS, Decoder, Experts, FirstPlace, Places, TorchBlock, llama_frequencies

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


def test_positions_of_another_kind_are_named():
    with pytest.raises(REFUSED, match="positions"):
        gh.recover(gh.ValueOracle(Places(24, 3, seed=1), 24), family="block")


def test_without_a_norm_in_front_of_the_network_nothing_settles():
    class NoSecondNorm(Decoder):
        def normed(self, x, i):
            return x if i == 1 else super().normed(x, i)

    with pytest.raises(gh.NotConverged, match="a norm in front of the network"):
        gh.recover(gh.ValueOracle(NoSecondNorm(24, 3, seed=1), 24), family="block")


def test_single_precision_is_refused_with_the_digits_that_are_missing():
    box = TorchBlock(32, 2, 64, seed=3, dtype="float32")
    with pytest.raises(gh.AccuracyUnreachable, match="7 digits"):
        gh.recover(gh.ValueOracle(box, 32, dtype="float32"), family="block")


def test_heads_wider_than_the_model_are_refused_with_that_word():
    with pytest.raises(gh.NotConverged, match="wider than the model"):
        gh.recover(gh.ValueOracle(Decoder(24, 4, rank=12, seed=1), 24), family="block")


def test_shapes_of_rotary_positions_are_checked():
    good = gh.Rotary.random(8, heads=2, rank=4, seed=1)
    with pytest.raises(ValueError, match="2 heads"):
        gh.Block(gh.Block.random(8, 2).heads, rotary=gh.Rotary(good.heads[:1]))
