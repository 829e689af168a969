"""ReLU networks of which only a sphere may be asked: the same function there, and nothing else accepted."""

from __future__ import annotations

import numpy as np
import pytest
from network_cases import Counting

import glasshead as gh

DIM = 8


def on_sphere(n: int, radius: float = np.sqrt(DIM)) -> np.ndarray:
    x = np.random.default_rng(7).standard_normal((n, DIM))
    return radius * x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(("width", "outputs", "biases"), [(12, 8, 0.3), (30, 8, 0.6), (20, 3, 0.3)])
@pytest.mark.parametrize("seed", range(2))
def test_the_network_comes_out(width, outputs, biases, seed):
    model = gh.TwoLayer.random(DIM, width, outputs=outputs, activation="relu", biases=biases, seed=seed)
    box = Counting(model)
    found = gh.recover_network(box, sphere=True)
    assert found.queries == box.asked
    assert np.allclose(np.concatenate(box.lengths), np.sqrt(DIM), rtol=1e-12)
    assert (found.activation, found.width) == ("relu", width)
    x = on_sphere(4000)
    assert np.abs(found(x) - model(x)).max() < 1e-8
    mine, true = (np.c_[each.W1, each.b1] for each in (found.model, model))
    mine, true = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (mine, true))
    apart = np.linalg.norm(mine[None] - true[:, None], axis=2).min(axis=1)
    side = np.linalg.norm(mine[None] + true[:, None], axis=2).min(axis=1)
    assert np.minimum(apart, side).max() < 1e-8
    assert outputs < DIM or apart.max() < 1e-8  # with few outputs several choices of sides are the same function


def test_what_is_linear_too_becomes_neurons():
    model, L = (
        gh.TwoLayer.random(DIM, 10, activation="relu", seed=1),
        np.random.default_rng(1).standard_normal((DIM, 8)),
    )
    found = gh.recover_network(lambda x: model(x) + x @ L, DIM, sphere=True)
    x = on_sphere(500)
    assert np.abs(found(x) - model(x) - x @ L).max() < 1e-8


def relu(z):
    return np.maximum(z, 0)


g = np.random.default_rng(3)
A, B, C = g.standard_normal((3, DIM, DIM)) / np.sqrt(DIM)
WRONG = {
    "three layers": lambda x: relu(relu(x @ A) @ B) @ C,
    "maxout": lambda x: np.maximum(np.maximum(x @ A, x @ B), x @ C),
    "a norm behind": lambda x: (y := relu(x @ A + 0.1) @ B) / np.linalg.norm(y, axis=1, keepdims=True),
    "two experts": lambda x: np.where(x[:, :1] > 0, relu(x @ A) @ B, relu(x @ C) @ B),
    "a gate": lambda x: (relu(x @ A + 0.1) * (x @ B)) @ C,
    "three decimals": lambda x: np.round(relu(x @ A + 0.1) @ B, 3),
    "one number": lambda x: (relu(x @ A + 0.1) @ B)[:, :1],
    "steps": lambda x: (x @ A > 0.1) @ B,
    "absolute values, squared": lambda x: np.abs(x @ A) ** 1.5 @ B,
}


@pytest.mark.parametrize("kind", WRONG)
def test_others_are_refused(kind):
    with pytest.raises((gh.NotConverged, gh.TargetMismatch)):
        gh.recover_network(WRONG[kind], DIM, sphere=True, activation="relu" if kind == "a gate" else "auto")
