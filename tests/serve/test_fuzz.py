"""A slice of `make fuzz`: requests that are nearly right, and files that nearly are models."""

import json
from pathlib import Path

import pytest

import glasshead as gh
from tests.serve import fuzz
from tests.serve.running import Running
from tests.serve.specification import mended

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


def test_the_official_page_is_mended():
    """Of the same form as that of the protocol: a `$` in its paths, and always a version."""
    named = [{"name": name, "in": "path", "required": True, "schema": {}} for name in ("MODEL_NAME", "MODEL_VERSION")]
    body = {"content": {"application/json": {"schema": {}}}}
    infer = {"parameters": named, "post": {"operationId": "ask", "requestBody": body}}
    page = {"paths": {"/v2/": {"get": {}}, "/v2/models/${MODEL_NAME}/versions/${MODEL_VERSION}/infer": infer}}
    found = mended(page, "head", "1", {"inputs": []})["paths"]
    with_version, without = "/v2/models/{MODEL_NAME}/versions/{MODEL_VERSION}/infer", "/v2/models/{MODEL_NAME}/infer"
    assert list(found) == ["/v2/", with_version, without]
    allowed = [[one["schema"]["enum"] for one in found[path]["parameters"]] for path in (with_version, without)]
    assert allowed == [[["head"], ["1"]], [["head"]]]
    assert found[without]["post"]["requestBody"]["content"]["application/json"]["example"] == {"inputs": []}
    assert [found[path]["post"]["operationId"] for path in (with_version, without)] == ["ask", "ask-any-version"]
    assert "$" in list(page["paths"])[1]


@pytest.mark.parametrize("part", ["files", "own", "schemathesis", "official"])
def test_the_record_of_5000_of_each_has_nothing_wrong(part):
    assert RECORD[part]["wrong"] == []
    assert RECORD["files"]["files"] >= 5000
    assert sum(RECORD[kind]["requests"] for kind in ("own", "schemathesis", "official")) >= 5000
    assert min(RECORD[kind]["requests"] for kind in ("own", "schemathesis", "official")) >= 1000
    assert RECORD["own"]["binary"] >= 500
    assert RECORD["official"]["statuses"]["200"] > 0
    assert RECORD["memory"]["after"] < 1.2 * RECORD["memory"]["before"]
