"""Whatever a box does, `gh.recover` ends in a result or a `GlassheadError`, and warns of nothing from inside."""

import warnings

import numpy as np
import pytest

import glasshead as gh
from glasshead import _recover
from glasshead._limits import memory, memory_needed

from .helpers import head

INSIDE = "a calculation inside glasshead failed"  # the last line of defence; no box below may get that far


def refused(box, dim, match="", kind=gh.ValueOracle, promise=None, error=gh.GlassheadError, **arguments):
    """The refusal of a box, which must not be one of the last line of defence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=match) as caught:
            gh.recover(kind(box, dim=dim, **promise or {}), **arguments)
    assert INSIDE not in str(caught.value)
    return caught.value


class Unchecked(gh.Oracle):
    """An oracle of a user that hands on whatever it likes."""

    dim = 3

    def __init__(self, answer):
        self.answer = answer

    def __call__(self, X):
        return self.answer(X)


def raising(X):
    raise ValueError("no such host")


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (raising, "the oracle raised ValueError: no such host"),
        (lambda X: None, "got dtype object and shape"),
        (lambda X: np.zeros((len(X), 0)), "got dtype float64 and shape"),
        (lambda X: np.zeros(len(X) + 1), "expected a real number, or several, for each of 2 sequences"),
        (lambda X: np.full(len(X), np.nan), "expected finite answers, got NaN"),
        (lambda X: ["a"] * len(X), "got dtype <U1"),
    ],
)
def test_oracles_of_users_are_not_trusted(answer, match):
    with pytest.raises(gh.OracleError, match=match):
        gh.recover(Unchecked(answer))


def test_lists_of_numbers_are_answers():
    target = head(3)
    found = gh.recover(Unchecked(lambda X: target(X).tolist()))
    assert gh.distance(found.model, target) < 1e-12


@pytest.mark.parametrize("error", [ZeroDivisionError, np.linalg.LinAlgError, IndexError, MemoryError, KeyError])
def test_what_fails_inside_is_a_refusal_with_its_cause(monkeypatch, error):
    def broken(*_):
        raise error("the reason")

    monkeypatch.setattr(_recover, "find_families", broken)
    with pytest.raises(gh.NotConverged, match=f"({error.__name__}.*the reason.*); ") as caught:
        gh.recover(head(3))
    assert isinstance(caught.value.__cause__, error)


def test_what_a_progress_report_raises_comes_through():
    def report(*_):
        raise IndexError("stop here")

    with pytest.raises(IndexError, match="stop here"):
        gh.recover(head(3), progress=report)


def test_interrupts_come_through():
    def report(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gh.recover(head(3), progress=report)


def test_a_box_keeps_the_rules_of_its_caller_for_warnings():
    target, rules = head(3), []

    def box(X):
        rules.append(np.geterr())
        return target(X)

    with np.errstate(over="raise", divide="warn"):
        wanted = np.geterr()
        gh.recover(gh.ValueOracle(box, dim=3))
        assert np.geterr() == wanted
    assert all(seen == wanted for seen in rules)


@pytest.mark.parametrize("dim", [10**6, 10**9, 10**12])
@pytest.mark.parametrize("kind", [gh.ValueOracle, gh.SignOracle])
def test_what_no_memory_holds_is_refused_before_the_first_query(dim, kind):
    error = refused(raising, dim, rf"tokens of dimension {dim:,} need more memory .* GiB may be used", kind)
    assert isinstance(error, gh.NotConverged)


def test_memory_is_what_a_limit_leaves(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**30, 2**40))
    assert memory() <= 2**30 < memory_needed(10**4)


def test_progress_is_true_or_a_callable():
    with pytest.raises(TypeError, match="expected progress to be True or a callable"):
        gh.recover(head(3), progress=1)


@pytest.mark.parametrize("answer", [lambda X: np.zeros((len(X), 0)), lambda X: np.zeros((len(X), 1, 1))])
def test_answers_without_numbers(answer):
    refused(answer, 4, r"expected answers of shape .* with k >= 1, one per sequence", error=gh.OracleError)


def test_answers_beyond_float64():
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long doubles are float64 here")
    refused(lambda X: np.full(len(X), np.longdouble("1e4000")), 2, "expected finite answers", error=gh.OracleError)
