"""Runs on the command line: which targets there are, where results go, and how a stopped run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.boxes.local import head_file
from tests.boxes.served import Served

import glasshead as gh

TORCH = """
import time, torch
import glasshead as gh

torch.manual_seed(0)
layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).double().eval()
head = gh.Attention.random(6, seed=1)

def every_place(X):
    import numpy as np
    return np.stack([head(X[:, : n + 1]) for n in range(X.shape[1])], axis=1)

def first_place(X):
    return every_place(X[:, ::-1])[:, ::-1]

def slow(X):
    time.sleep(0.05)
    return head(X)

def few_digits(X):
    return head(X).astype("float32")

oracle = gh.ValueOracle(head, rtol=1e-12)
block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True).double().eval()
wide = gh.MultiHead.random(12, 3, rank=3, seed=1)
def behind(X):
    import numpy as np
    return np.tanh(head(X)) + X[:, -1].sum(axis=1) * 0.1
"""


@pytest.fixture(autouse=True)
def modules(folder):
    Path("mine.py").write_text(TORCH)
    yield
    sys.modules.pop("mine", None)


def test_a_torch_module(cli):
    result = cli("recover", "mine:layer", "--dim", "8", "--run", "found")
    assert result.code == 0
    assert "seen: " in result.err
    assert gh.load_recovery("found").heads == 2


def test_the_network_inside_a_block_as_well(cli):
    result = cli("recover", "mine:block", "--dim", "16", "--network", "--run", "found")
    assert result.code == 0
    block = gh.load_recovery("found").model
    assert block.network.width == 32
    assert block(np.ones((3, 16))).shape == (16,)


def test_position_vectors_at_so_many_places(cli):
    Path("placed.py").write_text(
        "import glasshead as gh, numpy as np\n"
        "head, table = gh.Attention.random(4, seed=1), np.random.default_rng(0).standard_normal((70, 4))\n"
        "def f(X): return head(X + 0.3 * table[: X.shape[1]])\n"
    )
    assert cli("recover", "placed:f", "--dim", "4", "--places", "66", "--run", "found").code == 0
    assert gh.load_recovery("found").model.positions.shape == (66, 4)
    refused = cli("recover", "placed:f", "--dim", "4", "--places", "8")
    assert refused.code == 2
    assert ">= 64" in refused.words
    sys.modules.pop("placed")


@pytest.mark.parametrize(("box", "place"), [("every_place", "-1"), ("first_place", "0")])
def test_the_place_of_a_box_that_answers_every_token(cli, box, place):
    assert cli("recover", f"mine:{box}", "--dim", "6", "--place", place, "--run", "found").code == 0
    assert gh.distance(gh.load_recovery("found").model, gh.load("target.safetensors")) < 1e-12


def test_dtype_is_sent_and_promised(cli):
    fields = cli("recover", "mine:few_digits", "--dim", "6", "--dtype", "float32", "--json").json
    assert 1e-12 < fields["bound"] < 1e-3


def test_an_oracle_made_in_python(cli):
    assert cli("recover", "mine:oracle", "--json").json["bound"] < 1e-9
    refused = cli("recover", "mine:oracle", "--rtol", "1e-3")
    assert refused.code == 2
    assert "this target says that itself" in refused.words


def test_a_norm_is_told(cli):
    Path("normed.py").write_text(
        "import glasshead as gh, numpy as np\n"
        "head, norm = gh.Attention.random(6, seed=1), gh.Norm('rms', 1e-5)\n"
        "def f(X): return np.tanh(head(norm(X))) + head(norm(X))\n"
    )
    fields = cli("recover", "normed:f", "--dim", "6", "--norm", "rms:1e-5", "--json").json
    assert fields["family"] == "any-network"
    assert cli("recover", "normed:f", "--dim", "6", "--norm", "none", "--json").code == 4
    sys.modules.pop("normed")


def test_an_onnx_file(cli):
    head_file("box.onnx", gh.load("target.safetensors"))
    assert cli("recover", "box.onnx", "--run", "found").code == 0
    assert gh.distance(gh.load_recovery("found").model, gh.load("target.safetensors")) < 1e-12
    assert cli("recover", "box.onnx", "--output", "hidden", "--json").json["family"] in ("attention", "multi-head")
    assert "expected output to name one of" in cli("recover", "box.onnx", "--output", "nothing").words


def test_a_served_model(cli):
    with Served(Path("target.safetensors").absolute()) as server:
        result = cli("recover", server.url, "--run", "found", "--price-per-query", "0.01")
        found = gh.load_recovery("found")
        assert result.code == 0
        assert found.queries == server.stats()["received"]
        assert f"{0.01 * found.queries:.2f} at 0.01 per query" in result.words
    assert gh.distance(found.model, gh.load("target.safetensors")) < 1e-12


def test_without_a_folder_a_new_one_is_named(cli):
    for k in (1, 2):
        result = cli("recover", "target.safetensors")
        assert f"saved runs/target-{k}" in result.words
        assert gh.load_recovery(f"runs/target-{k}").family == "attention"


def test_for_machines_nothing_is_saved_unless_told(cli):
    assert cli("recover", "target.safetensors", "--json").code == 0
    assert not Path("runs").exists()


def test_nothing_is_left_of_a_refusal_in_a_folder_that_nobody_named(cli):
    assert cli("recover", "boxes:positional", "--dim", "6").code == 4
    assert not Path("runs").exists()


def test_a_finished_run_is_used_again(cli):
    first = cli("recover", "target.safetensors", "--run", "found", "--json").json
    again = cli("recover", "target.safetensors", "--run", "found", "--json").json
    assert again == first | {"queries": first["queries"] + 1}


@pytest.mark.parametrize(
    ("changed", "words"),
    [(["--seed", "1"], "begun with --seed 0, this run has --seed 1"), (["--rank", "2"], "--rank")],
)
def test_a_run_with_other_options_is_refused(cli, changed, words):
    assert cli("recover", "target.safetensors", "--run", "found").code == 0
    before = gh.load_recovery("found").to_dict()
    refused = cli("recover", "target.safetensors", "--run", "found", *changed)
    assert refused.code == 2
    assert words in refused.words
    assert gh.load_recovery("found").to_dict() == before


def test_a_run_with_another_target_is_refused(cli):
    assert cli("recover", "boxes:one", "--run", "found").code == 0
    refused = cli("recover", "boxes:other", "--run", "found")
    assert refused.code == 2
    assert "does not answer as it did" in refused.words


def test_a_spent_budget_goes_on(cli):
    first = cli("recover", "boxes:wide", "--dim", "16", "--run", "found", "--budget", "200")
    assert first.code == 5
    assert "with a larger --budget and --run found goes on" in first.words
    assert cli("recover", "boxes:wide", "--dim", "16", "--run", "found", "--budget", "900").code == 0


def test_the_advice_of_a_budget_is_true_for_several_heads(cli):
    spent = cli("recover", "mine:wide", "--budget", "300", "--run", "found")
    assert spent.code == 5
    enough = spent.err.split("--budget ")[1].split()[0]
    assert "for 3 heads of dimension 12" in spent.words
    assert cli("recover", "mine:wide", "--budget", enough, "--run", "found").code == 0


def test_an_accuracy_without_a_guarantee_keeps_the_result(cli):
    result = cli("recover", "mine:wide", "--accuracy", "1e-6", "--run", "found")
    assert result.code == 3
    assert "What was found is kept in found" in result.words
    assert gh.distance(gh.load_recovery("found").model, gh.MultiHead.random(12, 3, rank=3, seed=1)) < 1e-6


def test_plan_auto_says_what_several_heads_cost(cli):
    shown = cli("plan", "--dim", "16", "--family", "auto", "--price-per-query", "2").words
    for heads, rank in ((2, 8), (4, 4), (8, 2), (12, 1)):
        queries = gh.plan(16, family="multi-head", heads=heads, rank=rank)
        assert f"{heads} heads of rank {rank} {queries:,} ({2 * queries:,.2f})" in shown
    assert cli("plan", "--dim", "16", "--family", "auto", "--json").json["queries"] == gh.plan(16, family="auto")


def test_ctrl_c_says_how_to_go_on(folder):
    command = [sys.executable, "-m", "glasshead", "recover", "mine:slow", "--dim", "6", "--run", "found"]
    running = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not (folder / "found" / "journal.sqlite-wal").exists():
        assert running.poll() is None
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert "--run found goes on from here" in " ".join(err.split())
    done = subprocess.run([*command, "--json"], cwd=folder, capture_output=True, text=True, timeout=60)
    found, whole = json.loads(done.stdout), gh.recover(gh.Attention.random(6, seed=1))
    assert {**found, "queries": 0} == {**whole.to_dict(), "queries": 0}
    assert np.array_equal(gh.load_recovery(folder / "found").model.W, whole.model.W)
