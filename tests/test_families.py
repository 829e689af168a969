"""One declaration per family: what it names exists, and everything that reads it agrees."""

import ast
from pathlib import Path

import numpy as np
import pytest

import glasshead as gh
from glasshead._families import ANSWERS, FAMILIES, FAMILY_NAMES, KINDS, resolve
from glasshead._plan import Sizes, planned
from glasshead._recognise import guess, rules

SOURCE = Path(gh.__file__).parent

DECLARED = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
SIZES = {"heads": 2, "width": 3}


@DECLARED
def test_every_name_can_be_imported(family):
    named = [name for method in family.methods.values() for name in vars(method).values() if name is not None]
    assert all(callable(resolve(name)) for name in [*named, family.plan, family.inside or family.plan])
    assert {family.made_as or family.name, family.several or family.name} <= set(FAMILIES)
    assert resolve(f"_models:{family.model}").family == family.name
    assert set(family.recognised) <= set(family.methods) <= set(KINDS)


@DECLARED
def test_it_is_planned_and_made_with_the_sizes_it_names(family):
    sizes = {name: SIZES[name] for name in family.sizes}
    for answers in set(ANSWERS) & set(family.methods):
        queries, parameters = planned(Sizes(4, answers=answers, **sizes), family.name)
        assert gh.plan(4, family=family.name, answers=answers, **sizes) == queries > parameters > 0
    made = getattr(resolve(f"_models:{family.model}"), "random", None)
    assert (made is not None) == family.made
    if made:
        assert np.shape(made(4, **sizes)(np.zeros((1, 2, 4))))[0] == 1


@DECLARED
def test_what_it_cannot_be_learned_from_is_refused_alike(family):
    for answers in set(ANSWERS) - set(family.methods):
        with pytest.raises(ValueError, match=f"expected value answers for family '{family.name}'"):
            gh.plan(4, family=family.name, answers=answers, **{name: SIZES[name] for name in family.sizes})
        with pytest.raises(ValueError, match=f"expected value answers for family '{family.name}'"):
            gh.recover(gh.SignOracle(gh.Attention.random(4)), family=family.name)


def test_auto_can_be_planned():
    assert FAMILY_NAMES[0] == "auto"
    assert gh.plan(8, family="auto") >= gh.plan(8)


def test_what_recognition_names_is_declared_as_recognised():
    """Every guess, and every failure after which there is a rule."""
    guesses = [value for module in (guess, rules) for value in vars(module).values() if isinstance(value, guess.Guess)]
    named = {family for each in guesses for family in each.families} | {rule.family for rule in rules.RULES}
    assert named <= {name for name, family in FAMILIES.items() if family.recognised}


def test_no_name_of_a_family_is_compared():
    """What is done differently for one family is a field of its declaration; how it is learned is its learners' own."""
    for path in set(SOURCE.rglob("*.py")) - set((SOURCE / "_learners").rglob("*.py")):
        for part in (part for part in ast.walk(ast.parse(path.read_text())) if isinstance(part, ast.Compare)):
            sides = [part.left, *part.comparators]
            tuples = [side for side in sides if isinstance(side, ast.Tuple | ast.List | ast.Set)]
            sides += [one for side in tuples for one in side.elts]
            compared = {side.value for side in sides if isinstance(side, ast.Constant)}
            assert compared.isdisjoint(FAMILIES), f"{path}:{part.lineno} compares the name of a family"
