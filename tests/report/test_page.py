"""What goes into a page: matrices to float32, heads beside the true ones, words, and what a folder must have."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import glasshead as gh
from glasshead._cli.app import run
from glasshead._recovery import recovered
from glasshead._report.audited import audit_data
from glasshead._report.packing import largest_of_blocks, packed_matrix, unpacked_matrix
from glasshead._report.page import embedded, folder_data
from glasshead._report.pattern import attention_pattern, sample_sequences
from glasshead._report.recovered import headline, recovery_data
from glasshead._report.run import MOST_HISTORY, History, Run, shown_command

from . import samples

BAD_INPUT = 2


@pytest.mark.parametrize(("n", "m", "rank", "form"), [(5, 7, 5, "dense"), (200, 180, 9, "left"), (60, 50, 40, "dense")])
def test_a_packed_matrix_comes_back_to_float32(n, m, rank, form):
    factors = np.random.default_rng(0).standard_normal((n, rank)), np.random.default_rng(1).standard_normal((rank, m))
    matrix = factors[0] @ factors[1]
    pack = packed_matrix(matrix, 1e6, factors)
    assert form in pack
    assert (pack["block"], pack["shape"]) == (1, [n, m])
    assert np.abs(unpacked_matrix(pack) - matrix).max() <= 1e-6 * np.abs(matrix).max()


@pytest.mark.parametrize("most", [1e2, 1e4, 1e5])
def test_what_does_not_fit_is_thinned_to_its_largest_entries(most):
    matrix = np.random.default_rng(0).standard_normal((200, 150))
    matrix[199, 149] = -1e3
    pack = packed_matrix(matrix, most)
    assert len(pack["dense"]) <= most + 4
    assert np.array_equal(unpacked_matrix(pack), largest_of_blocks(matrix, pack["block"]).astype(np.float32))
    assert unpacked_matrix(pack)[-1, -1] == -1e3


MODELS = {
    "attention": gh.Attention.random(6, seed=1),
    "multi-head": gh.MultiHead.random(6, heads=2, seed=1),
    "transformer": gh.Transformer.random(6, width=4, seed=1),
    "front": gh.FrontHead(gh.Attention.random(6, seed=1).W, norm=gh.Norm("layer", 1e-5)),
    "block": gh.Block.random(6, heads=2, seed=1),
    "normed block": gh.Block(
        gh.Block.random(6, heads=2, seed=1).heads,
        residual_map="none",
        norms=[gh.Norm("rms", 1e-5)],
        slopes=[-0.5, -1.0],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_a_pattern_are_weights_of_tokens_so_far(name):
    model = MODELS[name]
    for X in sample_sequences(model).values():
        pattern = attention_pattern(model, X)
        assert np.allclose(pattern.sum(axis=2), 1)
        assert not np.triu(pattern, 1).any()
    if name == "attention":
        assert np.allclose(pattern[0, 4, :5], model.weights(X[None, :5])[0])


@pytest.mark.parametrize("name", MODELS)
def test_every_family_has_a_page(name, tmp_path):
    model = MODELS[name]
    ranks = 6 if len(model.heads) == 1 else (3, 3)
    found = recovered(model, ranks, queries=99, limit=42, residual=1e-9, reason="made for a test")
    page = gh.report(found, tmp_path / "page.html", truth=model)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())[1])
    assert (data["distance"], data["headline"]["big"]) == (0.0, "16 digits")
    assert len(data["heads"]) == len(model.heads)
    assert "v" in data["heads"][0] or name in ("transformer", "front")


def test_heads_are_shown_beside_their_own_truth():
    truth = gh.MultiHead.random(5, heads=3, seed=2)
    found = recovered(gh.MultiHead(truth.heads[::-1]), (5, 5, 5), queries=9, limit=5, reason="turned around")
    data = recovery_data(found, None, truth)
    assert [head["error"] for head in data["heads"]] == [0.0, 0.0, 0.0]
    other = recovery_data(found, None, gh.MultiHead.random(5, heads=2, seed=2))
    assert other["distance"] is None
    assert "difference" not in other["heads"][0]


def test_twelve_heads_of_384_fit(tmp_path):
    folder = samples.twelve_heads(tmp_path)
    truth = gh.load(folder / "truth.safetensors")
    page = gh.report(folder, truth=truth)
    assert page.stat().st_size <= 3_000_000
    head = folder_data(folder, truth)["heads"][3]
    assert (head["W"]["block"], head["W"]["rank"]) == (1, 32)
    W, off = gh.load_recovery(folder).model.heads[3].W, np.abs(unpacked_matrix(head["difference"])).max()
    assert np.abs(unpacked_matrix(head["W"]) - W).max() <= 1e-6 * np.abs(W).max()
    assert off == pytest.approx(head["largest_error"], rel=1e-6)
    assert head["true"] == {"like": "W"}
    far = gh.MultiHead([gh.Attention(one.W * 1.01, one.v) for one in truth.heads])
    assert "true" not in folder_data(folder, far)["heads"][3]


@pytest.mark.parametrize(
    ("distance", "bound", "residual", "big", "words"),
    [
        (3e-15, 1e-9, 1e-12, "14 digits", "distance to the true parameters"),
        (0.0, None, None, "16 digits", "distance to the true parameters"),
        (0.04, None, None, "1 digit", "distance"),
        (0.34, 1e-9, None, "34%", "distance"),
        (None, 2e-9, 1e-12, "9 digits", "certified bound"),
        (None, None, 5e-7, "6 digits", "fresh sequences"),
        (None, None, None, "unchecked", "no reason"),
    ],
)
def test_the_headline_is_the_best_evidence_there_is(distance, bound, residual, big, words):
    found = recovered(gh.Attention.random(3), 3, queries=9, limit=5, bound=bound, residual=residual, reason="no reason")
    said = headline(found, distance, 2.0)
    assert said["big"] == big
    assert words in said["words"]


def test_the_policy_names_what_is_inside_and_nothing_else(tmp_path):
    text = gh.report(samples.audit_folder(tmp_path)).read_text()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert re.fullmatch(r"default-src 'none'; img-src data:; style-src 'sha256-\S+'; script-src 'sha256-\S+'", policy)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_data_cannot_end_its_element():
    assert "<" not in embedded({"a": samples.HOSTILE, "b": float("inf"), "c": (1, 2)})
    assert json.loads(embedded({"a": samples.HOSTILE, "b": float("nan")})) == {"a": samples.HOSTILE, "b": None}


def test_a_history_is_thinned_but_keeps_what_began():
    told = []
    history = History(lambda *said: told.append(said))
    for k in range(5000):
        history(k, 5000, f"stage {k // 1250}")
    assert len(history.points) <= MOST_HISTORY + 1
    assert len(told) == 5000
    begun = {what: min(done for _, done, which in history.points if which == what) for _, _, what in history.points}
    assert begun == {f"stage {k}": 1250 * k for k in range(4)}
    assert [p[1] for p in history.points] == sorted(p[1] for p in history.points)


def test_the_command_is_shown_without_passwords():
    shown = shown_command(["recover", "http://me:secret@127.0.0.1:8000/v2/models/a b", "--seed", "1"])
    assert shown == "glasshead recover 'http://127.0.0.1:8000/v2/models/a b' --seed 1"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    gh.save(gh.Attention.random(4, seed=1), folder / "target.safetensors")
    assert run(["recover", str(folder / "target.safetensors"), "--run", str(folder / "run"), "--json"]) == 0
    return folder


@pytest.fixture
def saved(made, tmp_path):
    """A run of its own for each test, with the target beside it."""
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made" / "run"


def test_a_run_leaves_a_report(saved):
    data, run_of = folder_data(saved), Run.load(saved)
    assert (saved / "report.html").stat().st_size > 1e4
    assert data["run"]["command"].startswith("glasshead recover ")
    assert 0 <= data["distance"] < 1e-13
    assert data["run"]["history"][-1][1] <= data["recovery"]["queries"]
    assert len(data["recovery"]["checked"]["predicted"]) == 46
    assert run_of is not None
    assert run_of.seconds is not None


def test_a_truth_that_has_changed_is_no_truth(saved):
    gh.save(gh.Attention.random(4, seed=2), saved.parent / "target.safetensors")
    data = folder_data(saved)
    assert data["distance"] is None
    assert "certified" in data["headline"]["what"]


def test_nothing_of_this_machine_is_in_the_page(saved):
    assert "target.safetensors" in (saved / "report.html").read_text()
    assert run_of_page(saved).keys() == {"command", "target", "answers", "seconds", "history"}


def run_of_page(folder):
    return folder_data(folder)["run"]


def spoiled(folder, name):
    """A folder that lacks something, and words of what is said about it."""
    if name == "empty":
        for file in folder.iterdir():
            file.unlink()
        return "expected recovery.json, written by glasshead recover --run"
    if name == "unfinished":
        (folder / "recovery.json").unlink()
        return "no recovery.json. To make it from the answers that were kept: glasshead recover /"
    if name == "damaged":
        (folder / "recovery.json").write_text('{"model": ')
        return "is not a recovery written by found.save"
    if name == "no model":
        (folder / "model.safetensors").unlink()
        return "no such model file"
    if name == "damaged run":
        (folder / "run.json").write_text(json.dumps(samples.run_fields(history=[1, 2])))
        return "is damaged: history; remove it to have a report without it"
    if name == "other run":
        (folder / "run.json").write_text(json.dumps(samples.run_fields(format="glasshead run 0")))
        return "is not of this version"
    if name == "damaged audit":
        (folder / "audit.json").write_text("[]")
        return "expected an audit written by glasshead audit, got a list"
    if name == "older audit":
        samples.audit_folder(folder, format="glasshead audit 0")
        return "expected the format 'glasshead audit 1', got 'glasshead audit 0'; audit again"
    if name == "audit without settings":
        fields = {key: value for key, value in samples.audit().items() if key != "settings"}
        (folder / "audit.json").write_text(json.dumps(fields))
        return "is damaged: it lacks settings"
    if name == "audit with words for numbers":
        samples.audit_folder(folder, settings=[samples.setting("x", "y", None, 0.0, 1) | {"queries": "many"}])
        return "queries is of type str"
    assert name == "unfinished audit"
    for file in folder.iterdir():
        file.unlink()
    (folder / "settings").mkdir()
    for file in ("begun.json", "settings/00-as-it-is.json"):
        (folder / file).write_text("{}")
    return "there is no audit.json, but 1 finished settings. The same glasshead audit command with --run"


FOLDERS = (
    "empty",
    "unfinished",
    "damaged",
    "no model",
    "damaged run",
    "other run",
    "damaged audit",
    "older audit",
    "audit without settings",
    "audit with words for numbers",
    "unfinished audit",
)


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_that_lack_something(name, saved, capsys):
    words = spoiled(saved, name)
    capsys.readouterr()
    assert run(["report", str(saved), "--json"]) == BAD_INPUT
    assert words in json.loads(capsys.readouterr().out)["message"]
    assert run(["report", str(saved)]) == BAD_INPUT
    assert "Traceback" not in capsys.readouterr().err


def test_older_recoveries_have_a_page_without_pairs(saved):
    fields = json.loads((saved / "recovery.json").read_text())
    for name in ("predicted", "answered"):
        del fields["checked"][name]
    (saved / "recovery.json").write_text(json.dumps(fields))
    (saved / "run.json").unlink()
    assert gh.load_recovery(saved).checked == replace(gh.load_recovery(saved).checked, predicted=(), answered=())
    assert gh.report(saved).is_file()


@pytest.mark.parametrize(
    "checked", [{"predicted": [1.0]}, {"predicted": 3, "answered": 3}, {"answered": ["x"]}, {"x": 1}]
)
def test_pairs_that_are_none_are_refused(saved, checked):
    fields = json.loads((saved / "recovery.json").read_text())
    fields["checked"] = {"sequences": 3, "within": 0.1} | checked
    (saved / "recovery.json").write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="expected checked to be"):
        gh.load_recovery(saved)


def test_infinite_numbers_of_an_audit_are_not_known(tmp_path):
    folder = samples.audit_folder(tmp_path, price_per_query=float("inf"))
    assert audit_data(folder)["audit"]["price_per_query"] is None


def test_the_page_goes_where_it_is_told(saved, tmp_path, capsys):
    capsys.readouterr()
    assert run(["report", str(saved), "-o", str(tmp_path / "here.html"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"report": str(tmp_path / "here.html"), "bytes": (tmp_path / "here.html").stat().st_size}
    with pytest.raises(FileNotFoundError, match="expected an existing folder"):
        gh.report(saved, tmp_path / "nowhere" / "page.html")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        gh.report(tmp_path / "nowhere")


def test_the_page_is_opened(saved, tmp_path):
    """By whatever the environment names as the browser."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path / "opened"}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "glasshead", "report", str(saved), "--open"]
    done = subprocess.run(command, env=os.environ | {"BROWSER": f"{browser} %s"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opened").read_text().strip() == (saved / "report.html").resolve().as_uri()
