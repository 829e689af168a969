"""What comes back: a network that answers, is saved, and says how it was found; and the model class by itself."""

from __future__ import annotations

import numpy as np
import pytest
from network_cases import Counting

import glasshead as gh


@pytest.fixture(scope="module")
def found():
    return gh.recover_network(gh.TwoLayer.random(8, 10, seed=1), seed=3)


def test_the_same_seed_asks_the_same(found):
    again = gh.recover_network(gh.TwoLayer.random(8, 10, seed=1), seed=3)
    assert np.array_equal(found.W1, again.W1)
    assert found.queries == again.queries


def test_the_result_says_how_it_was_found(found):
    assert "span 10 dimensions" in found.reason
    assert "misfits of activations: gelu " in found.reason
    assert found.bound is None
    assert 0.99 < found.confidence < 1
    assert found.checked.sequences == 72
    assert "72 fresh inputs agree to" in found.reason
    assert found.reason.endswith("a model that is wrong on one query in four would pass in 0.0% of cases")
    assert "72 fresh inputs are answered as predicted" in str(found)
    assert found.residual < 1e-12


def test_answers_have_the_shape_of_the_box():
    model = gh.TwoLayer.random(6, 5, outputs=1, seed=2)
    found = gh.recover_network(Counting(model, single=True))
    x = np.random.default_rng(0).standard_normal((7, 6))
    assert found(x).shape == (7,)
    assert found(x[0]).shape == ()
    assert np.allclose(found(x), model(x)[:, 0], rtol=1e-11)


def test_progress_is_reported():
    seen = []
    gh.recover_network(gh.TwoLayer.random(6, 5, seed=2), progress=lambda *said: seen.append(said))
    assert {what for _, _, what in seen} >= {"looking", "second derivatives", "refining", "checking"}
    assert all(done <= planned for done, planned, _ in seen)


@pytest.mark.parametrize("gated", [False, True])
def test_models_are_saved_and_loaded(gated, tmp_path):
    model = gh.TwoLayer.random(5, 7, outputs=2, activation="silu", gated=gated)
    again = gh.load(gh.save(model, tmp_path / "network.safetensors"))
    x = np.random.default_rng(0).standard_normal((3, 5))
    assert again.activation == "silu"
    assert np.array_equal(again(x), model(x))


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "silu"])
def test_derivatives_are_those_of_the_value(activation):
    act, z, h = gh.TwoLayer.random(2, 2, activation=activation).act, np.linspace(-7, 7, 701), 1e-5
    for f, slope in ((act.value, act.first), (act.first, act.second), (act.second, act.third)):
        assert np.abs((f(z + h) - f(z - h)) / (2 * h) - slope(z)).max() < 1e-8
    assert np.abs(act.value(-z) - act.value(z) + z).max() < 1e-14


def test_torch_has_the_same_activations():
    torch = pytest.importorskip("torch")
    z = np.linspace(-9, 9, 101)
    for name, theirs in (
        ("gelu", torch.nn.GELU()),
        ("gelu-tanh", torch.nn.GELU("tanh")),
        ("silu", torch.nn.SiLU()),
        ("relu", torch.nn.ReLU()),
    ):
        ours = gh.TwoLayer([[1.0]], None, [[1.0]], None, activation=name)(z[:, None])[:, 0]
        assert np.abs(ours - theirs(torch.tensor(z)).numpy()).max() < 1e-14


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (([1.0], None, [[1.0]], None), "W1 of shape"),
        (([[1.0]], [1.0, 2.0], [[1.0]], None), "b1 of shape"),
        (([[1.0]], None, [[1.0, 2.0]], None), "W2 of shape"),
        (([[1.0]], None, [[1.0]], [1.0, 2.0]), "b2 of shape"),
    ],
)
def test_weights_must_fit_together(weights, words):
    with pytest.raises(ValueError, match=words):
        gh.TwoLayer(*weights, activation="gelu")


def test_members_of_rank_one_are_the_same_by_torch():
    pytest.importorskip("torch")
    from glasshead._network import gpu, rank_one
    from glasshead._network.span import to_matrices, to_vectors

    rng = np.random.default_rng(0)
    basis = np.linalg.qr(to_vectors(rng.standard_normal((30, 12))).T)[0].T
    X = rank_one.climbed(basis, rng.standard_normal((20, 12)))
    settings = rank_one.CLIMBS, rank_one.SHIFT, rank_one.SETTLED_CLIMB
    again = gpu.climbed_there("cpu", to_matrices(basis, 12), X, *settings)
    assert np.abs(again - X).max() < 1e-4
    settings = rank_one.SHARPENING_STEPS, rank_one.REGULAR, rank_one.EXACT
    there = gpu.sharpened_there("cpu", to_matrices(basis, 12), X, *settings)
    assert np.abs(there - rank_one.sharpened(basis, X)).max() < 1e-12
    assert gpu.device_for(0.0) is None
