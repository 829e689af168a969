"""Constants that are owned say why, and docs/constants.md shows what each of them does."""

from __future__ import annotations

import pytest
from bench import constants
from bench.stored import load

MODULES = [module for modules, _ in constants.PARTS.values() for module in modules]
OWNED = "_relu.tolerances", "_learners.heads.together.tolerances"


@pytest.mark.parametrize("module", MODULES)
def test_every_constant_says_what_it_is(module):
    assert [constant.name for constant in constants.constants(module) if len(constant.why) < 15] == []


@pytest.mark.parametrize("module", OWNED)
def test_the_experiment_is_about_the_constants_as_they_are(module):
    measured = {row["name"]: row["value"] for row in load("constants")["rows"]}
    for constant in constants.constants(module):
        assert measured.get(constant.name) == constant.value, f"{constant.name}: run `make bench` for constants"


def test_a_constant_is_changed_wherever_it_is_used():
    from glasshead._relu import attempt, tolerances

    (goal,) = (constant for constant in constants.constants("_relu.tolerances") if constant.name == "GOAL")
    with constants.changed(goal, goal.times(10.0)):
        assert attempt.GOAL == tolerances.GOAL == 10 * goal.value
    assert attempt.GOAL == tolerances.GOAL == goal.value


def test_a_wrong_result_that_passes_is_not_hidden():
    good, bad = {"queries": 10, "error": 1e-12}, {"queries": 30, "error": 1e-3}
    seen = constants.compared([good, good, good], [good, bad, {"queries": 5, "refused": "NotConverged"}])
    assert seen == {"changed": 2, "lost": 1, "gained": 0, "wrong": 1, "queries": 3.0, "error": 1e9}
    still = constants.compared([good], [good])
    row = {"name": "GOAL", "boxes": 3, "tenth": seen, "tenfold": still}
    assert list(constants.broken({"rows": [row]})) == ["constants, GOAL tenth: 1 of 3 results are wrong"]
