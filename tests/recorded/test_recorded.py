"""The recorded runs: every box has its line in the record, a run comes out as before, and a change is noticed."""

from __future__ import annotations

import json

import pytest

from .__main__ import RECORD, compare, differences, numbered, written
from .boxes import cases

NAMES = [f"{group}: {case.name}" for group, case in cases()]
OLD = {"asked": 1000, "family": "attention", "heads": 1, "rank": 3, "off": 1e-9, "heard": "a", "tensors": "b"}


def test_the_record_has_every_box():
    assert len(NAMES) == len(set(NAMES)) > 300
    assert sorted(json.loads(RECORD.read_text())) == sorted(NAMES)


@pytest.mark.parametrize("index", range(0, len(NAMES), len(NAMES) // 8))
def test_a_run_comes_out_as_recorded(index):
    """Within the limits of a unification: on another machine sums are rounded in another order."""
    name, run = numbered(index)
    assert name == NAMES[index]
    assert differences(json.loads(RECORD.read_text())[name], json.loads(written({name: run}))[name]) == []


def test_the_same_run_asks_the_same():
    one, other = ({k: v for k, v in numbered(0)[1].items() if k != "seconds"} for _ in range(2))
    assert one == other


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rank": 2}, ["rank 3 -> 2"]),
        ({"family": "multi-head", "heads": 2}, ["family attention -> multi-head", "heads 1 -> 2"]),
        ({"error": "NotConverged"}, ["error None -> NotConverged"]),
        ({"asked": 1021}, ["queries 1000 -> 1021"]),
        ({"asked": 1020}, []),
        ({"off": 2.1e-9}, ["off 1e-09 -> 2.1e-09"]),
        ({"off": 1.9e-9, "heard": "c", "tensors": "d"}, []),
    ],
)
def test_what_may_not_change_is_listed(change, said, capsys):
    new = OLD | change
    assert differences(OLD, new) == said
    assert compare({"a box": OLD}, {"a box": new}) == (not said)
    assert ("a box" in capsys.readouterr().out) == bool(said)


def test_a_record_is_what_was_run_less_what_is_not_judged():
    runs = {"b": OLD | {"seconds": 1.5}, "a": OLD | {"reason": "because"}}
    assert json.loads(written(runs)) == {"a": OLD, "b": OLD}
    assert len(written(runs).splitlines()) == 4
