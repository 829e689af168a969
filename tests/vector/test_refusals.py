"""What vector answers cannot show is said, never guessed."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.held_out import check_held_out_vector
from glasshead._learners.heads.vector.learn import learn_vector, learn_vector_attention
from glasshead._learners.heads.vector.spaces import NeedsScalarRoute
from glasshead._oracles.boundary import Budgeted

from .boxes import head, layer


def attempt(box, learn=learn_vector, seed=0, **keywords):
    """The relative error of what passed every check; the refusals are raised, and so is that it is not for vectors."""
    oracle, rng = gh.ValueOracle(box, **keywords), np.random.default_rng(seed)
    found = learn(oracle, rng)
    if isinstance(found, NeedsScalarRoute):
        raise gh.NotConverged(found.reason)
    if check_held_out_vector(oracle, found, rng).evidence is not None:
        raise gh.TargetMismatch("held out")
    return gh.distance(found.model, box) if hasattr(box, "dim") else np.inf


def elsewhere(box, learn=learn_vector, **keywords) -> str:
    """Why the box is not one for vector answers."""
    found = learn(gh.ValueOracle(box, **keywords), np.random.default_rng(0))
    assert isinstance(found, NeedsScalarRoute)
    return str(found)


def cancelling():
    one = head(12, 12)
    return gh.MultiHead([one, gh.Attention(head(12, 12, seed=1).W, -one.v)])


def singular():
    first, *others = layer(24, 4, biases=0.0).heads
    return gh.MultiHead([first, gh.Attention(head(24, 2).W, -first.v), *others])


ELSEWHERE = {
    "rank 2": (layer(16, 8), "bunches"),
    "rank 1": (layer(8, 8), "bunches"),
    "overlapping": (layer(16, 4, width=32), "bunches"),
    "too few outputs": (layer(24, 3, outputs=12), "bunches"),
    "values add up to 0": (cancelling(), "add up to 0"),
    "singular": (singular(), "bunches"),
    "one number": (gh.Attention.random(8), "one number"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_needs_the_scalar_route(name):
    box, words = ELSEWHERE[name]
    assert words in elsewhere(box)


@pytest.mark.parametrize("keywords", [{"tolerance": 1e-3}, {"rtol": 1e-3}])
def test_promises_are_for_the_scalar_route(keywords):
    assert "tolerance" in elsewhere(head(8, 8), learn_vector_attention, **keywords)


def normalised(dim=16):
    inner = layer(dim, 2)

    def box(X):
        y = inner(X)
        return (y - y.mean(axis=-1, keepdims=True)) / y.std(axis=-1, keepdims=True)

    return box


def hard_attention(dim=16):
    inner = layer(dim, 2)

    def box(X):
        keys = inner.keys_against(X[:, -1])
        chosen = np.einsum("bnd,hbd->bhn", X, keys).argmax(axis=2)
        tokens = np.take_along_axis(X, chosen[:, :, None], axis=1)
        return np.einsum("bhd,hdk->bk", tokens, inner.v) + inner.bias

    return box


def residual(dim=16):
    inner = layer(dim, 2)
    return lambda X: inner(X) + X[:, -1]


def cooler_when_longer(dim=16):
    inner = layer(dim, 2)
    models = [gh.MultiHead([gh.Attention(h.W / n, h.v) for h in inner.heads]) for n in range(1, 20)]
    return lambda X: models[X.shape[1] - 1](X)


def positions(dim=16):
    inner, rng = layer(dim, 2), np.random.default_rng(0)
    where = rng.standard_normal((64, dim))
    return lambda X: inner(X + where[: X.shape[1]])


IMPOSTORS = [normalised, hard_attention, residual, cooler_when_longer, positions]


@pytest.mark.parametrize("learn", [learn_vector, learn_vector_attention])
@pytest.mark.parametrize("make", IMPOSTORS)
def test_what_is_no_sum_of_heads(make, learn):
    with pytest.raises((gh.TargetMismatch, gh.AccuracyUnreachable, gh.NotConverged)):
        attempt(make(), learn, dim=16)


def test_evidence_names_the_law():
    with pytest.raises(gh.TargetMismatch, match="one token alone") as caught:
        attempt(normalised(), dim=16)
    assert caught.value.evidence is not None


def test_a_large_bias_in_float32_is_no_evidence():
    """Rounding of the bias drowns what short tokens do; that is no reason to accuse the box."""
    box = head(16, 16, key_bias=1.0, bias=100.0, dtype=np.float32)
    with suppress(gh.AccuracyUnreachable):
        assert attempt(box, learn_vector_attention, dtype="float32") <= 1e-3


def test_evidence_of_a_residual():
    with pytest.raises(gh.TargetMismatch, match="hardly apart"):
        attempt(residual(), dim=16)


def test_a_layer_is_not_one_head():
    with pytest.raises((gh.TargetMismatch, gh.AccuracyUnreachable)):
        attempt(layer(16, 2), learn_vector_attention)


def test_heads_hardly_apart():
    """Two heads whose W differ by 1e-7 may be told apart, merged or refused, not confused."""
    rng = np.random.default_rng(0)
    box = layer(16, 2, biases=0.0)
    one, two = box.heads
    near = gh.MultiHead([one, gh.Attention(one.W + 1e-7 * rng.standard_normal((16, 16)), two.v)])
    oracle = gh.ValueOracle(near)
    try:
        found = learn_vector(oracle, rng)
    except gh.GlassheadError:
        return
    if isinstance(found, NeedsScalarRoute):
        return
    X = rng.standard_normal((50, 4, 16))
    assert np.abs(found.model(X) - near(X)).max() <= 1e-5


@pytest.mark.parametrize("budget", [3, 15, 60, 150, 200])
def test_budget(budget):
    oracle = Budgeted(gh.ValueOracle(layer(32, 4)), budget)
    with pytest.raises(gh.BudgetExceeded) as caught:
        learn_vector(oracle, np.random.default_rng(0))
    assert ("v" in caught.value.known) == (budget >= 34)
    assert ("v_h" in caught.value.known) == (budget >= 180)
    assert oracle.queries <= budget


def test_accuracy():
    with pytest.raises(gh.AccuracyUnreachable, match="asked for"):
        learn_vector_attention(gh.ValueOracle(head(8, 8)), np.random.default_rng(0), accuracy=1e-30)


@pytest.mark.parametrize(("make", "learn", "least"), [
    (lambda seed: head(16, 16, key_bias=1.0, dtype=np.float32, seed=seed), learn_vector_attention, 10),
    (lambda seed: layer(16, 2, dtype=np.float32, seed=seed), learn_vector, 5),
])  # fmt: skip
def test_float32(make, learn, least):
    """To 1e-3 or refused, and the first often enough."""
    done = 0
    for seed in range(20):
        try:
            assert attempt(make(seed), learn, seed, dtype="float32") <= 1e-3
            done += 1
        except (gh.TargetMismatch, gh.AccuracyUnreachable, gh.NotConverged):
            pass
    assert done >= least
