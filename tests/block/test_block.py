"""Whole blocks: every head, its key bias and its value map, from answers alone."""

import numpy as np
import pytest

import glasshead as gh

from .boxes import Box, relu, torch_layer

VARIANTS = {
    "no norm": Box(24, (8, 8, 8), 1, first="none", last="none"),
    "LayerNorm": Box(24, (8, 8, 8), 2, eps=1e-12),
    "eps of torch": Box(24, (8, 8, 8), 3),
    "RMSNorm": Box(24, (8, 8, 8), 4, first="rms", last="rms"),
    "a norm only behind the network": Box(24, (12, 12), 5, first="none"),
    "a ReLU network": Box(24, (8, 8, 8), 6, activation=relu),
    "muted outputs": Box(24, (12, 12), 7, muted=2),
    "ranks that do not fill the space": Box(24, (7, 7, 7), 8),
    "unequal ranks": Box(24, (6, 8, 10), 9),
    "one head": Box(24, (24,), 10),
    "one head of low rank": Box(24, (10,), 11),
    "fewer outputs": Box(24, (12, 12), 12, first="none", last="none", outputs=20),
}


def worst_W(found, truth):
    """The largest error of a head's W, heads told by their value maps."""
    keep = np.eye(found.dim) - found.free.T @ found.free
    pairs = [(min(found.heads, key=lambda each: np.linalg.norm(each.v - head.v @ keep)), head) for head in truth.heads]
    return max(np.linalg.norm(mine.W - head.W) for mine, head in pairs)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_head_is_found(name):
    box = VARIANTS[name]
    found = gh.recover(box.oracle, family="block")
    assert worst_W(found.model, box.truth) < found.bound < 1e-6
    assert found.confidence == 0.99
    assert found.heads == len(box.ranks)
    assert gh.distance(found.model, box.truth) < 1e-7
    assert found.model.residual_map == "assumed identity"
    assert "assumed to be the identity" in found.reason
    kinds = {"none": [], "rms": ["rms"], "layer": ["layer"]}[box.first]
    assert [norm.kind for norm in found.model.norms] == kinds
    assert all(n.place == "behind" for n in found.model.norms)


def test_what_is_said_of_the_error_is_true():
    for seed in range(3):
        box = Box(24, (8, 8, 8), seed)
        found = gh.recover(box.oracle, family="block")
        said = float(found.reason.split("to about ")[1].split(" of")[0])
        assert gh.distance(found.model, box.truth) < 3 * said < 1e-6


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_torch_encoder_layer_is_recognised(activation):
    _, oracle, truth = torch_layer(32, 2, 64, seed=3, activation=activation)
    found = gh.recover(oracle)
    assert (found.family, found.heads, found.rank) == ("block", 2, (16, 16))
    assert gh.distance(gh.Block(truth.heads, free=found.model.free), found.model) < 1e-8
    assert found.queries <= gh.plan(32, family="block", heads=2)
    assert found.limit == 96


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_torch_encoder_layer_in_single_precision(activation):
    _, oracle, truth = torch_layer(32, 4, 64, seed=1, activation=activation, dtype="float32")
    found = gh.recover(oracle)
    assert (found.family, found.heads) == ("block", 4)
    assert gh.distance(gh.Block(truth.heads, free=found.model.free), found.model) < 1e-2
    assert worst_W(found.model, truth) < found.bound


def rounded(box, digits):
    return lambda X: np.round(box(X), digits)


def pushed(box, rtol):
    """All answers as far from the truth as they may be, in directions that depend on the tokens."""
    return lambda X: box(X) * (1 + rtol * np.sign(np.sin(1e6 * X[:, -1].sum(axis=-1, keepdims=True))))


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_what_answers_promise_decides_how_well_a_block_is_known(norm):
    box = Box(24, (12, 12), 1, first=norm, last=norm)
    boxes = [(pushed(box, 1e-12), {"rtol": 1e-12}), (rounded(box, 10), {"tolerance": 1e-10})]
    for ask, promise in [*boxes, (pushed(box, 1e-8), {"rtol": 1e-8})]:
        found = gh.recover(gh.ValueOracle(ask, 24, **promise))
        assert (found.family, found.heads) == ("block", 2)
        assert worst_W(found.model, box.truth) < found.bound < 1e7 * sum(promise.values())


def test_an_accuracy_is_met_or_refused():
    box = Box(24, (8, 8, 8), 2)
    found = gh.recover(box.oracle, accuracy=1e-6)
    assert found.family == "block"
    assert found.bound <= 1e-6
    with pytest.raises(gh.AccuracyUnreachable, match="only show") as refused:
        gh.recover(box.oracle, family="block", accuracy=1e-14)
    assert worst_W(refused.value.best.model, box.truth) < refused.value.best.bound


def test_predictions_ask_one_token_each():
    box = Box(16, (8, 8), 1)
    found = gh.recover(box.oracle, family="block")
    X, before = np.random.default_rng(0).standard_normal((5, 9, 16)), box.asked
    assert found.model.asked == 0
    answers = found.model(X)
    assert (found.model.asked, box.asked - before) == (5, 5)
    np.testing.assert_allclose(answers, box(X), atol=1e-8)
    np.testing.assert_allclose(found.model(X[0]), answers[0])


def test_the_residual_map_is_an_assumption():
    half = Box(16, (8, 8), 1, first="none", last="none", residual=0.5)
    found = gh.recover(half.oracle, family="block")
    doubled = [gh.Attention(h.W, 2 * h.v, key_bias=h.key_bias) for h in half.truth.heads]
    assert gh.distance(found.model, gh.Block(doubled)) < 1e-7  # twice the truth: nobody could tell
    unknown = gh.recover(half.oracle, family="block", residual_map=None)
    assert unknown.model.residual_map == "unknown"
    assert "up to one invertible map" in unknown.reason
    S = half.residual * np.eye(16) + sum(half.P)
    mapped = [gh.Attention(h.W, h.v @ np.linalg.inv(S), key_bias=h.key_bias) for h in half.truth.heads]
    assert gh.distance(unknown.model, gh.Block(mapped, residual_map="unknown")) < 1e-7
    assert gh.distance(unknown.model, found.model) == np.inf
    X = np.random.default_rng(0).standard_normal((5, 9, 16))
    np.testing.assert_allclose(unknown.model(X), half(X), atol=1e-7)
    np.testing.assert_allclose(found.model(X), half(X), atol=1e-7)


def test_no_residual_connection_is_noticed():
    box = Box(16, (8, 8), 1, first="none", last="none", residual=0.0)
    found = gh.recover(box.oracle, family="block")
    assert found.model.residual_map == "none"
    assert "no residual connection" in found.reason
    X = np.random.default_rng(0).standard_normal((5, 9, 16))
    np.testing.assert_allclose(found.model(X), box(X), atol=1e-7)


def test_heads_beside_a_residual_connection_are_a_block_too():
    box = Box(16, (8, 8), 1, first="none", last="none", activation=lambda z: 0 * z)
    found = gh.recover(box.oracle)
    assert found.family == "block"
    assert gh.distance(found.model, box.truth) < 1e-7


def test_limits_and_seeds_are_kept():
    longest = []

    def ask(X):
        longest.append(np.linalg.norm(X, axis=-1).max())
        return box(X)

    box = Box(16, (8, 8), 1, first="none", last="none")
    found = gh.recover(gh.ValueOracle(ask, 16, max_norm=3.0), family="block")
    assert max(longest) <= 3.0
    assert gh.distance(found.model, box.truth) < 1e-6
    first, again = (gh.recover(box.oracle, family="block", seed=5) for _ in range(2))
    assert first.queries == again.queries
    assert gh.distance(first.model, again.model) == 0
    with pytest.raises(gh.BudgetExceeded):
        gh.recover(box.oracle, family="block", budget=600)
    stages = set()
    gh.recover(box.oracle, family="block", progress=lambda done, planned, what: stages.add(what))
    assert {"counting heads", "reading W", "checking on fresh queries"} <= stages


def test_a_block_is_saved_without_what_is_behind_it(tmp_path):
    box = Box(16, (8, 8), 1)
    found = gh.recover(box.oracle, family="block")
    found.save(tmp_path / "run")
    loaded = gh.load_recovery(tmp_path / "run").model
    assert gh.distance(loaded, found.model) == 0
    assert loaded.norms == found.model.norms
    assert loaded.residual_map == found.model.residual_map
    assert np.array_equal(loaded.free, found.model.free)
    with pytest.raises(ValueError, match=r"set block\.behind"):
        loaded(np.zeros((2, 16)))
    loaded.behind = box
    X = np.random.default_rng(0).standard_normal((3, 4, 16))
    np.testing.assert_allclose(loaded(X), found.model(X))


def test_a_random_block_is_saved_whole(tmp_path):
    block = gh.Block.random(12, heads=2, seed=4)
    path = gh.save(block, tmp_path / "block.safetensors")
    X = np.random.default_rng(0).standard_normal((3, 4, 12))
    np.testing.assert_array_equal(gh.load(path)(X), block(X))
    found = gh.recover(gh.load(path))
    assert found.family == "block"
    assert gh.distance(found.model, block) < 1e-8


def test_heads_go_back_into_the_layer_they_came_from():
    torch = pytest.importorskip("torch")
    layer, oracle, _ = torch_layer(32, 2, 64, seed=3)
    found = gh.recover(oracle, family="block")
    X = torch.as_tensor(np.random.default_rng(0).standard_normal((5, 7, 32)))
    with torch.no_grad():
        before = layer(X)[:, -1]
        bias = layer.self_attn.in_proj_bias[64:] @ layer.self_attn.out_proj.weight.T + layer.self_attn.out_proj.bias
        exported = found.model.to_torch(rtol=1e-6)
        exported.out_proj.bias += bias  # which no answer shows apart from what lies behind
        layer.self_attn = exported
        after = layer(X)[:, -1]
    assert float((before - after).abs().max()) < 1e-7
