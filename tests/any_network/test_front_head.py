"""A head that asks the box for what lies behind it."""

import doctest

import numpy as np
import pytest

import glasshead as gh
from glasshead import answers

from .blocks import Block, identifiable

HEADS = {
    "plain": {"residual": True},
    "no residual": {"residual": False},
    "LayerNorm": {"residual": True, "norm": "layer"},
    "RMSNorm": {"residual": False, "norm": "rms"},
}


def head_of(block: Block, behind=None) -> gh.FrontHead:
    if block.norm is None:
        return gh.FrontHead(block.W, key_bias=block.key_bias, behind=behind, residual=block.residual)
    W, key_bias = identifiable(block)
    norm = gh.Norm(block.norm, block.eps)
    return gh.FrontHead(W, key_bias=key_bias, behind=behind, residual=block.residual, norm=norm)


@pytest.mark.parametrize("kind", HEADS)
def test_it_answers_by_asking_the_box_something_shorter(kind):
    block = Block(6, **HEADS[kind])
    asked = []

    def behind(X):
        asked.append(X)
        return block(X)

    head, X = head_of(block, behind), 0.01 * np.random.default_rng(0).standard_normal((9, 70, 6))
    assert np.allclose(head(X), block(X), rtol=0, atol=1e-10)
    assert max(shortened.shape[1] for shortened in asked) < 70
    assert head(X[0]) == pytest.approx(head(X)[0], abs=1e-12)


def test_a_wrong_W_answers_wrongly():
    block = Block(6)
    wrong = gh.FrontHead(1.01 * block.W, key_bias=block.key_bias, behind=block)
    X = np.random.default_rng(0).standard_normal((9, 4, 6))
    assert np.abs(wrong(X) - block(X)).max() > 1e-6


def test_without_a_box_it_attends_but_does_not_answer():
    block, X = Block(5), np.random.default_rng(0).standard_normal((3, 4, 5))
    head = head_of(block)
    assert np.allclose(head.attend(X), block.attend(X))
    assert np.allclose(head.attend(X[0]), block.attend(X)[0])
    with pytest.raises(ValueError, match="expected a head with behind="):
        head(X)


def test_sequences_beyond_any_shorter_one_are_refused():
    head = gh.FrontHead(np.eye(2), behind=lambda X: X[:, -1, 0])
    many = np.array([[-7.0, 0.0]] * 2000 + [[1.0, 0.0]])  # each scores -8, so 64 copies of anything weigh too little
    with pytest.raises(ValueError, match="ask about shorter tokens"):
        head(many)


@pytest.mark.parametrize("kind", HEADS)
def test_it_is_saved_without_the_box(kind):
    block = Block(6, **HEADS[kind])
    head = head_of(block, behind=block)
    again = gh.FrontHead.from_tensors(head.tensors())
    X = 0.1 * np.random.default_rng(0).standard_normal((3, 4, 6))
    assert np.array_equal(again.attend(X), head.attend(X))
    assert again.behind is None
    assert (again.residual, again.norm) == (head.residual, head.norm)
    assert repr(again) == repr(head)


def test_factors_are_kept():
    Q, K = np.random.default_rng(0).standard_normal((2, 2, 7))
    head = gh.FrontHead.from_tensors({"Q": Q, "K": K, "residual": np.array(1.0)})
    assert np.allclose(head.W, K.T @ Q)
    assert set(head.tensors()) == {"Q", "K", "residual"}
    assert "rank=2" in repr(head)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"W": np.ones((2, 3))}, "expected W of shape"),
        ({"W": np.eye(2), "key_bias": np.ones(3)}, "expected key_bias of shape"),
        ({"W": np.eye(2), "behind": 3}, "expected behind to be a callable"),
        ({"W": np.eye(2), "norm": 1e-5}, "expected norm to be None"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gh.FrontHead(arguments.pop("W"), **arguments)


@pytest.mark.parametrize(
    ("f", "i", "j", "message"),
    [
        (3, 0, 1, "expected a callable"),
        (np.ones_like, 1, 1, "two different classes"),
        (np.ones_like, -1, 1, "expected i to be an integer >= 0"),
    ],
)
def test_log_odds_are_of_two_classes(f, i, j, message):
    with pytest.raises((ValueError, TypeError), match=message):
        answers.log_odds(f, i, j)


@pytest.mark.parametrize(("answer", "message"), [([0.5, 0.5], "with classes 0 and 2"), ([0.0, 0.5, 0.5], "above 0")])
def test_log_odds_need_probabilities(answer, message):
    oracle = gh.ValueOracle(answers.log_odds(lambda X: np.tile(answer, (len(X), 1)), 0, 2), dim=3)
    with pytest.raises(gh.OracleError, match=message):
        oracle(np.zeros((2, 1, 3)))


@pytest.mark.parametrize("owner", [answers, answers.log_odds])
def test_docstrings_run(owner):
    for example in doctest.DocTestFinder(recurse=False).find(owner, "answers", globs={"gh": gh, "np": np}):
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("norm", [None, "layer"])
@pytest.mark.parametrize("answers", [gh.ValueOracle, gh.SignOracle])
def test_a_recovered_model_asks_the_box_of_the_user(norm, answers):
    """And not what the recovery had put around it: neither its budget nor its progress report."""
    block, reports = Block(4, rank=1, norm=norm), []
    oracle = answers(block, dim=4)
    given = gh.Norm("layer", block.eps) if norm else None
    budget = 2 * gh.plan(4, family="any-network", answers=oracle.answers)
    found = gh.recover(
        oracle, family="any-network", norm=given, budget=budget, progress=lambda *done: reports.append(done)
    )
    assert found.model.behind is oracle
    before, asked = len(reports), oracle.queries
    for _ in range(3):
        found.model(np.random.default_rng(0).standard_normal((budget, 3, 4)))
    assert len(reports) == before
    assert oracle.queries > asked + budget
