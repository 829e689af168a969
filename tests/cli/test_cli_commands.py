"""What each command does when all is well."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.boxes.local import head_file
from tests.boxes.served import Served

import glasshead as gh
from glasshead._cli import bench, compare, demo, new, options, plan, recover, report
from glasshead._families import ANSWERS, FAMILY_NAMES

COMMANDS = {
    "demo": demo,
    "new": new,
    "recover": recover,
    "plan": plan,
    "compare": compare,
    "report": report,
    "bench": bench,
}


def test_demo_shows_and_saves(cli):
    result = cli("demo", "--dim", "5", "--seed", "3", "--folder", "shown")
    target, found = gh.load("shown/target.safetensors"), gh.load_recovery("shown/recovered")
    assert result.code == 0
    assert gh.distance(target, gh.Attention.random(5, seed=3)) == 0
    assert 0 <= gh.distance(found.model, target) < 1e-13
    for shown in (
        "shown/report.html",
        "shown/W.svg",
        f"{found.queries} everything included",
        "held-out check",
        f"{target.W[0, 0]: .16f}",
    ):
        assert shown in result.words
    assert Path("shown/W.svg").read_text().count("recovered W") == 1


def test_demo_measures_what_it_claims(cli):
    fields = cli("demo", "--dim", "4", "--json").json
    target, found = gh.load(fields["target"]), gh.load_recovery(fields["recovered"])
    assert fields["error_W"] == np.abs(found.model.W - target.W).max()
    assert fields["error_v"] == np.abs(found.model.v - target.v).max()
    assert fields["queries"] == found.queries
    assert Path(fields["picture"]).is_file()
    assert Path(fields["report"]).read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("rank", [None, 2])
def test_new_is_the_random_model(cli, rank):
    given = [] if rank is None else ["--rank", str(rank)]
    result = cli("new", "attention", "--dim", "7", *given, "--seed", "5", "-o", "made.safetensors")
    assert result.code == 0
    assert "glasshead recover made.safetensors" in result.words
    assert gh.distance(gh.load("made.safetensors"), gh.Attention.random(7, rank=rank, seed=5)) == 0


def test_new_overwrites_only_when_told(cli):
    before = Path("target.safetensors").read_bytes()
    again = ("new", "attention", "--dim", "6", "--seed", "9", "-o", "target.safetensors")
    refused = cli(*again)
    assert (refused.code, Path("target.safetensors").read_bytes()) == (2, before)
    assert "--force" in refused.err
    assert cli(*again, "--force").code == 0
    assert gh.distance(gh.load("target.safetensors"), gh.Attention.random(6, seed=9)) == 0


def test_recover_prints_what_the_library_returns(cli):
    found = gh.recover(gh.load("target.safetensors"), seed=4)
    assert cli("recover", "target.safetensors", "--seed", "4", "--json").json == found.to_dict()


@pytest.mark.parametrize(
    "target", ["target.safetensors", "boxes:one", "boxes:head --dim 6", "boxes:one.__call__ --dim 6"]
)
def test_recover_saves(cli, target):
    result = cli("recover", *target.split(), "--run", "runs/first")
    assert result.code == 0
    assert "recovered attention" in result.words
    assert ("from the target file" in result.words) == target.endswith(".safetensors")
    assert gh.distance(gh.load_recovery("runs/first").model, gh.Attention.random(6, seed=1)) < 1e-13


def test_recover_keeps_the_promise_it_was_given(cli):
    fields = cli("recover", "boxes:rounded", "--dim", "6", "--tolerance", "5e-4", "--run", "found", "--json").json
    error = np.linalg.norm(gh.load("found/model.safetensors").W - gh.Attention.random(6, seed=1).W)
    assert 0 < error <= fields["bound"]


def test_a_box_may_print(cli):
    result = cli("recover", "boxes:chatty", "--dim", "6", "--json")
    assert result.json["family"] == "attention"
    assert "a box may print" in result.err


@pytest.mark.parametrize(
    ("given", "keywords"), [([], {}), (["--biases"], {"biases": True}), (["--rank", "3"], {"rank": 3})]
)
def test_plan_is_the_library_s(cli, given, keywords):
    queries = gh.plan(64, **keywords)
    assert cli("plan", "--dim", "64", *given, "--json").json["queries"] == queries
    assert f"{queries:,} queries at most" in cli("plan", "--dim", "64", *given).words


@pytest.mark.parametrize(
    ("other", "given", "code"),
    [
        (gh.Attention.random(6, seed=1), [], 0),
        (gh.Attention.random(6, seed=2), [], 1),
        (gh.Attention.random(6, seed=2), ["--tol", "10"], 0),
        (gh.Attention.random(5, seed=1), [], 1),
    ],
)
def test_compare(cli, other, given, code):
    gh.save(other, "other.safetensors")
    far = gh.distance(gh.load("target.safetensors"), other)
    fields = cli("compare", "target.safetensors", "other.safetensors", *given, "--json").json
    assert fields["distance"] == (far if np.isfinite(far) else None)
    assert fields["same"] is (code == 0)
    result = cli("compare", "target.safetensors", "other.safetensors", *given)
    assert result.code == code
    assert result.out.startswith("different" if code else "the same")


def test_compare_says_what_was_compared(cli):
    target = gh.load("target.safetensors")
    gh.save(gh.FrontHead(target.W, key_bias=target.key_bias), "front.safetensors")
    both = "target.safetensors", "front.safetensors"
    assert cli("compare", *both).out.startswith("the same W and key bias; nothing else was compared")
    assert cli("compare", *both, "--json").json["compared"] == "W and key bias"


@pytest.mark.parametrize("placed", [False, True])
def test_compare_of_blocks_says_that_value_maps_count(cli, placed):
    def saved(name, factor):
        head = gh.Attention.random(4, seed=1)
        block = gh.Block([head.with_values(factor * np.eye(4))])
        gh.save(gh.Placed(block, np.ones((5, 4))) if placed else block, name)

    saved("a.safetensors", 1.0)
    saved("b.safetensors", 2.0)
    what = "W, key bias, value maps, norms that are known, residual map and how order is seen"
    what += "; and positions at the places both have" * placed
    assert cli("compare", "a.safetensors", "b.safetensors", "--json").json["compared"] == what
    assert cli("compare", "a.safetensors", "b.safetensors").out.startswith("different")
    assert cli("compare", "a.safetensors", "a.safetensors").words.startswith(f"the same {what}; nothing else")


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize(
    ("around", "why"),
    [
        ({"norms": [gh.Norm("layer", 1e-5)]}, "their norms differ"),
        ({"residual_map": "none"}, "their residual maps differ"),
        ({"slopes": [0.5]}, "their ways to see the order of tokens differ"),
    ],
)
def test_compare_says_what_stands_around_other_heads(cli, placed, around, why):
    heads = [gh.Attention.random(4, seed=1).with_values(np.eye(4))]
    for name, given in (("a.safetensors", {}), ("b.safetensors", around)):
        block = gh.Block(heads, **given)
        gh.save(gh.Placed(block, np.ones((5, 4))) if placed else block, name)
    result = cli("compare", "a.safetensors", "b.safetensors")
    assert result.code == 1
    assert result.out.startswith("different")
    assert why in result.words


def test_compare_counts_the_norm_in_front(cli):
    W = gh.Attention.random(4, seed=1).W
    gh.save(gh.FrontHead(W), "bare.safetensors")
    gh.save(gh.FrontHead(W, norm=gh.Norm("layer", 1e-5)), "normed.safetensors")
    result = cli("compare", "bare.safetensors", "normed.safetensors")
    assert (result.code, "their norms differ" in result.words) == (1, True)
    same = cli("compare", "normed.safetensors", "normed.safetensors")
    assert same.words.startswith("the same W, key bias and the norm in front; nothing else was compared")


def test_compare_takes_a_saved_recovery(cli):
    gh.recover(gh.load("target.safetensors")).save("found")
    assert cli("compare", "target.safetensors", "found").code == 0


def test_signs_and_the_scale_they_do_not_show(cli):
    shown = cli("recover", "target.safetensors", "--answers", "sign", "--accuracy", "1e-9", "--run", "signs")
    assert shown.code == 0
    assert "from the target file" in shown.words
    assert cli("compare", "target.safetensors", "signs", "--tol", "1e-8").code == 1
    fields = cli("compare", "target.safetensors", "signs", "--tol", "1e-8", "--up-to-scale", "--json").json
    assert fields["same"]
    assert fields["up_to_scale"]


def test_signs_that_may_be_wrong(cli):
    given = ("recover", "boxes:flipped", "--dim", "6", "--answers", "sign", "--accuracy", "0.1")
    assert cli(*given, "--flips", "0.05", "--json").json["confidence"] > 0.999
    assert cli(*given).code == 4


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_that_work(cli, name):
    shown = cli(name, "--help")
    examples = re.findall(r"\[cyan\]glasshead (.*?)(?: &&.*)?\[/\]", COMMANDS[name].EXAMPLES)
    assert shown.code == 0
    assert examples
    head = gh.Attention.random(64)
    Path("mybox.py").write_text("import glasshead as gh\nanswer = gh.Attention.random(64)\n")
    for path in ("a.safetensors", "b.safetensors", "target.safetensors"):
        gh.save(head, path)
    if name != "recover":
        gh.recover(head).save("runs/first")
    head_file("encoder.onnx", gh.Attention.random(8, seed=3))
    with Served(Path("target.safetensors").absolute(), "--whole") as server:
        for example in examples:
            assert example in shown.words
            forced = ["--force"] * (name == "new")
            asked = example.replace("http://127.0.0.1:8000", server.address)
            assert cli(*shlex.split(asked), *forced).code == 0, example


@pytest.mark.parametrize("command", [*COMMANDS, "serve", "audit", "experiment", "experiment phase"])
def test_every_help_has_an_example(cli, command):
    words = cli(*command.split(), "--help").words
    assert f"glasshead {command}" in words.partition("Examples")[2]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command(cli, arguments):
    result = cli(*arguments)
    assert result.code == 0
    assert all(name in result.out for name in COMMANDS)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_flags_are_shown_by_their_names(cli, command):
    assert "bool" not in cli(*command, "--help").out


def test_version(cli):
    assert cli("--version").out == f"glasshead {gh.__version__}\n"


@pytest.mark.parametrize("command", ["recover", "plan"])
def test_options_offer_what_the_library_has(cli, command):
    offered = " ".join(cli(command, "--help").out.replace("\u2502", " ").split())
    assert all(name in offered for name in (*FAMILY_NAMES, *ANSWERS))


@pytest.mark.parametrize(
    ("complete", "begun", "offered"),
    [
        (options.one_of(FAMILY_NAMES), "att", ["attention"]),
        (options.one_of(new.MADE), "", ["attention", "multi-head", "transformer", "block"]),
        (options.models, "ta", ["target.safetensors"]),
        (options.models, "runs/", ["runs/first/"]),
        (options.models, "boxes", []),
        (options.models, "nowhere/", []),
    ],
)
def test_completion(folder, complete, begun, offered):
    Path("runs/first").mkdir(parents=True)
    assert complete(begun) == offered
