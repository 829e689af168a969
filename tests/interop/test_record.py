"""The record of what was asked of servers of others: about the versions that are named, with nothing missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

import glasshead as gh

from .__main__ import RECORD, SERVERS, broken
from .environments import PACKAGES
from .head import Head
from .inference import MOST, heads

ROWS = json.loads(RECORD.read_text())["rows"]


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
