"""Which method of heads comes after which, by methods that say beforehand what becomes of them."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import glasshead as gh
from glasshead._errors import ASKED_AGAIN, FRESH_HEADS, TWO_COPIES, Evidence, Tried
from glasshead._learned import HeldOut, LearnedMultiHead
from glasshead._learners.heads import route
from glasshead._learners.heads.vector import NeedsScalarRoute
from glasshead._oracles import Opening

MODEL = gh.MultiHead([gh.Attention(np.eye(2), np.ones(2))])
HEADS = LearnedMultiHead(model=MODEL, rank=(2,), found="1 head")
ELSE = NeedsScalarRoute("outputs overlap")
RNG = np.random.default_rng(0)
OPENING = Opening(np.ones(2), np.zeros(()), np.ones(()), RNG, RNG, {"v": np.ones(2), "bias": np.zeros(())})
METHODS = {
    "at once, one": "learn_vector_attention",
    "at once": "learn_vector",
    "one score": "learn_attention",
    "combined": "learn_combined",
    "alone": "learn_multi_head",
    "fresh": "check_heads_everywhere",
    "laws": "check_sum_laws",
    "together": "learn_joint",
}


def broken(law: str) -> gh.TargetMismatch:
    return gh.TargetMismatch("no heads", Evidence(law, np.ones((1, 2)), "expected 1", "2"))


UNCLEAR, STUCK, HIDDEN = gh.AccuracyUnreachable("unclear"), gh.NotConverged("stuck"), gh.NotIdentifiable("v = 0")
FITS, UNFIT = HeldOut(0.0, None, "agree"), HeldOut(1.0, broken(FRESH_HEADS).evidence, "disagree")
OVER = gh.BudgetExceeded("over", budget=9, needed=1)


@pytest.fixture
def taken(monkeypatch):
    """A function that lets methods end in what is given for them, in turn, and returns which were asked."""

    def begin(**outcomes) -> list[str]:
        order: list[str] = []
        for name, function in METHODS.items():
            left = list(outcomes.get(name.replace(", ", "_").replace(" ", "_"), ()))

            def method(*_, name=name, left=left):
                order.append(name)
                outcome = left.pop(0)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome

            monkeypatch.setattr(route, function, method)
        return order

    return begin


def box(dtype: str = "float64") -> gh.ValueOracle:
    return gh.ValueOracle(MODEL, dtype=dtype)


@pytest.mark.parametrize(
    ("first", "accuracy", "methods", "error"),
    [
        (HEADS, None, ["at once, one"], None),
        (ELSE, None, ["at once, one", "one score"], None),
        (broken(ASKED_AGAIN), None, ["at once, one", "one score"], None),
        (broken(TWO_COPIES), None, ["at once, one"], "no heads"),
        (UNCLEAR, None, ["at once, one"], "not a single attention head"),
        (STUCK, None, ["at once, one"], "stuck"),
        (OVER, None, ["at once, one"], "over"),
        (HEADS, 1e-3, ["one score"], None),
    ],
)
def test_one_head(taken, first, accuracy, methods, error):
    order = taken(at_once_one=[first], one_score=[HEADS])
    with nullcontext() if error is None else pytest.raises(gh.GlassheadError, match=error):
        assert route.learn_one_vector(box(), RNG, None, accuracy) is HEADS
    assert order == methods


@pytest.mark.parametrize(
    ("first", "accuracy", "methods"),
    [
        (HEADS, None, ["at once"]),
        (ELSE, 1e-3, ["at once", "combined"]),
        (UNCLEAR, None, ["at once", "combined"]),
        (UNCLEAR, 1e-3, ["at once"]),
        (broken(TWO_COPIES), None, ["at once"]),
    ],
)
def test_several_heads_from_many_numbers(taken, first, accuracy, methods):
    order = taken(at_once=[first], combined=[STUCK])
    tried = Tried.of(route.learn_several_vector, box(), RNG, None, accuracy)
    assert order == methods
    assert (tried.found is HEADS) == (first is HEADS)
    assert (tried.refusal is STUCK) == ("combined" in methods)


ALONE, TOGETHER, ANEW = ["alone", "fresh"], ["laws", "together"], ["alone", "fresh", "alone", "fresh"]


@pytest.mark.parametrize(
    ("outcomes", "dtype", "methods", "error"),
    [
        ({"alone": [HEADS], "fresh": [FITS]}, "float64", ALONE, None),
        ({"alone": [HEADS], "fresh": [UNFIT], "laws": [True], "together": [HEADS]}, "float64", ALONE + TOGETHER, None),
        ({"alone": [HEADS, HEADS], "fresh": [UNFIT, FITS]}, "float32", ANEW, None),
        ({"alone": [STUCK], "laws": [False]}, "float32", ["alone", "laws"], "stuck"),
        ({"alone": [np.linalg.LinAlgError("singular")], "laws": [False]}, "float64", ["alone", "laws"], "singular"),
        ({"alone": [STUCK], "laws": [True], "together": [None]}, "float64", ["alone", *TOGETHER], "stuck"),
        ({"alone": [HIDDEN], "laws": [True], "together": [STUCK]}, "float64", ["alone", *TOGETHER], "stuck"),
        (
            {"alone": [broken(TWO_COPIES)], "laws": [True], "together": [STUCK]},
            "float64",
            ["alone", *TOGETHER],
            "alike",
        ),
    ],
)
def test_a_sum_of_heads(taken, outcomes, dtype, methods, error):
    order = taken(**outcomes)
    with nullcontext() if error is None else pytest.raises(gh.GlassheadError, match=error):
        found = route.learn_sum(box(dtype), np.random.default_rng(0), None, None, OPENING)
        assert found.model is MODEL
    assert order == methods


@pytest.mark.parametrize("error", [OVER, gh.OracleError("failed"), ValueError("wrong")])
def test_what_ends_every_route_is_raised(error):
    def method():
        raise error

    with pytest.raises(type(error)):
        Tried.of(method)
