"""What is handed back, whatever the family: a confidence that is computed, a `gh.Recovery` in every error, the box."""

import re
import warnings

import numpy as np
import pytest
from bench.stored import load

import glasshead as gh
from glasshead._learned import MEASURED, HeldOut
from glasshead._learned.head import MEASURED_WORDS, WIDENED_WORDS
from glasshead._learners import learn_attention

from .any_network.blocks import Block


def test_the_confidence_of_a_check_is_how_likely_it_was_to_fail():
    """A model that is wrong on a quarter of all queries, checked again and again on so many of them."""
    rng, compared = np.random.default_rng(0), 10
    caught = np.mean((rng.random((20_000, compared)) < 0.25).any(axis=1))
    assert HeldOut(0.0, None, "", compared=compared).confidence == pytest.approx(caught, abs=0.01)
    assert HeldOut(0.0, None, "").confidence == 0


@pytest.mark.parametrize("target", [gh.MultiHead.random(6, 2, rank=2), gh.Transformer.random(5, 4)])
def test_where_nothing_bounds_the_error_fresh_queries_say_how_sure_it_is(target):
    found = gh.recover(target)
    assert found.bound is None
    assert 0.98 < found.confidence < 1
    assert f"wrong on one query in four would pass in {1 - found.confidence:.1%} of cases" in found.reason


def test_measured_bounds_held_for_the_boxes_that_the_reason_names():
    """Behind a network all of an experiment, by the rule of three; of plain heads those that `_checks/bounds` names."""
    rows, random = (load("any_network")[name] for name in ("rows", "random"))
    boxes = sum(row["boxes"] for row in rows) + random["boxes"]
    assert all(row["bounded"] for row in rows)
    assert random["bound_broken_at"] == []
    assert random["outcomes"] == {"read": random["boxes"]}
    assert f"all {boxes} boxes" in MEASURED_WORDS
    assert 0 < 1 - 3 / boxes - MEASURED < 0.01
    assert re.findall(r"[\d,]+ boxes", WIDENED_WORDS) == ["9,000 boxes"]
    assert 9000 in [run["boxes"] for run in load("red")["runs"]]


def test_a_plain_head_with_widened_bounds_says_what_they_rest_on():
    head = gh.Attention.random(6, rank=2)
    box = gh.ValueOracle(head)
    wide = learn_attention(box, np.random.default_rng(0)).with_bounds_measured(6.0, 1.0)
    found = wide.recovery(box.queries, None)
    assert found.confidence == MEASURED
    assert WIDENED_WORDS in found.reason
    assert MEASURED_WORDS not in found.reason


def test_what_is_neither_bounded_nor_checked_is_not_called_certain():
    box = gh.ValueOracle(gh.Attention.random(4))
    unchecked = gh.paper.theorem_4_1(box), gh.paper.theorem_5_1(box, rank=4)
    assert all(found.bound is found.residual is None and found.confidence == 0 for found in unchecked)


def test_an_accuracy_that_many_outputs_do_not_reach_comes_with_a_recovery(tmp_path):
    layer = gh.MultiHead([gh.Attention.random(6, rank=2, seed=seed) for seed in range(2)])
    heads = [
        gh.Attention(head.W, np.random.default_rng(seed).standard_normal((6, 3)))
        for seed, head in enumerate(layer.heads)
    ]
    with pytest.raises(gh.AccuracyUnreachable) as caught:
        gh.recover(gh.MultiHead(heads), family="multi-head", accuracy=1e-30)
    assert isinstance(caught.value.best, gh.Recovery)
    assert gh.load_recovery(caught.value.best.save(tmp_path / "best")).heads == 2


def test_what_a_budget_leaves_unchecked_is_a_recovery():
    target = gh.Attention.random(6)
    enough = gh.recover(target).queries
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(target, budget=enough - 1)
    assert isinstance(caught.value.known["unchecked"], gh.Recovery)


def test_a_recovered_head_asks_the_box_of_the_user():
    reports, box = [], gh.ValueOracle(Block(5), dim=5)
    first = gh.recover(box, family="any-network")
    found = gh.recover(box, family="any-network", budget=first.queries, progress=lambda *report: reports.append(report))
    said, asked = len(reports), box.queries
    X = 0.1 * np.random.default_rng(0).standard_normal((9, 4, 5))
    assert np.allclose(found.model(X), Block(5)(X), atol=1e-8)
    assert found.model.behind is box
    assert (len(reports), box.queries) == (said, asked + 9)


@pytest.mark.parametrize("family", ["auto", "multi-head"])
def test_a_warning_points_at_the_line_that_called(family, monkeypatch):
    monkeypatch.setattr("glasshead._checks.heads.warning", lambda *_: "some heads may have come out as one: a test")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gh.recover(gh.MultiHead.random(6, 2, rank=2), family=family)
    assert [(one.category, one.filename) for one in caught] == [(gh.HeadsMerged, __file__)]
