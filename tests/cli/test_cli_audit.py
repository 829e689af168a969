"""`glasshead audit` on the command line: what it prints, what it keeps, and what bad input gets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.boxes.served import Served

import glasshead as gh

QUICK = ("--budget", "1500", "--workers", "1")


@pytest.fixture
def target(folder):
    gh.save(gh.Attention.random(4, seed=1), folder / "target.safetensors")
    return "target.safetensors"


def test_the_table_the_recommendation_and_the_folder(cli, folder, target):
    done = cli("audit", target, *QUICK)
    assert done.code == 0
    assert "20 free parameters, 35 settings" in done.out
    assert "recovered to 14 digits" in done.out
    assert "it is no proof that nobody can" in " ".join(done.out.split())
    kept = json.loads((folder / "runs" / "audit-target-1" / "audit.json").read_text())
    assert kept["command"].startswith("glasshead")
    assert len(kept["settings"]) == 35


def test_json_is_all_that_is_printed_and_equals_the_file(cli, folder, target):
    done = cli("audit", target, *QUICK, "--run", "mine", "--json", "--price-per-query", "0.5")
    assert done.code == 0
    printed = json.loads(done.out)
    assert printed == json.loads((folder / "mine" / "audit.json").read_text())
    first = printed["settings"][0]
    assert first["cost"] == 0.5 * first["queries"]
    again = cli("audit", target, *QUICK, "--run", "mine", "--json", "--price-per-query", "0.5")
    assert json.loads(again.out)["settings"] == printed["settings"]


def test_an_endpoint_of_ones_own(cli, folder, target):
    np.save(folder / "honest.npy", np.random.default_rng(0).standard_normal((12, 3, 4)))
    with Served(folder / target) as server:
        done = cli(
            "audit", server.url, "--budget", "200", "--workers", "2", "--honest", "honest.npy", "--json", "--run", "web"
        )
        assert done.code == 0, done.err
        asked = server.stats()["answered"]
    found = json.loads(done.out)
    assert found["settings"][0]["error_W"] is None
    assert found["settings"][0]["function_error"] < 1e-9
    assert found["queries"] <= asked  # every process looks at the endpoint before it asks


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["nothing.safetensors"], "nothing.safetensors"),
        (["target.safetensors", "--threshold", "0"], "threshold"),
        (["target.safetensors", "--honest", "boxes.py"], "--honest"),
        (["target.safetensors", "--replicas", "2"], "--ray"),
        (["target.safetensors", "--run", "target.safetensors"], "is a file"),
        (["boxes:raises"], "--dim"),
    ],
)
def test_bad_input(cli, target, line, words):
    done = cli("audit", *line, "--workers", "1")
    assert done.code == 2
    assert words in done.err


def test_a_box_that_fails(cli):
    done = cli("audit", "boxes:raises", "--dim", "6", "--workers", "1")
    assert done.code == 6
    assert "out of cheese" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "words"), [("Ctrl-C", "interrupted"), ("lost", "a worker was lost")])
def test_stopped_on_the_way_it_says_how_to_go_on(folder, stop, words):
    gh.save(gh.Attention.random(16, seed=1), folder / "wide.safetensors")
    line = [sys.executable, "-m", "glasshead", "audit", "wide.safetensors", "--run", "mine", "--workers", "2"]
    started = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(line, cwd=folder, **started) as process:
        limit = time.monotonic() + 120
        while len(list((folder / "mine" / "settings").glob("*.json"))) < 4 and time.monotonic() < limit:
            time.sleep(0.02)
        if stop == "Ctrl-C":
            os.killpg(process.pid, signal.SIGINT)
        else:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(children[-1]), signal.SIGKILL)
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert words in said
    assert "--run mine goes on from here" in " ".join(said.split())
    assert "Traceback" not in said
