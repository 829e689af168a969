"""Every entry of the map of the paper exists: the function can be called, the test can be found."""

import ast
import importlib
from pathlib import Path

import pytest

import glasshead as gh

ROOT = Path(__file__).parent.parent
NAMES = (
    "Theorem 4.1|Section 4.1|Theorem 5.1|Theorem 6.1|Proposition 7.1|Lemma A.1|Theorem A.2|Theorem B.1|Proposition C.2"
)


def test_every_result_has_a_row():
    assert set(NAMES.split("|")) <= {result["name"] for result in gh.paper.results()}


@pytest.mark.parametrize("result", gh.paper.results(), ids=lambda result: result["name"])
def test_entries_exist(result):
    assert bool(result["function"]) == bool(result["test"])
    if result["function"]:
        module, name = result["function"].rsplit(".", 1)
        assert callable(getattr(importlib.import_module(module), name))
        path, test = result["test"].split("::")
        tree = ast.parse((ROOT / path).read_text())
        assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
