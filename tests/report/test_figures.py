"""`found.plot`: figures for papers, with labelled axes, as files that are the same every time."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import glasshead as gh
from glasshead._models import figure as drawing
from glasshead._recovery import recovered

MODELS = {
    "attention": (gh.Attention.random(6, rank=2, seed=1), 2),
    "multi-head": (gh.MultiHead.random(6, heads=3, rank=2, seed=1), (2, 2, 2)),
    "block": (gh.Block.random(6, heads=2, seed=1), (3, 3)),
    "transformer": (gh.Transformer.random(6, width=4, seed=1), 6),
    "many": (gh.MultiHead.random(3, heads=4, rank=1, seed=1), (1,) * 4),
}


@pytest.mark.parametrize(("name", "truth"), [*((name, False) for name in MODELS), ("attention", True), ("block", True)])
def test_every_head_is_drawn(name, truth, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "MOST_HEADS", 3)
    model, rank = MODELS[name]
    found = recovered(model, rank, queries=99, limit=42, reason="made for a test")
    figure = found.plot(tmp_path / "W.svg", truth=model if truth else None)
    drawn = [axes for axes in figure.axes if axes.get_xlabel()]
    assert len(drawn) == (3 if truth else 2) * min(len(model.heads), 3)
    assert all(axes.get_ylabel() and axes.get_title() for axes in drawn)
    words = "".join(ElementTree.parse(tmp_path / "W.svg").getroot().itertext())
    assert "99 queries" in words
    assert ("the first 3 of 4 heads" in words) == (name == "many")


def test_the_same_figure_is_the_same_file(tmp_path):
    model, rank = MODELS["attention"]
    found = recovered(model, rank, queries=99, limit=42, reason="made for a test")
    for name in ("a.svg", "b.svg"):
        found.plot(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_truth_of_another_shape_is_refused():
    model, rank = MODELS["attention"]
    found = recovered(model, rank, queries=99, limit=42, reason="made for a test")
    with pytest.raises(ValueError, match="expected a truth with 1 heads of shape"):
        found.plot(truth=MODELS["multi-head"][0])
    with pytest.raises(TypeError, match="expected truth to be a model with heads, got int"):
        found.plot(truth=3)
