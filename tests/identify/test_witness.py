import numpy as np
import pytest

import glasshead as gh

from ..helpers import head, sequences
from .models import changed, random_model


def pair(key_bias=None, outputs=None):
    one, other = random_model(4, 2, np.random.default_rng(0), outputs=outputs, key_bias=bool(key_bias)).heads
    return gh.MultiHead([one, other, changed(one, v=other.v)], bias=np.ones(one.v.shape[1:]))


def silent(model):
    return gh.MultiHead([*model.heads, changed(model.heads[0], W=model.heads[0].W.T, v=0 * model.heads[0].v)])


FREE = [
    pair(),
    pair(key_bias=True, outputs=3),
    silent(gh.MultiHead.random(3, heads=2)),
    gh.Attention(np.eye(3), np.zeros(3), bias=2.0),
    gh.Attention(np.zeros((2, 2)), np.zeros((2, 3))),
    gh.paper.proposition_7_1(gh.Attention.random(5, rank=2), [0.5, 0.25, 0.25]),
    gh.paper.proposition_7_1(head(1), [1.0, 0.0]),
]


@pytest.mark.parametrize("model", FREE, ids=repr)
def test_other_parameters_same_function(model):
    other = gh.witness(model)
    assert type(other) is type(model)
    assert other.v.shape == model.v.shape
    assert max(np.linalg.norm(other.W - model.W), np.linalg.norm(other.v - model.v)) > 0.01
    assert gh.equivalent(model, other)
    for X in sequences(model.dim, [1, 2, 4]):
        np.testing.assert_allclose(other(X), model(X), atol=1e-12)


def test_by_seed():
    one, again, other = (gh.witness(pair(), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.v, again.v)
    assert not np.allclose(one.v, other.v)


@pytest.mark.parametrize(
    "model", [head(3), gh.MultiHead([head(3)]), gh.MultiHead.random(4, heads=3), gh.canonical(pair())], ids=repr
)
def test_canonical_parameters_are_unique(model):
    with pytest.raises(ValueError, match="unique among all with as many heads, up to order"):
        gh.witness(model)


def test_heads_that_are_merely_close_are_not_free():
    one = head(4)
    with pytest.raises(ValueError, match="unique"):
        gh.witness(gh.MultiHead([one, changed(one, W=one.W * (1 + 1e-10))]))


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="got float"):
        gh.witness(1.0)
