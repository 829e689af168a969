import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glasshead as gh

from ..helpers import head
from .models import changed, disguised, nearby, random_model


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from([None, 2]), st.integers(0, 2**16))
def test_is_a_distance_of_functions(dim, heads, outputs, seed):
    rng = np.random.default_rng(seed)
    a, b = (random_model(dim, heads, rng, outputs=outputs, key_bias=True, bias=True) for _ in range(2))
    assert gh.distance(a, disguised(a, rng)) < 1e-9
    assert gh.distance(a, b) == pytest.approx(gh.distance(b, a))
    assert 0 < gh.distance(a, b) <= 2
    assert gh.distance(a, a) == 0


@pytest.mark.parametrize("what", ["W", "v", "bias"])
@pytest.mark.parametrize("size", [1e-8, 1e-4, 0.1])
def test_measures_the_head_that_moved(what, size):
    rng = np.random.default_rng(0)
    model = random_model(6, 5, rng)
    far = gh.distance(model, nearby(model, what, size, rng))
    longest, shortest = (pick(np.linalg.norm(model.v, axis=1)) for pick in (max, min))
    least, most = {"W": (0.9, 1.0), "v": (0.9, longest / shortest), "bias": (0.1, 1.0)}[what]
    assert least * size <= far <= 1.0001 * most * size


def test_numbers_of_heads_and_shapes():
    one = head(4)
    assert gh.distance(one, gh.MultiHead([one])) == 0
    assert gh.distance(one, gh.MultiHead.random(4, heads=2)) == np.inf
    assert gh.distance(one, gh.MultiHead.random(5, heads=1)) == np.inf
    assert gh.distance(gh.MultiHead([changed(one, v=np.zeros(4))]), gh.MultiHead([one])) == np.inf
    with pytest.raises(TypeError, match="got str"):
        gh.distance(one, "head")


def test_up_to_scale_is_one_factor_for_all_heads():
    model = random_model(4, 3, np.random.default_rng(0), bias=True)
    longer = gh.MultiHead([changed(h, v=3 * h.v) for h in model.heads], bias=3 * model.bias)
    uneven = gh.MultiHead([changed(h, v=(1 + k) * h.v) for k, h in enumerate(model.heads)], bias=model.bias)
    assert gh.distance(model, longer) > 0.5
    assert gh.distance(model, longer, up_to_scale=True) < 1e-15
    assert gh.distance(model, uneven, up_to_scale=True) > 0.1


@pytest.mark.parametrize("heads", [1, 3])
def test_positions_count_up_to_what_biases_take(heads):
    """A vector that is added at every place is a key bias and a bias."""
    rng = np.random.default_rng(1)
    model = gh.Attention.random(4, seed=1) if heads == 1 else gh.MultiHead.random(4, heads=heads, seed=1)
    table, p, X = rng.standard_normal((8, 4)), rng.standard_normal(4), rng.standard_normal((5, 6, 4))
    parts = [gh.Attention(h.W, h.v, key_bias=h.key_bias - h.W @ p) for h in model.heads]
    bias = model.bias - sum(p @ h.v for h in model.heads)
    other = parts[0].with_values(parts[0].v, bias) if heads == 1 else gh.MultiHead(parts, bias=bias)
    a, b = gh.Placed(model, table), gh.Placed(other, table + p)
    np.testing.assert_allclose(a(X), b(X), atol=1e-12)
    assert gh.distance(a, b) < 1e-13
    assert gh.distance(a, gh.Placed(model, table[:5])) == 0
    moved = table.copy()
    moved[3] += 1e-3
    assert 1e-5 < gh.distance(a, gh.Placed(model, moved)) < 1e-2
    assert gh.distance(a, gh.Placed(gh.Attention.random(5), np.zeros((8, 5)))) == np.inf


def test_a_norm_in_front_is_part_of_a_head():
    W = gh.Attention.random(4, seed=1).W

    def far(one, other):
        return gh.distance(*(gh.FrontHead(W, norm=norm) for norm in (one, other)))

    layer = gh.Norm("layer", 1e-5)
    assert far(None, None) == far(layer, layer) == 0
    assert far(None, layer) == far(layer, gh.Norm("rms", 1e-5)) == np.inf
    assert far(layer, gh.Norm("layer", 2e-5)) == pytest.approx(0.5)
    assert gh.distance(gh.Attention.random(4, seed=1), gh.FrontHead(W, norm=layer)) == np.inf


LAYER, RMS = gh.Norm("layer", 1e-5), gh.Norm("rms", 1e-5)


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        ({}, {}, 0),
        ({}, {"norms": [LAYER]}, np.inf),
        ({"norms": [LAYER]}, {"norms": [RMS]}, np.inf),
        ({"norms": [LAYER]}, {"norms": [gh.Norm("layer", 2e-5)]}, 0.5),
        ({"norms": [LAYER]}, {"norms": [gh.Norm("layer")]}, 0),  # an eps that nobody knows
        ({}, {"norms": [gh.Norm("layer", None, "behind")]}, 0),  # which one of the two does not know
        ({"norms": [gh.Norm("rms", None, "behind")]}, {"norms": [gh.Norm("layer", None, "behind")]}, np.inf),
        ({"residual_map": "none"}, {"residual_map": "none"}, 0),
        ({"residual_map": "none"}, {}, np.inf),
        ({"parallel": True}, {}, np.inf),
        ({"slopes": [0.1, 0.2]}, {}, np.inf),
        ({"rotary": gh.Rotary.random(4, heads=2, rank=2)}, {}, np.inf),
    ],
)
def test_what_stands_around_the_heads_of_a_block_counts(one, other, far):
    heads = [gh.Attention.random(4, seed=seed).with_values((1 + seed) * np.eye(4)) for seed in range(2)]
    a, b = gh.Block(heads, **one), gh.Block(heads, **other)
    assert gh.distance(a, b) == gh.distance(b, a) == pytest.approx(far)


def test_positions_of_a_block_are_compared_as_they_are():
    block, table = gh.Block([gh.Attention.random(4, seed=1).with_values(np.eye(4))]), np.eye(4)
    assert gh.distance(gh.Placed(block, table), gh.Placed(block, table)) == 0
    assert gh.distance(gh.Placed(block, table), gh.Placed(block, 2 * table)) == 0.5
    with pytest.raises(TypeError, match=r"expected two gh.Placed, or none, got one and a Block; its \.model"):
        gh.distance(gh.Placed(block, table), block)
