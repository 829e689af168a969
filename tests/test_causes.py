"""What a refusal says: the cause that is true, and one thing to try, which works or is refused again."""

import numpy as np
import pytest
from scipy.special import softmax

import glasshead as gh
from glasshead._checks import find_unsteady
from glasshead._checks.noise import Unpromised, check_unmeasured
from glasshead._meters import Values

from .helpers import head

DIM = 6
TARGET = head(DIM, seed=3)


FRESH = np.random.default_rng(0)


def dropout(X):
    return TARGET(X) * (FRESH.random(len(X)) > 0.3)


def batch_norm(X):
    y = TARGET(X)
    return (y - y.mean()) / (y.std() + 1e-3)


def query_first(X):
    return TARGET(X[:, ::-1])


def positions(X):
    return TARGET(X + np.cos(np.arange(X.shape[1]))[:, None])


def window(X):
    return TARGET(X[:, -4:])


def truncated(X):
    kept = np.concatenate([X[:, :3], X[:, -1:]], axis=1) if X.shape[1] > 4 else X
    return TARGET(kept)


CAUSES = {
    dropout: "dropout left on",
    batch_norm: "beside others, as by a norm over the batch",
    query_first: "the query token seems to be the first one",
    positions: "as with positions",
    window: "as with a window",
    truncated: "cut sequences off",
}


@pytest.mark.parametrize("box", CAUSES, ids=lambda box: box.__name__)
def test_the_cause_is_named(box):
    with pytest.raises(gh.GlassheadError, match=CAUSES[box]) as caught:
        gh.recover(gh.ValueOracle(box, dim=DIM))
    assert sum(words in str(caught.value) for words in CAUSES.values()) == 1


def test_dropout_is_named_where_too_little_shows():
    box = gh.ValueOracle(dropout, dim=DIM)
    for words, named in (("v cannot be told from 0", 1), ("noise hides it", 0)):
        error = gh.NotIdentifiable(words)
        find_unsteady(error, box, seed=0)
        assert str(error).count("dropout left on") == named
    assert box.queries == 2
    steady = gh.NotIdentifiable("v = 0")
    find_unsteady(steady, gh.ValueOracle(TARGET), seed=0)
    assert str(steady) == "v = 0"


def test_what_is_always_the_same_is_no_noise():
    seen = Unpromised(Values(np.ones(DIM), 0.0, 1.0), np.ones((1, DIM)), fresh=True)
    with pytest.raises(gh.TargetMismatch, match="always the same there") as caught:
        check_unmeasured(gh.ValueOracle(TARGET), seen)
    assert "noise" not in str(caught.value)
    with pytest.raises(gh.TargetMismatch, match="noise that was not there when it was measured"):
        check_unmeasured(gh.ValueOracle(lambda X: FRESH.random(len(X)), dim=DIM), seen)


def test_what_is_advised_works():
    found = gh.recover(gh.ValueOracle(lambda X: query_first(X[:, ::-1].copy()), dim=DIM))
    assert np.linalg.norm(found.model.W - TARGET.W) <= found.bound
    one_by_one = gh.ValueOracle(lambda X: np.concatenate([batch_norm(x[None]) for x in X]), dim=DIM)
    with pytest.raises(gh.GlassheadError):  # alone, every answer is the same
        gh.recover(one_by_one)


def test_what_has_no_usual_cause_is_not_given_one():
    def temperature(X):
        scores = np.einsum("bnd,bd->bn", X, X[:, -1] @ TARGET.W.T) / np.sqrt(X.shape[1])
        return np.einsum("bn,bnd->bd", softmax(scores, axis=1), X) @ TARGET.v

    with pytest.raises(gh.GlassheadError) as caught:
        gh.recover(gh.ValueOracle(temperature, dim=DIM))
    assert not any(words in str(caught.value) for words in CAUSES.values())


def test_no_cause_is_looked_for_beyond_a_budget():
    oracle = gh.ValueOracle(positions, dim=DIM)
    with pytest.raises(gh.GlassheadError):
        gh.recover(oracle, budget=105)
    assert oracle.queries <= 105


def vector_head(dim=5, outputs=4, seed=2):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    return gh.Attention(W, rng.standard_normal((dim, outputs)), bias=rng.standard_normal(outputs))


@pytest.mark.parametrize("seed", range(3))
def test_several_numbers_that_are_printed_with_few_decimals(seed):
    """What is said to promise is true, and enough."""
    target = vector_head()

    def box(X):
        return np.round(target(X), 3)

    with pytest.raises(gh.GlassheadError) as refused:
        gh.recover(gh.ValueOracle(box, dim=5), seed=seed)
    if "promise" in str(refused.value):
        assert str(refused.value).endswith("answers are printed with few digits: promise tolerance=0.0005 to go on")
    found = gh.recover(gh.ValueOracle(box, dim=5, tolerance=5e-4), seed=seed)
    assert np.linalg.norm(found.model.W - target.W) <= found.bound <= 1e-9


@pytest.mark.parametrize("outputs", [None, 3])
def test_tokens_in_float32_behind_a_readout_in_float64_beside_others(outputs):
    """As on many processors the last digits depend on what else is asked: found out with one sequence at a time."""
    target = head(7, seed=1) if outputs is None else vector_head(7, outputs)
    narrow = [np.asarray(part, np.float32) for part in (target.W, target.v, target.bias)]
    inner = gh.Attention(narrow[0], narrow[1], bias=narrow[2] if outputs else float(narrow[2]))

    def box(X):
        order = np.arange(len(X)).reshape(-1, *[1] * (1 if outputs else 0))
        return np.asarray(inner(X.astype(np.float32)), np.float64) * (1 + 2.0**-24 * (order % 3))

    found = gh.recover(gh.ValueOracle(box, dim=7))
    assert (found.family, found.heads) == ("attention", 1)
    off = np.linalg.norm(found.model.W - inner.W)
    assert off <= 1e-4 * np.linalg.norm(inner.W)
    assert found.bound is None or off <= found.bound
