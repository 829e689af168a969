"""A slice of `make fuzz`: requests that are nearly right, and files that nearly are models."""

import json
from pathlib import Path

import pytest

import glasshead as gh
from tests.serve import fuzz
from tests.serve.running import Running

RECORD = json.loads((Path(__file__).parents[2] / "bench" / "results" / "fuzz.json").read_text())


def test_200_requests(tmp_path):
    gh.save(gh.Attention.random(fuzz.DIM, seed=1), tmp_path / "head.safetensors")
    with Running(tmp_path / "head.safetensors", "--watch") as server:
        found = fuzz.send(server, 200, seed=3)
    assert found["wrong"] == []
    assert {200, 400, 404, 405} <= set(found["statuses"])


def test_300_files(tmp_path):
    found = fuzz.read(300, 3, tmp_path)
    assert found["wrong"] == []
    assert found["loaded"] > 0
    assert sum(found["refused"].values()) + found["loaded"] == 300


@pytest.mark.parametrize("part", ["files", "own", "schemathesis"])
def test_the_record_of_5000_of_each_has_nothing_wrong(part):
    assert RECORD[part]["wrong"] == []
    assert RECORD["files"]["files"] >= 5000
    assert RECORD["own"]["requests"] + RECORD["schemathesis"]["requests"] >= 5000
    assert RECORD["memory"]["after"] < 1.2 * RECORD["memory"]["before"]
