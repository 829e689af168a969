"""Every weight of a two-layer network, plain or gated, from its answers, wherever it may be asked."""

from __future__ import annotations

import numpy as np
import pytest
from bench.network import weight_error
from network_cases import Counting, recovered

import glasshead as gh

SMOOTH = ["gelu", "gelu-tanh", "silu"]


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_plain_networks_are_recovered_and_recognised(activation, sphere, seed):
    recovered(gh.TwoLayer.random(8, 11, activation=activation, seed=seed), sphere=sphere, seed=seed)


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("sphere", [False, True])
def test_gated_networks_are_recovered_and_recognised(activation, sphere):
    found = recovered(gh.TwoLayer.random(10, 11, activation=activation, gated=True, seed=3), sphere=sphere)
    assert found.gate is not None
    assert found.gate.shape == (11, 10)


@pytest.mark.parametrize("sphere", [False, True])
def test_four_times_as_wide_as_inputs_are_long(sphere):
    found = recovered(gh.TwoLayer.random(16, 64, seed=5), sphere=sphere)
    assert found.queries <= 16_000


@pytest.mark.parametrize("sphere", [False, True])
def test_swiglu_of_the_usual_width(sphere):
    model = gh.TwoLayer.random(16, 42, activation="silu", gated=True, biases=0.0, seed=6)
    assert recovered(model, activation="swiglu", sphere=sphere).queries <= 16_000


@pytest.mark.parametrize(
    ("d", "m", "k"), [(2, 1, 2), (4, 3, 4), (4, 4, 1), (8, 12, 1), (8, 20, 1), (8, 12, 3), (6, 4, 20)]
)
def test_any_number_of_outputs(d, m, k):
    recovered(gh.TwoLayer.random(d, m, outputs=k, seed=1), tol=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 0.03, 30.0, 1e4])
def test_inputs_in_any_unit(scale):
    right = gh.TwoLayer.random(8, 10, seed=2)
    recovered(gh.TwoLayer(scale * right.W1, right.b1, right.W2, right.b2, activation="gelu"))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_answers_in_any_unit(scale):
    right = gh.TwoLayer.random(8, 10, seed=2)
    recovered(gh.TwoLayer(right.W1, right.b1, scale * right.W2, scale * right.b2, activation="gelu"))


def test_on_a_sphere_nothing_else_is_asked():
    box = Counting(gh.TwoLayer.random(8, 10, seed=4))
    gh.recover_network(box, sphere=True, radius=2.0)
    assert np.allclose(np.concatenate(box.lengths), 2.0, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("biases", [0.0, 0.5])
def test_relu_networks_are_the_same_function(k, biases):
    model = gh.TwoLayer.random(6, 8, outputs=k, activation="relu", biases=biases, seed=k)
    found = gh.recover_network(model)
    x = 3 * np.random.default_rng(0).standard_normal((1000, 6))
    assert found.activation == "relu"
    assert np.abs(found(x) - model(x)).max() <= 1e-9 * np.abs(model(x)).max()
    assert found.width == 8


def test_named_relu_skips_the_look_for_bends():
    model = gh.TwoLayer.random(6, 8, activation="relu", seed=1)
    assert gh.recover_network(model, activation="relu").queries < gh.recover_network(model).queries


def test_quick_gelu_is_silu_in_another_unit():
    right = gh.TwoLayer.random(8, 10, activation="silu", seed=7)
    found = gh.recover_network(lambda x: right(1.702 * x) / 1.702, 8)
    assert found.activation == "silu"
    same = gh.TwoLayer(1.702 * right.W1, right.b1, right.W2 / 1.702, right.b2 / 1.702, activation="silu")
    assert weight_error(same, found.model) < 1e-10


def test_what_is_added_linearly_is_carried_by_further_neurons():
    """As a residual connection does: `act(r) - act(-r) = r`."""
    net = gh.TwoLayer.random(6, 7, seed=8)
    found = gh.recover_network(lambda x: x + net(x), 6)
    x = np.random.default_rng(0).standard_normal((500, 6))
    assert np.abs(found(x) - x - net(x)).max() < 1e-11
    assert found.width == 7 + 2 * 6


def test_single_precision_is_recovered_to_that_precision():
    model = gh.TwoLayer.random(8, 10, seed=9)
    weights = [w.astype(np.float32) for w in (model.W1, model.b1, model.W2, model.b2)]
    narrow = gh.TwoLayer(*weights, activation="gelu")
    found = gh.recover_network(lambda x: narrow(x.astype(np.float32)), 8)
    assert weight_error(narrow, found.model) < 1e-4
    assert 1e-9 < found.residual < 1e-5


def test_an_oracle_is_asked_single_tokens():
    model = gh.TwoLayer.random(6, 7, seed=1)
    oracle = gh.ValueOracle(lambda X: model(X[:, 0]), dim=6)
    found = gh.recover_network(oracle)
    assert weight_error(model, found.model) < 1e-10
    assert found.queries == oracle.queries
