"""What is raised in the end, and when no other family is tried: histories of failures, one a row."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

import glasshead as gh
from glasshead._errors import ANY_ORDER, COPIED_KEY, FRESH_HEADS, ONE_TOKEN, Evidence
from glasshead._oracles import Flat, read_first_answers
from glasshead._recognise import LAST_RESORT, Failure, Tries, find_next, raised_instead, raised_nevertheless
from glasshead._recognise.guess import NO_GUESS, ONE_HEAD, RESIDUAL_HEADS, SEVERAL, Guess
from glasshead._recognise.tries import settled

BOX = gh.Attention.random(4, seed=0)
FOUND = gh.recover(BOX)
FRONT, BLOCK_TOO = Guess(("transformer", "any-network")), Guess(("any-network", "block"))


def mismatch(law: str) -> gh.TargetMismatch:
    error = gh.TargetMismatch("no", Evidence(law, np.zeros((1, 4)), "expected 0", "1"))
    error.known = {"law": law}
    return error


def failure(kind: str) -> gh.GlassheadError:
    """By its name, or else the law that is broken."""
    kinds = {"stuck": gh.NotConverged, "hidden": gh.NotIdentifiable, "inaccurate": gh.AccuracyUnreachable}
    if kind == "flat":
        return Flat(np.ones(4))
    if kind == "unfinished":
        error = gh.NotConverged(kind)
        error.__cause__ = gh.BudgetExceeded("spent", budget=1, needed=1)
        return error
    return kinds[kind](kind) if kind in kinds else mismatch(kind)


def history(*rows: tuple[Guess, str]) -> Tries:
    tries = Tries()
    for guess, kind in rows:
        tries = tries.then(Failure(guess, failure(kind), any_rank=True))
    return tries


# The guesses that failed and how, which failure is raised, and whether nothing else is tried.
HISTORIES = {
    "one family": ([(ONE_HEAD, COPIED_KEY)], 0, False),
    "one that did not converge": ([(ONE_HEAD, "stuck")], 0, False),
    "does not converge after a mismatch": ([(ONE_HEAD, COPIED_KEY), (SEVERAL, "stuck")], 0, True),
    "the first mismatch": ([(ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS), (RESIDUAL_HEADS, "stuck")], 0, True),
    "what more queries might find": ([(ONE_HEAD, COPIED_KEY), (RESIDUAL_HEADS, "unfinished")], 1, False),
    "the last resort, unfinished": ([(ONE_HEAD, COPIED_KEY), (LAST_RESORT, "unfinished")], 0, True),
    "no mismatch before it": ([(ONE_HEAD, "hidden"), (SEVERAL, "stuck")], 1, False),
    "a mismatch after another": ([(ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS)], 1, False),
    "a mismatch after none": ([(ONE_HEAD, "stuck"), (SEVERAL, FRESH_HEADS)], 1, False),
    "the last resort": ([(ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS), (LAST_RESORT, ONE_TOKEN)], 1, True),
    "the last resort, hidden": ([(ONE_HEAD, COPIED_KEY), (LAST_RESORT, "hidden")], 0, True),
    "the last resort, stuck": ([(ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS), (LAST_RESORT, "stuck")], 0, True),
    "the same family, seen": ([(ONE_HEAD, ONE_TOKEN), (Guess(LAST_RESORT.families), ONE_TOKEN)], 1, False),
    "places after a block": ([(RESIDUAL_HEADS, "inaccurate"), (BLOCK_TOO, ANY_ORDER)], 0, False),
    "places between": ([(RESIDUAL_HEADS, "inaccurate"), (ONE_HEAD, ONE_TOKEN), (BLOCK_TOO, ANY_ORDER)], 0, False),
    "another law after a block": ([(RESIDUAL_HEADS, "inaccurate"), (BLOCK_TOO, ONE_TOKEN)], 1, False),
    "places after a block that hides": ([(RESIDUAL_HEADS, "hidden"), (BLOCK_TOO, ANY_ORDER)], 1, False),
    "places after inaccurate heads": ([(SEVERAL, "inaccurate"), (BLOCK_TOO, ANY_ORDER)], 1, False),
    "a block after places": ([(BLOCK_TOO, ANY_ORDER), (RESIDUAL_HEADS, "inaccurate")], 1, False),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_failure_that_says_most_is_raised(name):
    rows, raised, at_once = HISTORIES[name]
    tries = history(*rows)
    instead = None if raised == len(rows) - 1 else tries.failures[raised].error
    assert raised_instead(tries) is instead
    assert settled(tries) == at_once


# What failed, what was guessed next, how many heads were found and how well, and which failure is raised all the same.
RESULTS = {
    "nothing failed": ([], ONE_HEAD, 1, 0.0, None),
    "few digits, where nothing failed": ([], LAST_RESORT, 1, 0.1, None),
    "few digits": ([(ONE_HEAD, ONE_TOKEN)], BLOCK_TOO, 2, 0.1, None),
    "few digits of the last resort": ([(ONE_HEAD, ONE_TOKEN), (SEVERAL, FRESH_HEADS)], LAST_RESORT, 2, 0.1, 1),
    "half the digits of the last resort": ([(ONE_HEAD, ONE_TOKEN)], LAST_RESORT, 1, 1e-9, None),
    "no residual": ([(ONE_HEAD, ONE_TOKEN)], LAST_RESORT, 1, None, None),
    "one head again": ([(ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS)], LAST_RESORT, 1, 0.0, 0),
    "several heads": ([(ONE_HEAD, COPIED_KEY)], SEVERAL, 2, 0.0, None),
    "the odds of a later one": ([(ONE_HEAD, ONE_TOKEN), (SEVERAL, COPIED_KEY)], LAST_RESORT, 1, 0.0, None),
    "stuck before the odds": ([(FRONT, "stuck"), (ONE_HEAD, COPIED_KEY)], SEVERAL, 1, 0.0, 1),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_may_be_no_better_than_what_failed(name):
    rows, guess, heads, residual, raised = RESULTS[name]
    tries, found = history(*rows), replace(FOUND, heads=heads, residual=residual)
    error = raised_nevertheless(tries, guess, gh.ValueOracle(BOX), found)
    assert error is (None if raised is None else tries.failures[raised].error)


@pytest.mark.parametrize(
    ("guess", "kind", "left"),
    [
        (FRONT, ONE_TOKEN, ("any-network",)),
        (FRONT, "stuck", ("any-network",)),
        (FRONT, "flat", ("any-network",)),
        (FRONT, "hidden", ()),
        (FRONT, "inaccurate", ()),
        (BLOCK_TOO, "hidden", ()),
        (Guess(("block", "any-network")), "inaccurate", ("any-network",)),
        (LAST_RESORT, ONE_TOKEN, ()),
    ],
)
def test_where_parameters_hide_the_rest_of_a_guess_is_not_tried(guess, kind, left):
    assert Failure(guess, failure(kind), any_rank=True).left.families == left


def test_what_is_known_is_of_the_latest_mismatch():
    assert history((FRONT, "stuck")).known == {}
    rows = (ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS), (LAST_RESORT, "stuck")
    assert history(*rows).known == {"law": FRESH_HEADS}
    assert history(*rows).families == ("attention", "multi-head", "any-network")


@pytest.fixture
def suggested(monkeypatch):
    """What the rules suggest, in turn, and how often they were asked."""
    script = SimpleNamespace(guesses=[], asked=0)

    def suggest(*arguments):
        script.asked += 1
        return script.guesses.pop(0)

    monkeypatch.setattr(import_module("glasshead._recognise.rules"), "find_suggested", suggest)
    return script


@pytest.mark.parametrize(
    ("rows", "suggests", "families", "asked"),
    [
        ([(FRONT, ONE_TOKEN)], SEVERAL, ("any-network",), 0),
        ([(FRONT, "hidden")], SEVERAL, ("multi-head",), 1),
        ([(ONE_HEAD, COPIED_KEY)], SEVERAL, ("multi-head",), 1),
        ([(ONE_HEAD, COPIED_KEY)], NO_GUESS, (), 1),
        ([(ONE_HEAD, COPIED_KEY), (SEVERAL, FRESH_HEADS)], ONE_HEAD, (), 1),
        ([(RESIDUAL_HEADS, "inaccurate"), (BLOCK_TOO, ANY_ORDER)], SEVERAL, (), 0),
        ([(ONE_HEAD, COPIED_KEY), (SEVERAL, "stuck")], RESIDUAL_HEADS, (), 0),
        ([(ONE_HEAD, COPIED_KEY), (LAST_RESORT, ONE_TOKEN)], SEVERAL, (), 0),
    ],
)
def test_rules_are_asked_where_nothing_is_left_or_settled(rows, suggests, families, asked, suggested):
    suggested.guesses = [suggests]
    oracle = gh.ValueOracle(BOX)
    opening = read_first_answers(oracle, np.random.default_rng(0))
    assert find_next(oracle, history(*rows), opening, 0).families == families
    assert suggested.asked == asked


# What the rules suggest, how each family ends, which end is raised, because of which, and how its notes begin.
ENDS = {
    "the last": ([SEVERAL, NO_GUESS], [ONE_TOKEN, FRESH_HEADS], 1, None, []),
    "an earlier one": ([SEVERAL], [COPIED_KEY, "stuck"], 0, 1, []),
    "before the last resort": ([SEVERAL, LAST_RESORT], [ONE_TOKEN, FRESH_HEADS, "hidden"], 1, 2, []),
    "a note": ([Guess(("any-network",)), NO_GUESS], [ONE_TOKEN, ONE_TOKEN], 1, None, ["Several heads in front of"]),
    "one head after its odds": ([Guess(("transformer",))], [COPIED_KEY, "found"], 0, None, []),
}


@pytest.mark.parametrize("name", ENDS)
def test_one_family_after_the_other_ends_in_one_error(name, suggested, monkeypatch):
    suggested.guesses, kinds, raised, cause, notes = ENDS[name]
    ends = [failure(kind) for kind in kinds if kind != "found"]
    script = iter(ends)

    def end(*arguments):
        if (error := next(script, None)) is not None:
            raise error
        return FOUND, ""

    entry = import_module("glasshead._recover.recover")  # not the function of that name
    monkeypatch.setattr(entry, "recover_as", end)
    monkeypatch.setattr(entry, "find_rounded_tokens", lambda box: False)
    monkeypatch.setattr(entry, "find_cause_of", lambda *arguments: False)
    with pytest.raises(gh.GlassheadError) as caught:
        gh.recover(BOX)
    assert caught.value is ends[raised]
    assert caught.value.__cause__ is (None if cause is None else ends[cause])
    said = getattr(caught.value, "__notes__", [])
    assert len(said) == len(notes)
    assert all(note.startswith(start) for note, start in zip(said, notes, strict=True))
