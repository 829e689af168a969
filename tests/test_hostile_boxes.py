"""Whatever a box does, `gh.recover` ends in a result or a `GlassheadError`, and warns of nothing from inside."""

import re
import sys
import warnings

import numpy as np
import pytest
from scipy.special import softmax

import glasshead as gh
from glasshead._oracles.sphere import Sphere
from glasshead._validate import memory, memory_needed

from .helpers import head

INSIDE = "a calculation inside glasshead failed"  # the last line of defence; no box below may get that far


def outcome(box, dim, kind=gh.ValueOracle, promise=None, **arguments):
    """What comes of a box: a recovery, or a refusal that is not one of the last line of defence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", gh.HeadsMerged)  # which is part of an answer
        try:
            return gh.recover(kind(box, dim=dim, **promise or {}), **arguments)
        except gh.GlassheadError as error:
            words = str(error)
            result = error
    assert INSIDE not in words
    return result


def refused(box, dim, match=".", error=gh.GlassheadError, **how):
    """The refusal of a box."""
    found = outcome(box, dim, **how)
    assert isinstance(found, error), found
    assert re.search(match, str(found)), found
    return found


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

    monkeypatch.setattr(sys.modules["glasshead._recover.recover"], "find_families", broken)
    with pytest.raises(gh.NotConverged, match=rf"\({error.__name__}.*the reason") as caught:
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
    error = refused(raising, dim, rf"tokens of dimension {dim:,} need more memory .* GiB may be used", kind=kind)
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


@pytest.mark.parametrize("seed", [0, 1, 3, 4])
@pytest.mark.parametrize("how", [lambda y: y * (1 + 1e-8), np.zeros_like], ids=["the eighth digit", "0"])
def test_one_answer_in_ten_goes_wrong(seed, how):
    """The longest keys may see a key bias, and none of the others."""
    target, rng = head(2, seed=seed), np.random.default_rng(seed)

    def box(X):
        y = target(X)
        return np.where(rng.random(len(y)) < 0.1, how(y), y)

    refused(box, 2, error=(gh.TargetMismatch, gh.NotIdentifiable, gh.NotConverged), seed=seed)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5])
def test_ratings_that_see_positions(seed):
    """Whole numbers look like bfloat16 half-way: no output is then read to any digit."""
    rng = np.random.default_rng(seed)
    W, v = rng.standard_normal((6, 6)) / np.sqrt(6), rng.standard_normal((6, 4)) / np.sqrt(6)

    def box(X):
        scores = np.einsum("bnd,bd->bn", X, X[:, -1] @ W.T) + 0.5 * np.arange(X.shape[1])
        return np.clip(np.round(np.einsum("bn,bnd->bd", softmax(scores, axis=1), X) @ v + 3), 1, 5)

    refused(box, 6, seed=seed)


def test_heads_that_only_have_key_biases():
    rng = np.random.default_rng(0)
    keys, values = rng.standard_normal((4, 2)), rng.standard_normal((4, 2, 2))

    def box(X):
        return sum(np.einsum("bn,bnd->bd", softmax(X @ k, axis=1), X) @ v for k, v in zip(keys, values, strict=True))

    found = gh.recover(gh.ValueOracle(box, dim=2))
    X = rng.standard_normal((50, 7, 2))
    np.testing.assert_allclose(found.model(X), box(X), atol=1e-8)


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-200, 1e200, 1e300])
@pytest.mark.parametrize("outputs", [None, 3])
def test_answers_at_the_ends_of_the_numbers(size, outputs):
    target = head(4)
    V = target.v if outputs is None else np.random.default_rng(1).standard_normal((4, outputs))

    def box(X):
        return size * gh.Attention(target.W, V)(X)

    found = outcome(box, 4)
    if isinstance(found, gh.NotConverged):
        assert re.search(r"answers of size \de[+-]\d+ .* change their unit", str(found))
    elif not isinstance(found, gh.GlassheadError):
        assert np.linalg.norm(found.model.W.reshape(4, 4) - target.W) < 1e-3


def test_advice_about_units_works():
    target = head(4)
    error = refused(
        lambda X: 1e-300 * target(X), 4, r"answers of size \de-\d+ .*ValueOracle\(lambda X: f\(X\) / \de-\d+\)"
    )
    factor = float(str(error).split("f(X) / ")[1].split(")")[0])
    found = gh.recover(gh.ValueOracle(lambda X: 1e-300 * target(X) / factor, dim=4))
    assert np.linalg.norm(found.model.W - target.W) < 1e-6
    error = refused(target, 4, r"ValueOracle\(lambda X: f\(1e-300 \* X\), max_norm=1\)", promise={"max_norm": 1e-300})
    with pytest.raises(gh.GlassheadError):  # W is invisible there, and that is then what it says
        gh.recover(gh.ValueOracle(lambda X: target(1e-300 * X), dim=4, max_norm=1))


def test_a_promise_that_is_none_is_not_advised():
    """`rtol` has to be below 1."""
    target, advised = head(8), []
    for seed, share in enumerate(np.geomspace(1e-3, 2.0, 14)):

        def box(X, share=share):
            return target(X) * (1 + share * np.sin(1e7 * X.sum(axis=(1, 2))))

        try:
            gh.recover(gh.ValueOracle(box, dim=8), family="attention", seed=seed)
        except gh.TargetMismatch as error:
            advised += re.findall(r"promise rtol=([0-9.e+-]+)", str(error))
        except gh.GlassheadError:
            pass
    assert advised
    assert all(float(rtol) < 1 for rtol in advised)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("heads", [1, 2])
def test_float32_inside_and_float64_outside(seed, heads):
    """Answers with all digits of float64 whose error is that of float32: never a private exception, and no lie."""
    rng = np.random.default_rng(seed)
    Q, K, V = rng.standard_normal((3, heads, 8, 8)).astype(np.float32) / np.float32(np.sqrt(8))
    readout = rng.standard_normal(8)

    def box(X):
        x, y = X.astype(np.float32), 0.0
        for q, k, v in zip(Q, K, V, strict=True):
            scores = np.einsum("bnd,bd->bn", x @ k, x[:, -1] @ q)
            y = y + np.einsum("bn,bnd->bd", softmax(scores, axis=1), x @ v)
        return y.astype(np.float64) @ readout

    found = outcome(box, 8, seed=seed)
    if isinstance(found, gh.Recovery):
        X = rng.standard_normal((200, 5, 8))
        assert np.abs(found.model(X) - box(X)).max() < 0.01 * np.ptp(box(X))


@pytest.mark.parametrize("dim", [None, 0, -3, 2.5, "4"])
def test_oracles_without_a_dimension(dim):
    oracle = Unchecked(raising)
    oracle.dim = dim
    with pytest.raises(ValueError, match="expected the dim of an oracle to be an integer >= 1"):
        gh.recover(oracle)


def test_the_check_of_signs_sends_no_token_that_is_too_long():
    """A class out of three, in one dimension and with hardly any room."""
    target = gh.Attention([[-0.60103685]], [[-1.03953426, -0.60103685, -0.62167687]], key_bias=[-0.81162311])
    found = outcome(
        lambda X: target(X).argmax(axis=1) * X.shape[1], 1, kind=gh.SignOracle, promise={"max_norm": 1e-3},
        family="any-network", seed=638,
    )  # fmt: skip
    assert "the oracle raised" not in str(found)


@pytest.mark.parametrize("tolerance", [1e300, 10.0])
def test_promises_that_allow_anything(tolerance):
    """The step of a slope grows with the noise, and must not leave the ball of normalised tokens."""
    target, norm = head(8), gh.Norm("rms", 1e-5)
    for seed in range(3):
        refused(lambda X: target(norm(X)), 8, promise={"tolerance": tolerance}, family="any-network", seed=seed)


@pytest.mark.parametrize("family", ["attention", "any-network"])
@pytest.mark.parametrize("flips", [0.0, 0.1, 0.25])
def test_yes_and_no_in_turn(family, flips):
    """No number of votes decides: two answers in a row always cancel."""
    asked = [0]

    def box(X):
        asked[0] += len(X)
        return (asked[0] - len(X) + np.arange(len(X))) % 2 == 0

    refused(box, 3, kind=gh.SignOracle, promise={"flips": flips}, family=family)
    assert asked[0] < 500_000


@pytest.mark.parametrize("seed", range(6))
def test_one_dimension_and_a_first_token_that_is_masked(seed):
    def box(X):
        x = X[:, 1:, 0] if X.shape[1] > 1 else X[..., 0]
        return 1.3 * (softmax(x * (0.275 * x[:, -1:] + 0.834), axis=1) * x).sum(axis=1) + 0.4

    refused(box, 1, seed=seed)


def test_beside_a_token_that_is_one_number_and_its_sign_there_is_none():
    """LayerNorm leaves no more of two numbers."""
    sphere = Sphere.of("layer", 2)
    with pytest.raises(gh.NotConverged, match="one number and its sign"):
        sphere.around(np.ones(1), 3, 0.1, np.random.default_rng(0))
