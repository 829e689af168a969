"""A network is recovered as a function, exactly, at a little more than one query per parameter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relu_cases import Net, degenerate, gaussian

import glasshead as gh

SIZES = [(1, 1), (1, 4), (2, 1), (2, 5), (2, 30), (3, 3), (4, 4), (16, 8), (8, 16), (16, 64)]
FLAWS = [
    *("parallel", "duplicate", "opposite", "two opposite pairs", "opposite and linear", "cancelling"),
    *("no inputs", "no output", "all dead", "rank 2", "tiny 1e-6", "tiny 1e-10"),
]


@pytest.mark.parametrize(("d", "m"), SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_without_biases(d, m, seed):
    net = gaussian(d, m, seed=seed)
    found = gh.recover_relu(net, d, seed=seed)
    assert found.queries == net.asked
    assert net.error(found) <= 1e-10
    assert not found.b.any()
    assert found.c == 0
    assert found.width <= (m if d > 1 else 1) + 2


@pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 4), (2, 5), (2, 20), (16, 8), (16, 32), (64, 32)])
@pytest.mark.parametrize("seed", range(3))
def test_with_biases(d, m, seed):
    net = gaussian(d, m, biases=1.0, seed=seed)
    found = gh.recover_relu(net, d, seed=seed)
    assert net.error(found) <= 1e-9
    assert found.width <= m + 2
    assert m * d < 100 or net.asked <= 1.6 * (m * (d + 1) + d + 1)


def test_a_wide_network_at_little_more_than_one_query_per_parameter():
    net = gaussian(32, 128)
    found = gh.recover_relu(net, 32)
    assert net.error(found) <= 1e-9
    assert found.queries <= 1.35 * (128 * 32 + 32)


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("biases", [0.0, 1.0])
def test_degenerate_neurons(flaw, biases):
    net, fewest = degenerate(flaw, biases)
    found = gh.recover_relu(net, 8)
    assert net.error(found) <= 1e-11
    assert found.width == fewest
    assert ", proved fewest" in found.reason


def test_the_smallest_of_six_neurons_is_found_at_one_part_in_ten_billion():
    net, _ = degenerate("tiny 1e-10", 0.0)
    found = gh.recover_relu(net, 8)
    tiny = net.A[:, -1] * abs(net.w[-1])
    columns = found.A * np.abs(found.w)
    assert np.abs(np.abs(columns.T @ tiny / (tiny @ tiny)) - 1).min() <= 1e-2


@pytest.mark.parametrize("gap", [1e-3, 1e-6])
def test_nearly_parallel_neurons_are_told_apart(gap):
    net = gaussian(8, 6)
    net.A[:, 1] = net.A[:, 0] + gap * net.A[:, 1]
    found = gh.recover_relu(net, 8)
    assert net.error(found) <= 1e-11
    assert found.width == 6


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize(("slope", "constant", "width"), [(0.0, 0.0, 0), (0.0, 0.7, 0), (1.3, 0.0, 2), (1.3, -0.7, 2)])
def test_linear_and_constant_functions(d, slope, constant, width):
    found = gh.recover_relu(lambda x: slope * x.sum(axis=1) + constant, d)
    x = np.random.default_rng(0).standard_normal((100, d))
    assert np.allclose(found(x), slope * x.sum(axis=1) + constant, rtol=1e-12, atol=1e-12)
    assert found.width == width
    assert ", proved fewest" in found.reason


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("biases", [0.0, 1.0])
def test_answers_of_any_size(scale, biases):
    net = gaussian(8, 6, biases=biases)
    scaled = Net(net.A, scale * net.w, net.b, scale * net.c)
    assert scaled.error(gh.recover_relu(scaled, 8)) <= 1e-11


@pytest.mark.parametrize("radius", [1e-3, 0.1, 10.0, 1e3])
@pytest.mark.parametrize("seed", range(2))
def test_biases_of_any_size(radius, seed):
    net = gaussian(8, 6, biases=radius, seed=seed)
    found = gh.recover_relu(net, 8, seed=seed)
    assert net.error(found, scale=radius) <= 1e-10
    assert net.error(found) <= 1e-10


@pytest.mark.parametrize("name", ["ones", "integers", "identity", "sparse"])
@pytest.mark.parametrize("biases", [0.0, 1.0])
def test_weights_on_a_grid(name, biases):
    rng = np.random.default_rng(4)
    A = {
        "ones": rng.choice([-1.0, 1.0], (8, 12)),
        "integers": rng.integers(-3, 4, (8, 12)).astype(float),
        "identity": np.eye(8),
        "sparse": rng.standard_normal((8, 12)) * (rng.random((8, 12)) < 0.25),
    }[name]
    net = Net(A, rng.choice([-1.0, 2.0], A.shape[1]), biases * rng.integers(-2, 3, A.shape[1]))
    assert net.error(gh.recover_relu(net, 8)) <= 1e-10


@given(st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_small_network(data):
    """Small whole weights: zeros, parallel, opposite and cancelling neurons come up all the time."""
    d, m = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    numbers = st.integers(-2, 2).map(float)
    A = np.array(data.draw(st.lists(numbers, min_size=d * m, max_size=d * m))).reshape(d, m)
    w, b = (np.array(data.draw(st.lists(numbers, min_size=m, max_size=m))) for _ in range(2))
    net = Net(A, w, b, data.draw(numbers))
    found = gh.recover_relu(net, d)
    assert found.queries == net.asked
    assert net.error(found, n=500) <= 1e-10
    assert found.width <= m + 2
