"""The record of what was asked of servers of others, and of what clients of others asked of `glasshead serve`: about
the versions that are named, with nothing missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

import glasshead as gh

from . import clients, executors, load_generator
from .__main__ import CLIENTS, RECORD, SERVERS, broken
from .environments import EXECUTORS, PACKAGES
from .head import Head
from .inference import MOST, heads

RECORDED = json.loads(RECORD.read_text())
ROWS, ASKED, DID = RECORDED["rows"], RECORDED[CLIENTS]["rows"], RECORDED[CLIENTS]["did"]
ON = RECORDED["executors"]


def test_every_server_was_asked_in_the_version_that_is_named():
    assert {row["server"] for row in ROWS} == set(SERVERS)
    assert {row["version"] for row in ROWS} == {package.partition("==")[2] for package in PACKAGES.values()}


def test_everything_is_as_asked():
    assert broken(ROWS) == []
    assert [row["refusal"] for row in ROWS if "not run" in (row["refusal"] or "")] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['server']}: {row['box']}, {row['asked']}")
def test_a_row_has_an_answer_or_a_reason(row):
    assert (row["found"] is None) == (row["error"] is None) == (row["refusal"] is not None)


@pytest.mark.parametrize("name", heads())
def test_heads_are_served_as_they_are(name, tmp_path):
    """What runs inside the servers computes what the file says."""
    truth, X = heads()[name][1], np.random.default_rng(0).standard_normal((3, 5, 64))
    gh.save(truth, tmp_path / f"{name}.safetensors")
    served = Head(str(tmp_path / f"{name}.safetensors"))
    assert np.abs(served(X) - truth(X)).max() < MOST[served.datatype]
    assert served.outputs[0]["shape"] == [-1, *truth.v.shape[1:]]


def test_every_client_asked_every_box_in_the_version_that_is_named():
    asked = {(row["client"], row["version"], row["box"]) for row in ASKED}
    words = [words for words, _, _ in clients.boxes().values()]
    everyone = {(name, clients.version_of(where), box) for name, (where, _) in clients.SCRIPTS.items() for box in words}
    load = load_generator.CLIENT, clients.version_of(load_generator.CLIENT), words[0]
    assert asked == everyone | {load}


def test_clients_got_the_answers_of_the_model():
    """Bit for bit, in every format that a client has; a load in JSON, which the client rounds, is not compared."""
    assert clients.broken(ASKED) == []
    ways = {row["client"]: {other["asked"] for other in ASKED if other["client"] == row["client"]} for row in ASKED}
    both = {"FP64, JSON", "FP32, JSON"}
    assert ways["open-inference-openapi"] == both
    assert ways["tritonclient"] == ways["KServe's REST client"] == both | {"FP64, binary", "FP32, binary"}
    assert [row["asked"].rpartition(" ")[2] for row in ASKED if row["most"] is None] == ["JSON"]
    assert "match" in DID[load_generator.CLIENT]["a wrong answer"]


@pytest.mark.parametrize("client", clients.SCRIPTS)
def test_clients_are_told_what_is_wrong(client):
    for what, status in (("an unknown model", 404), ("vectors of half the length", 400), ("without a token", 401)):
        got, words = DID[client][what]
        assert (got, "expected" in str(words)) == (status, True)


def test_recoveries_on_executors_are_those_of_one_process():
    assert {row["executor"]: row["packages"] for row in ON} == EXECUTORS
    assert executors.broken(ON) == []
    for row in ON:
        assert (row["found"], row["queries"]) == ("attention", row["alone"])
        assert "the box raised KeyError: 'no such table'" in row["a box that raises"]
        assert len(executors.broken([row | {"same": False}, row | {"refusal": "not run"}])) == 2


def test_what_a_client_was_not_given_is_broken():
    [right, *_] = [row for row in ASKED if row["most"] is not None]
    for wrong in ({"error": 1e-15}, {"error": None, "refusal": "not run"}):
        assert len(clients.broken([right, {**right, **wrong}])) == 1
