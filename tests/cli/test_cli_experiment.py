import json
import xml.etree.ElementTree as ET

import pytest

from glasshead._cli import phase
from glasshead._cli.app import run

SMALL = ["experiment", "phase", "--dim", "8", "--rank", "1", "--trials", "2"]


@pytest.fixture
def few_ratios(monkeypatch):
    monkeypatch.setattr(phase, "RATIOS", (1.0, 4.0))


def test_phase_draws_and_resumes(tmp_path, few_ratios, capsys, monkeypatch):
    assert run([*SMALL, "--folder", str(tmp_path)]) == 0
    assert str(tmp_path / "phase.svg") in capsys.readouterr().out
    cells = json.loads((tmp_path / "phase.json").read_text())["cells"]
    assert cells["adaptive 1"] == 1.0
    assert cells["nuclear norm 1"] == 0.0
    assert cells["nuclear norm 4"] == cells["fixed rank 4"] == 1.0
    figure = ET.fromstring((tmp_path / "phase.svg").read_text())
    assert len(figure.findall(".//{*}polyline")) == 3
    monkeypatch.setattr(phase, "succeeds", None)  # everything is there already: nothing is run again
    assert run([*SMALL, "--folder", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == cells


def test_phase_refuses_to_mix(tmp_path, few_ratios, capsys):
    (tmp_path / "phase.json").write_text(json.dumps({"dim": 9, "rank": 1, "trials": 2, "cells": {}}))
    assert run([*SMALL, "--folder", str(tmp_path)]) == 2
    assert "choose another folder" in capsys.readouterr().err
    assert run(["experiment", "phase", "--dim", "4", "--rank", "5"]) == 2


def test_phase_on_a_cluster_is_the_same(tmp_path, few_ratios, capsys):
    one = ["experiment", "phase", "--dim", "6", "--rank", "1", "--trials", "1", "--json", "--folder"]
    assert run([*one, str(tmp_path / "here")]) == 0
    assert run([*one, str(tmp_path / "there"), "--ray", "local", "--replicas", "2"]) == 0
    here, there = capsys.readouterr().out.splitlines()
    assert here == there
    for name in ("phase.json", "phase.svg"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert run([*one, str(tmp_path / "here"), "--replicas", "2"]) == 2
    assert "expected --ray ADDRESS with --replicas N" in capsys.readouterr().out
