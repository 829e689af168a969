import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from ..helpers import head, sequences


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(sum), st.integers(0, 2**16))
def test_other_parameters_same_function(dim, weights, seed):
    model, weights = head(dim, seed=seed), np.array(weights) / np.sum(weights)
    made = [gh.paper.proposition_7_1(model, w) for w in (weights, np.roll(np.eye(len(weights))[0], 1))]
    for one in made:
        assert len(one.heads) == len(weights)
        assert all(np.array_equal(W, model.W) for W in one.W)
        assert gh.equivalent(one, model)
    for X in sequences(dim, [1, 2, 5]):
        np.testing.assert_allclose(made[0](X), made[1](X), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(made[0].v, weights[:, None] * model.v)


def test_the_parameters_differ():
    halves, uneven = (gh.paper.proposition_7_1(head(4), weights) for weights in ([0.5, 0.5], [0.25, 0.75]))
    assert np.abs(halves.v - uneven.v).max() > 0.1
    assert gh.distance(halves, uneven) < 1e-15


def test_biases_and_factors_are_kept():
    model = head(3, key_bias=1.0, bias=1.0)
    X = sequences(3, [4])[0]
    np.testing.assert_allclose(gh.paper.proposition_7_1(model, [0.5, 0.5])(X), model(X), rtol=1e-12)
    assert gh.paper.proposition_7_1(gh.Attention.random(6, rank=2), [1.0]).heads[0]._part.shape == (2, 6)


@pytest.mark.parametrize(
    ("model", "weights", "error", "match"),
    [
        (gh.MultiHead.random(3, heads=2), [1.0], TypeError, "expected a gh.Attention, got MultiHead"),
        (gh.Attention(np.eye(2), [0.0, 0.0]), [1.0], ValueError, "v != 0"),
        (head(2), [0.5, 0.6], ValueError, "add up to 1"),
        (head(2), [1.5, -0.5], ValueError, "non-negative"),
        (head(2), [], ValueError, r"weights of shape \(heads,\)"),
        (head(2), [[1.0]], ValueError, r"weights of shape \(heads,\)"),
    ],
)
def test_refuses(model, weights, error, match):
    with pytest.raises(error, match=match):
        gh.paper.proposition_7_1(model, weights)
