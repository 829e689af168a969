"""Constants that are owned say why, and docs/constants.md shows what each of them does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import constants
from bench.stored import load
from bench.tree import SOURCE

MODULES = [module for modules, _ in constants.PARTS.values() for module in modules]
OWNED = "_relu.homogeneous", "_learners.heads.together.pairs"


@pytest.mark.parametrize("module", MODULES)
def test_every_constant_says_what_it_is(module):
    assert [constant.name for constant in constants.constants(module) if len(constant.why) < 15] == []


@pytest.mark.parametrize("module", OWNED)
def test_the_experiment_is_about_the_constants_as_they_are(module):
    measured = {row["name"]: row["value"] for row in load("constants")["rows"]}
    for constant in constants.constants(module):
        assert measured.get(constant.name) == constant.value, f"{constant.name}: run `make bench` for constants"


def test_a_constant_is_changed_wherever_it_is_used():
    from glasshead._relu import attempt, homogeneous

    (goal,) = (constant for constant in constants.constants("_relu.homogeneous") if constant.name == "GOAL")
    with constants.changed(goal, goal.times(10.0)):
        assert attempt.GOAL == homogeneous.GOAL == 10 * goal.value
    assert attempt.GOAL == homogeneous.GOAL == goal.value


def test_a_wrong_result_that_passes_is_not_hidden():
    good, bad = {"queries": 10, "error": 1e-12}, {"queries": 30, "error": 1e-3}
    seen = constants.compared([good, good, good], [good, bad, {"queries": 5, "refused": "NotConverged"}])
    assert seen == {"changed": 2, "lost": 1, "gained": 0, "wrong": 1, "queries": 3.0, "error": 1e9}
    still = constants.compared([good], [good])
    row = {"name": "GOAL", "boxes": 3, "tenth": seen, "tenfold": still}
    assert list(constants.broken({"rows": [row]})) == ["constants, GOAL tenth: 1 of 3 results are wrong"]


SMALL = 0.05  # a decimal below this at the top of a module or a class is a threshold or a step, and says why
NAMELESS = 0.01  # and one below this stands nowhere else
ENDS = {("_learners/frames.py", 1e-9)}  # a bracket begins there, and whatever lies within is found
FILES = sorted(SOURCE.rglob("*.py"))


def decimals(node: ast.AST, below: float) -> list[float]:
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return [x for x in numbers if isinstance(x, float) and 0 < abs(x) < below]


def owned(body: list[ast.stmt]) -> Iterator[ast.Assign | ast.AnnAssign]:
    """What is given a name at the top of a module or of a class."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from owned(statement.body)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            yield statement


def no_defaults(tree: ast.Module) -> ast.Module:
    """Without the defaults of arguments, which have names, and docstrings that say what they are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.defaults, node.kw_defaults = [], []
    return tree


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_every_small_number_has_a_name_and_a_reason(file: Path):
    lines = file.read_text().splitlines()
    tree = no_defaults(ast.parse("\n".join(lines)))
    constants_here = list(owned(tree.body))
    silent = [
        lines[one.lineno - 1]
        for one in constants_here
        if decimals(one, SMALL)
        and max(len(constants.comment(lines, at - 1)) for at in (one.lineno, one.end_lineno or 0)) < 15
    ]
    assert silent == [], "a constant says why it is what it is, in a comment beside or above it"
    inside = decimals(tree, NAMELESS)
    for number in (x for one in constants_here for x in decimals(one, NAMELESS)):
        inside.remove(number)
    home = file.relative_to(SOURCE).as_posix()
    assert [x for x in inside if (home, x) not in ENDS] == [], "a number has a name and a reason"
