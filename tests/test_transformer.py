"""One-layer Transformers: the model, the paper's reduction, and our way through a network that is known."""

from __future__ import annotations

import numpy as np
import pytest

import glasshead as gh
from glasshead._models.transformer import Network
from glasshead._oracles.straightened import Straightened
from glasshead._oracles.views import Antisymmetric

from .helpers import sequences


def transformer(dim, width, rank=None, *, biases=False, key_bias=False, even=False, seed=0) -> gh.Transformer:
    """`even` makes `A w = 0`: every neuron has a twin that looks the other way."""
    rng = np.random.default_rng((dim, width, seed))
    model = gh.Transformer.random(dim, width, rank=rank, seed=seed)
    A, w = (np.c_[model.A, -model.A], np.r_[model.w, model.w]) if even else (model.A, model.w)
    b, c = (rng.standard_normal(len(w)), 0.7) if biases else (None, 0.0)
    return gh.Transformer(model.W, A, w, b=b, c=c, key_bias=rng.standard_normal(dim) if key_bias else None)


def function_error(found: gh.Recovery, target: gh.Transformer) -> float:
    """The largest error over the largest answer, on sequences of 1 to 8 tokens."""
    batches = sequences(target.dim)
    off = max(np.abs(found.model(X) - target(X)).max() for X in batches)
    return float(off / max(np.abs(target(X)).max() for X in batches))


def W_error(found: gh.Recovery, target: gh.Transformer) -> float:
    return float(np.linalg.norm(found.model.W - target.W) / np.linalg.norm(target.W))


# The model.


@pytest.mark.parametrize("length", [1, 2, 5])
def test_is_its_definition(length):
    model = transformer(4, 6, biases=True, key_bias=True)
    X = sequences(4, [length])[0]
    for x, got in zip(X, model(X), strict=True):
        scores = x @ (model.W @ x[-1] + model.key_bias)
        attended = np.exp(scores) / np.exp(scores).sum() @ x
        expected = model.w @ np.maximum(model.A.T @ attended + model.b, 0) + model.c
        assert got == pytest.approx(expected, rel=1e-12)
        assert model(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rank", [None, 2])
def test_comes_back_from_a_file(tmp_path, rank):
    model = gh.Transformer.random(5, 7, rank=rank, seed=3)
    again = gh.load(gh.save(model, tmp_path / "model.safetensors"))
    assert repr(again) == repr(model)
    for X in sequences(5):
        np.testing.assert_array_equal(again(X), model(X))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"A": np.ones((3, 4))}, r"expected A of shape \(2, m\), got shape \(3, 4\)"),
        ({"w": np.ones(3)}, r"expected w of shape \(4,\), one weight per column of A"),
        ({"b": np.ones(3)}, r"expected b of shape \(4,\), like w"),
        ({"c": np.ones(2)}, "expected one number c"),
        ({"key_bias": np.ones(3)}, r"expected key_bias of shape \(2,\)"),
        ({"W": np.ones((2, 3))}, r"expected W of shape \(d, d\)"),
    ],
)
def test_wrong_shapes_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        gh.Transformer(**{"W": np.eye(2), "A": np.ones((2, 4)), "w": np.ones(4)} | wrong)


@pytest.mark.parametrize(
    ("args", "message"), [((0, 3), "dim >= 1"), ((3, 0), "width >= 1"), ((3, 2, 4), "rank from 1")]
)
def test_random_refuses(args, message):
    with pytest.raises(ValueError, match=message):
        gh.Transformer.random(*args)


def test_distance_is_up_to_what_no_query_sees():
    model = transformer(4, 6, biases=True)
    order = np.random.default_rng(0).permutation(6)
    other = gh.Transformer(model.W, 2 * model.A[:, order], model.w[order] / 2, b=2 * model.b[order], c=model.c)
    assert gh.distance(model, other) < 1e-14
    assert gh.distance(model, gh.Transformer(2 * model.W, model.A, model.w, b=model.b, c=model.c)) == pytest.approx(0.5)
    assert gh.distance(model, gh.Transformer(model.W, model.A, 2 * model.w, b=model.b, c=model.c)) > 0.1
    assert gh.distance(model, transformer(5, 6)) == np.inf
    assert gh.distance(gh.FrontHead(model.W), model) == 0
    with pytest.raises(TypeError, match="expected two models with one head each, got MultiHead"):
        gh.distance(gh.FrontHead(model.W), gh.MultiHead.random(4, 2))


# Seen through oracles.


def test_the_antisymmetric_part_is_a_plain_head():
    target = transformer(5, 9)
    plain = gh.Attention(target.W, target.A @ target.w)
    oracle = Antisymmetric(gh.ValueOracle(target, tolerance=1e-3))
    for X in sequences(5):
        np.testing.assert_allclose(oracle(X), plain(X), rtol=1e-9, atol=1e-11)
    assert oracle.tolerance == 2e-3
    assert oracle.queries == 2 * sum(len(X) for X in sequences(5))


@pytest.mark.parametrize("key_bias", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_straightened_is_a_plain_head(biases, key_bias):
    target = transformer(6, 20, biases=biases, key_bias=key_bias)
    oracle = Straightened(gh.ValueOracle(target), target.network, np.random.default_rng(0))
    plain = gh.Attention(target.W, oracle.values, key_bias=target.key_bias)
    rng = np.random.default_rng(1)
    q, keys = 1e-2 * rng.standard_normal((50, 6)), max(1.0, oracle.shortest) * rng.standard_normal((50, 6))
    q *= 1 / max(1.0, oracle.shortest)
    X = np.stack([q + keys, q], axis=1)
    np.testing.assert_allclose(oracle(X), plain(X), rtol=1e-7, atol=1e-7 * np.abs(plain(X)).max())
    asked = oracle.queries
    np.testing.assert_allclose(oracle(X[:, :1]), plain(X[:, :1]), rtol=1e-9, atol=1e-9)
    assert oracle.queries == asked
    with pytest.raises(ValueError, match="one or two tokens"):
        oracle(np.ones((1, 3, 6)))


def test_solving_finds_what_was_put_in():
    """Any weight, on segments along which the network is monotone."""
    rng = np.random.default_rng(0)
    network = Network(rng.uniform(0.1, 1, (3, 8)), rng.uniform(0.1, 1, 8), rng.standard_normal(8), 0.5)
    q, keys, alpha = rng.standard_normal((40, 3)), rng.uniform(0, 9, (40, 3)), rng.uniform(0, 1, 40)
    seen = np.array([network.gradient(x).any() for x in q])
    solved = network.solve(q, keys, network(q + alpha[:, None] * keys))
    assert seen.sum() > 20
    np.testing.assert_allclose(solved[seen], alpha[seen], rtol=1e-9, atol=1e-12)
    assert (network.steepness(q, keys, 0.0)[seen] > 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_steepness_is_the_least_slope(seed):
    rng = np.random.default_rng(seed)
    network = Network(*(rng.standard_normal(shape) for shape in ((2, 6), 6, 6)), 0.0)
    q, keys = rng.standard_normal((2, 1, 2))
    slopes = np.diff(network.along(q, keys, np.linspace(0.02, 0.98, 20_001))[0]) / (0.96 / 20_000)
    expected = np.abs(slopes).min() if (slopes > 0).all() or (slopes < 0).all() else 0.0
    assert network.steepness(q, keys, 0.02)[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


# The paper's reduction.


@pytest.mark.parametrize("seed", range(3))
def test_section_4_1(seed):
    target = transformer(5, 8, seed=seed)
    found = gh.paper.section_4_1(gh.ValueOracle(target))
    assert W_error(found, target) < 1e-9
    assert function_error(found, target) < 1e-8
    assert found.queries > 2 * (5 + 25)


def test_section_4_1_takes_any_learner():
    target = transformer(4, 6)
    asked = []

    def told(f, dim):
        asked.append(f(np.ones((2, dim))))
        return target

    found = gh.paper.section_4_1(gh.ValueOracle(target), learn_ffn=told)
    assert found.queries == 2 + 2 * (4 + 16)
    assert function_error(found, target) < 1e-9


def test_section_4_1_is_silent_where_A_w_is_0():
    with pytest.raises(gh.NotIdentifiable, match=r'A w = 0.*family="transformer"'):
        gh.paper.section_4_1(gh.ValueOracle(transformer(4, 5, even=True)), learn_ffn=lambda f, dim: None)


# Our way.


@pytest.mark.parametrize(("dim", "rank", "width"), [(16, 16, 32), (64, 8, 128)])
def test_recovers_within_the_promised_queries(dim, rank, width):
    target = transformer(dim, width, None if rank == dim else rank)
    found = gh.recover(gh.ValueOracle(target), family="transformer")
    alone = gh.recover_relu(target.network, dim).queries
    scores = 2 * rank * dim - rank * rank
    assert W_error(found, target) <= 1e-9
    assert function_error(found, target) <= 1e-8
    assert found.rank == rank
    assert found.queries <= 1.1 * alone + scores + 100  # where f(X) - f(-X) takes two for every score


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kind",
    [
        {"even": True},
        {"biases": True},
        {"key_bias": True},
        {"biases": True, "key_bias": True},
        {"rank": 1},
        {"rank": 2, "key_bias": True},
    ],
    ids=str,
)
def test_recovers_what_the_antisymmetric_route_cannot(kind, seed):
    target = transformer(6, 14, seed=seed, **kind)
    found = gh.recover(gh.ValueOracle(target), family="transformer", seed=seed)
    assert W_error(found, target) < 1e-8
    assert function_error(found, target) < 1e-8
    assert found.model.has_key_bias == target.has_key_bias


@pytest.mark.parametrize(("dim", "width"), [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (3, 9)])
@pytest.mark.parametrize("seed", range(3))
def test_recovers_small_ones(dim, width, seed):
    target = transformer(dim, width, seed=seed)
    found = gh.recover(gh.ValueOracle(target), family="transformer", seed=seed)
    assert function_error(found, target) < 1e-8
    assert W_error(found, target) < 1e-8


@pytest.mark.parametrize(
    ("kind", "family"),
    [({}, "transformer"), ({"biases": True}, "transformer"), ({"even": True}, "transformer")],
    ids=str,
)
def test_auto_tells_a_transformer_from_a_head(kind, family):
    target = transformer(6, 10, **kind)
    found = gh.recover(gh.ValueOracle(target))
    assert found.family == family
    assert function_error(found, target) < 1e-8


def test_auto_spends_a_handful_on_telling():
    target = transformer(8, 16)
    told = gh.recover(gh.ValueOracle(target), family="transformer")
    found = gh.recover(gh.ValueOracle(target))
    assert found.queries <= told.queries + 24
    assert "not affine" in found.reason


def two_heads(dim, width):
    one, other = transformer(dim, width, seed=1), gh.Attention.random(dim, seed=2)

    def box(X):
        first = np.einsum("bn,bnd->bd", one.weights(X), X)
        second = np.einsum("bn,bnd->bd", other.weights(X), X)
        return one.network((first + second) / 2)

    return box


def test_two_heads_are_refused_with_evidence():
    with pytest.raises(gh.TargetMismatch, match="one-layer Transformer") as caught:
        gh.recover(gh.ValueOracle(two_heads(6, 12), dim=6), family="transformer")
    assert caught.value.evidence.query.shape[1] == 6


def test_a_constant_network_hides_everything():
    target = gh.Transformer(np.eye(3), np.zeros((3, 2)), np.ones(2), c=2.5)
    with pytest.raises(gh.NotIdentifiable, match=r"constant: every one-row answer is 2\.5"):
        gh.recover(gh.ValueOracle(target), family="transformer")


@pytest.mark.parametrize("budget", [120, 150, 230])
def test_a_budget_that_ends_midway_says_what_is_known(budget):
    target = transformer(8, 16)
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(gh.ValueOracle(target), family="transformer", budget=budget)
    assert caught.value.known
    assert caught.value.needed > 0


def test_the_same_seed_asks_the_same_queries():
    target, asked = transformer(5, 8), ([], [])
    for log in asked:

        def box(X, log=log):
            log.append(X.copy())
            return target(X)

        gh.recover(gh.ValueOracle(box, dim=5), family="transformer", seed=4)
    assert all(np.array_equal(x, y) for x, y in zip(*asked, strict=True))
