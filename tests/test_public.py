"""The public surface: every name of `__init__` exists, and what a reader sees is what is loaded."""

import ast
from pathlib import Path

import pytest

import glasshead as gh


def test_the_names_that_readers_see_are_the_ones_that_load():
    tree = ast.parse(Path(gh.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert {name: home or None for name, home in gh._HOME.items()} == seen


@pytest.mark.parametrize("name", dir(gh))
def test_every_name_loads(name):
    assert getattr(gh, name) is not None


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'glasshead' has no attribute 'nonsense'"):
        gh.nonsense  # noqa: B018
