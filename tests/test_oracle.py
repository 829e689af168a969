import warnings

import numpy as np
import pytest
import torch

import glasshead as gh
from glasshead._oracles import box as box_module
from glasshead._oracles.boundary import Budgeted, Counted, Watched
from glasshead._oracles.views import Scaled, Translated

from .helpers import head


def test_counts_every_sequence():
    oracle = gh.ValueOracle(head(3))
    oracle(np.zeros((5, 2, 3)))
    oracle(np.zeros((1, 7, 3)))
    assert oracle.queries == 6


def test_streams_large_requests(monkeypatch):
    monkeypatch.setattr(box_module, "CHUNK_BYTES", 1000)
    sizes = []

    def box(X):
        sizes.append(X.nbytes)
        return X.sum(axis=(1, 2))

    X = np.random.default_rng(0).standard_normal((100, 2, 3))
    np.testing.assert_allclose(gh.ValueOracle(box, dim=3)(X), X.sum(axis=(1, 2)))
    assert max(sizes) <= 1000
    assert len(sizes) > 1


def test_failed_queries_count_too():
    oracle = gh.ValueOracle(lambda X: 1 / 0, dim=2)
    with pytest.raises(gh.OracleError):
        oracle(np.zeros((4, 1, 2)))
    assert oracle.queries == 4


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda X: np.zeros(len(X) + 1), r"expected answers of shape .*, one per sequence, got \(4,\)"),
        (lambda X: np.zeros((len(X), 1, 1)), "expected answers of shape"),
        (lambda X: np.array([0.0, np.nan, 0.0]), r"expected finite answers, got nan for query 1 "),
        (lambda X: np.array([0.0, 0.0, np.inf]), r"got inf for query 2 .*give max_norm="),
        (lambda X: np.zeros(len(X)) + 1j, "expected real numbers as answers, got dtype complex128"),
        (lambda X: np.zeros(len(X), bool), "dtype bool; for yes/no answers use gh.SignOracle"),
        (lambda X: ["a", "b", "c"], "expected real numbers as answers"),
        (lambda X: X.no_such_thing, "the box raised AttributeError: .*no_such_thing.*3 sequences of 2 tokens in dim"),
    ],
)
def test_bad_answers_are_named(answers, message):
    X = np.arange(12.0).reshape(3, 2, 2)
    with pytest.raises(gh.OracleError, match=message) as caught:
        gh.ValueOracle(answers, dim=2)(X)
    assert any(np.array_equal(caught.value.query, x) for x in X)


def test_the_cause_of_a_failure_is_kept():
    def box(X):
        raise RuntimeError("out of cheese")

    with pytest.raises(gh.OracleError, match="out of cheese") as caught:
        gh.ValueOracle(box, dim=1)(np.zeros((1, 1, 1)))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_interrupts_are_not_swallowed():
    def box(X):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gh.ValueOracle(box, dim=1)(np.zeros((1, 1, 1)))


def test_answers_may_not_change_shape():
    shapes = iter([(2,), (2, 3)])
    oracle = gh.ValueOracle(lambda X: np.zeros(next(shapes)), dim=1)
    oracle(np.zeros((2, 1, 1)))
    with pytest.raises(gh.OracleError, match=r"expected answers of shape \(2,\)"):
        oracle(np.zeros((2, 1, 1)))


def test_long_tokens_are_never_sent():
    oracle = gh.ValueOracle(head(2), max_norm=1.0)
    oracle(np.array([[[0.6, 0.8]]]))
    with pytest.raises(ValueError, match=r"no longer than max_norm = 1, got one of norm 1.4"):
        oracle(np.array([[[1.0, 1.0]]]))
    assert oracle.queries == 1


@pytest.mark.parametrize(("dtype", "roundoff"), [("float64", 2.0**-53), ("float32", 2.0**-24), ("float16", 2.0**-11)])
def test_reads_the_precision_off_the_answers(dtype, roundoff):
    oracle = gh.ValueOracle(lambda X: head(4)(X).astype(dtype).astype(float), dim=4)
    oracle(np.random.default_rng(0).standard_normal((50, 3, 4)))
    assert oracle.roundoff == roundoff


def test_sends_the_dtype_asked_for():
    seen = []
    oracle = gh.ValueOracle(lambda X: (seen.append(X.dtype), X.sum(axis=(1, 2)))[1], dim=2, dtype="float32")
    oracle(np.zeros((1, 1, 2)))
    assert seen == [np.float32]
    assert oracle.roundoff == 2.0**-24


def test_budget_refuses_before_asking():
    inner = gh.ValueOracle(head(2))
    oracle = Budgeted(inner, 5)
    oracle(np.zeros((3, 1, 2)))
    with pytest.raises(gh.BudgetExceeded, match="budget of 5 queries is spent: 3 asked, 3 more wanted") as caught:
        oracle(np.zeros((3, 1, 2)))
    assert inner.queries == 3
    assert caught.value.needed == 1


def test_progress_reports_after_every_request():
    reports = []
    oracle = Watched(gh.ValueOracle(head(2)), lambda *report: reports.append(report))
    oracle.stage = "testing"
    oracle.expect(10)
    oracle(np.zeros((4, 1, 2)))
    oracle(np.zeros((8, 1, 2)))
    assert reports == [(4, 10, "testing"), (12, 12, "testing")]


def test_a_printed_box_says_what_it_is():
    oracle = gh.ValueOracle(head(3), tolerance=1e-3, max_norm=8)
    oracle(np.zeros((5, 2, 3)))
    assert repr(oracle) == "ValueOracle(dim=3, answers='value', tolerance=0.001, max_norm=8, queries=5)"
    assert repr(gh.SignOracle(head(3), flips=0.1)) == "SignOracle(dim=3, answers='sign', flips=0.1, queries=0)"
    assert repr(Counted(gh.ValueOracle(head(3)))) == "Counted(ValueOracle(dim=3, answers='value', queries=0))"


def test_a_wrapper_has_what_the_inner_oracle_has():
    inner = gh.ValueOracle(head(3), tolerance=1e-3, rtol=1e-4, max_norm=8, dtype="float32")
    outer = Scaled(Budgeted(Counted(inner), 10), 0.5)
    for name in ("dim", "answers", "tolerance", "rtol", "flips", "max_norm", "roundoff", "narrow", "exact", "reach"):
        assert getattr(outer, name) == getattr(inner, name)
    outer(np.zeros((5, 2, 3)))
    outer.stage = "reading v"
    assert (outer.queries, outer.stage, inner.stage) == (5, "reading v", "")
    assert outer.box is inner
    assert Translated(outer, np.ones(3)).max_norm == 8 - np.sqrt(3)


def test_a_box_may_answer_torch_tensors():
    plain = head(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = gh.recover(gh.ValueOracle(lambda X: torch.as_tensor(plain(X)), dim=4))
        trained = gh.recover(gh.ValueOracle(lambda X: torch.as_tensor(plain(X)).requires_grad_(), dim=4))
        short = gh.recover(gh.ValueOracle(lambda X: torch.as_tensor(plain(X)).bfloat16(), dim=4))
    assert gh.distance(found.model, plain) < 1e-13
    assert gh.distance(trained.model, plain) < 1e-13
    assert np.linalg.norm(short.model.W - plain.W) <= min(short.bound, 0.05 * np.linalg.norm(plain.W))
