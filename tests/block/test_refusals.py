"""Boxes beside the family of blocks, which must be refused, with a reason."""

import numpy as np
import pytest

import glasshead as gh

from .boxes import NEIGHBOURS, Box, Masked, Pooled, SoftCapped, TwoLayers, Window, relu


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
@pytest.mark.parametrize("norm", ["none", "layer"])
def test_neighbours_are_refused(neighbour, norm):
    for family in ("block", "auto"):
        with pytest.raises((gh.TargetMismatch, gh.NotConverged)) as refused:
            gh.recover(neighbour(24, (8, 8, 8), 1, first=norm, last=norm).oracle, family=family)
        assert "inside glasshead failed" not in str(refused.value)


def test_positions_dropout_and_order_are_named():
    said = {}
    for neighbour in NEIGHBOURS:
        try:
            gh.recover(neighbour(24, (8, 8, 8), 1).oracle, family="block")
        except gh.GlassheadError as refused:
            said[neighbour.__name__] = str(refused)
    assert "the order of the other tokens" in said["Positions"]
    assert "the same query gets the same answer" in said["Dropout"]
    assert "every token twice" in said["Sink"]
    assert "every token twice" in said["Sigmoid"]


def test_too_few_outputs_say_how_many_it_takes():
    with pytest.raises(gh.NotConverged, match="outputs"):
        gh.recover(Box(24, (8, 8, 8), 1, outputs=6).oracle, family="block")
    with pytest.raises(gh.TargetMismatch) as refused:
        gh.recover(gh.ValueOracle(lambda X: Box(24, (8, 8, 8), 1)(X)[:, 0], 24))
    assert any("all of its outputs" in note for note in refused.value.__notes__)


@pytest.mark.parametrize("promise", [{}, {"tolerance": 1e-9}])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_output_is_a_wrong_argument(shape, promise):
    boxes = [gh.Attention.random(6, seed=1), Box(6, (3, 3), 1, first="layer"), lambda X: np.tanh(X).sum(axis=(1, 2))]
    for box in boxes:
        oracle = gh.ValueOracle(lambda X, box=box: box(X).reshape(len(X), -1)[:, 0].reshape(shape), 6, **promise)
        with pytest.raises(ValueError, match="numbers per answer as a token has, 6, got one") as refused:
            gh.recover(oracle, family="block")
        assert isinstance(refused.value, gh.TargetMismatch)


def test_value_maps_of_small_rank_are_refused_with_that_sentence():
    with pytest.raises(gh.NotConverged, match="of rank 5 at least"):
        gh.recover(Box(24, (2,) * 12, 1).oracle, family="block")


@pytest.mark.parametrize("promise", [{"rtol": 1e-6}, {"tolerance": 1e-5}])
def test_a_promise_of_too_few_digits_is_not_enough(promise):
    with pytest.raises(gh.AccuracyUnreachable, match="promised are"):
        gh.recover(gh.ValueOracle(Box(16, (8, 8), 1), 16, **promise), family="block")


@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_neighbours_with_a_true_promise_are_refused(neighbour):
    box = neighbour(16, (8, 8), 1)
    with pytest.raises(gh.GlassheadError):
        gh.recover(gh.ValueOracle(lambda X: np.round(box(X), 9), 16, tolerance=1e-9), family="block")


def test_single_precision_is_refused_with_the_digits_that_are_missing():
    box = Box(24, (8, 8, 8), 0, activation=relu, dtype="float32")  # kinks, and scores that are small
    with pytest.raises(gh.AccuracyUnreachable, match="7 digits"):
        gh.recover(box.oracle, family="block")


@pytest.mark.parametrize("kind", [SoftCapped, Window, Masked, Pooled, TwoLayers])
@pytest.mark.parametrize("network", [{}, {"activation": relu}], ids=["gelu", "relu"])
def test_neighbours_in_single_precision_are_refused(kind, network):
    with pytest.raises(gh.GlassheadError):
        gh.recover(kind(16, (8, 8), 1, first="none", last="none", dtype="float32", **network).oracle, family="block")


def test_yes_and_no_are_no_answers_for_a_block():
    with pytest.raises(ValueError, match="all its outputs"):
        gh.recover(gh.SignOracle(lambda X: X[:, 0, 0] > 0, 4), family="block")
    with pytest.raises(ValueError, match="residual_map"):
        gh.recover(Box(16, (8, 8), 1).oracle, family="block", residual_map="diagonal")


def test_a_block_has_square_value_maps():
    with pytest.raises(ValueError, match="value-output maps"):
        gh.Block([gh.Attention(np.eye(3), np.ones((3, 2)))])
    with pytest.raises(ValueError, match="residual_map"):
        gh.Block([gh.Attention(np.eye(3), np.eye(3))], residual_map="maybe")
    with pytest.raises(TypeError, match="behind"):
        gh.Block([gh.Attention(np.eye(3), np.eye(3))], behind=3)
