"""The folder of an audit: nothing finished is tried again, and what does not belong there is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import glasshead as gh
from glasshead._audit import Finding

HEAD = gh.Attention.random(5, seed=1)
OWN = {f"{k} decimals": partial(gh.defences.rounded, decimals=k) for k in (4, 3, 2)}


def test_the_same_call_goes_on_with_what_is_missing(tmp_path):
    first = gh.audit(HEAD, defences=OWN, budget=2000, folder=tmp_path / "run")
    (missing,) = (tmp_path / "run" / "settings").glob("02-*.json")
    missing.unlink()
    tried: list[tuple[int, int, str]] = []
    again = gh.audit(
        HEAD, defences=OWN, budget=2000, folder=tmp_path / "run", progress=lambda *done: tried.append(done)
    )
    assert tried == [(4, 4, "3 decimals")]
    for one, other in zip(first.findings, again.findings, strict=True):
        assert one.name == other.name
        assert one.error_W == other.error_W
    assert json.loads((tmp_path / "run" / "audit.json").read_text())["format"] == "glasshead audit 1"


@pytest.mark.parametrize(
    ("change", "match"),
    [({"budget": 3000}, "budget=2000"), ({"threshold": 0.2}, "threshold=0.1"), ({"seed": 1}, "seed=0")],
)
def test_another_audit_in_the_same_folder_is_refused(tmp_path, change, match):
    gh.audit(HEAD, defences={}, budget=2000, folder=tmp_path)
    with pytest.raises(ValueError, match=match):
        gh.audit(HEAD, **{"defences": {}, "budget": 2000, "folder": tmp_path, **change})


def test_another_target_in_the_same_folder_is_refused(tmp_path):
    gh.audit(HEAD, defences={}, budget=2000, folder=tmp_path)
    with pytest.raises(ValueError, match="another target"):
        gh.audit(gh.Attention.random(5, seed=2), defences={}, budget=2000, folder=tmp_path)


def test_another_defence_under_the_same_name_is_refused(tmp_path):
    gh.audit(HEAD, defences={"mine": lambda f: gh.defences.rounded(f, 6)}, budget=2000, folder=tmp_path)
    with pytest.raises(ValueError, match="another defence"):
        gh.audit(HEAD, defences={"mine": lambda f: gh.defences.rounded(f, 0)}, budget=2000, folder=tmp_path)


def test_another_promise_in_the_same_folder_is_refused(tmp_path):
    gh.audit(gh.ValueOracle(HEAD), defences={}, budget=2000, folder=tmp_path)
    with pytest.raises(ValueError, match="max_norm=None"):
        gh.audit(gh.ValueOracle(HEAD, max_norm=1e3), defences={}, budget=2000, folder=tmp_path)


def test_folders_of_other_things_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match=r"thesis|other files"):
        gh.audit(HEAD, defences={}, budget=2000, folder=tmp_path)
    with pytest.raises(NotADirectoryError, match="a file"):
        gh.audit(HEAD, defences={}, budget=2000, folder=tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["", "[1", '{"name": "3 decimals"}', "[]", "\x00"])
def test_a_damaged_finding_is_named(tmp_path, content):
    gh.audit(HEAD, defences=OWN, budget=2000, folder=tmp_path)
    (damaged,) = (tmp_path / "settings").glob("02-*.json")
    damaged.write_text(content)
    with pytest.raises(ValueError, match="remove it to try"):
        gh.audit(HEAD, defences=OWN, budget=2000, folder=tmp_path)


def test_answers_of_a_box_that_is_not_ours_are_kept_in_journals(tmp_path):
    calls = []

    def box(X):
        calls.append(len(X))
        return HEAD(X)

    found = gh.audit(gh.ValueOracle(box, HEAD.dim), defences={}, budget=2000, folder=tmp_path)
    assert sum(calls) == found.queries
    assert (tmp_path / "settings" / "00-as-it-is" / "attempt-1.sqlite").is_file()
    (tmp_path / "settings" / "00-as-it-is.json").unlink()
    calls.clear()
    gh.audit(gh.ValueOracle(box, HEAD.dim), defences={}, budget=2000, folder=tmp_path)
    assert sum(calls) < found.queries / 2


@pytest.mark.slow
def test_killed_and_resumed_nothing_finished_is_repeated(tmp_path):
    gh.save(gh.Attention.random(8, seed=1), tmp_path / "target.safetensors")
    line = [
        sys.executable,
        "-m",
        "glasshead",
        "audit",
        "target.safetensors",
        "--run",
        "run",
        "--budget",
        "5000",
        "--json",
    ]
    settings = tmp_path / "run" / "settings"
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        limit = time.monotonic() + 120
        while len(list(settings.glob("*.json"))) < 6 and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    before = written(settings)
    assert 6 <= len(before) < 35
    assert not (tmp_path / "run" / "audit.json").exists()
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    assert len(found["settings"]) == 35
    assert found["command"] == "glasshead audit target.safetensors --run run --budget 5000 --json"
    after = written(settings)
    assert {name: after[name] for name in before} == before


def written(settings: Path) -> dict[str, tuple[int, str]]:
    """What each finding says, and when it was written."""
    return {path.name: (path.stat().st_mtime_ns, path.read_text()) for path in settings.glob("*.json")}


def test_findings_come_back_from_their_files_as_they_were(tmp_path):
    first = gh.audit(HEAD, defences=OWN, budget=2000, folder=tmp_path)
    again = gh.audit(HEAD, defences=OWN, budget=2000, folder=tmp_path)
    assert first.findings == again.findings
    assert all(isinstance(finding, Finding) for finding in again.findings)
