"""Layers that compute in float32: right to three digits and more, for a few times the queries of float64."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.heads.saturated import KeyCircle, Saturated
from glasshead._learners.heads.vector import cells, learn
from glasshead._learners.heads.vector.learn import learn_vector
from glasshead._meters import Readout, SumOfHeads
from glasshead._oracles import Combined

from .boxes import layer, learned


def torch_layer(dim, heads, seed, double=False, scalar=False):
    """`nn.MultiheadAttention` as torch initialises it, answering the last token's output, or one combination of that;
    and what it computes."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(dim, heads, batch_first=True).eval()
    exact = deepcopy(module).double()
    module = exact if double else module

    truth, readout = gh.MultiHead.from_torch(exact), torch.randn(dim)
    if scalar:
        weights = readout.double().numpy()
        heads = [gh.Attention(head.W, head.v @ weights) for head in truth.heads]
        truth = gh.MultiHead(heads, bias=float(truth.bias @ weights))

    def box(X):
        with torch.no_grad():
            x = torch.from_numpy(X)
            answers = module(x[:, -1:], x, x, need_weights=False)[0][:, 0]
            return (answers @ readout if scalar else answers).numpy()

    return gh.ValueOracle(box, dim=dim, dtype="float64" if double else "float32"), truth


@pytest.mark.parametrize("family", ["multi-head", "auto"])
@pytest.mark.parametrize(("dim", "heads"), [(16, 2), (32, 4), (64, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_torch_layers(dim, heads, seed, family):
    oracle, truth = torch_layer(dim, heads, seed)
    found = gh.recover(oracle, family=family, seed=seed)
    assert gh.distance(found.model, truth) <= 1e-4
    assert found.rank == (dim // heads,) * heads
    double, _ = torch_layer(dim, heads, seed, double=True)
    assert found.queries <= 3 * gh.recover(double, family=family, seed=seed).queries


@pytest.mark.parametrize("family", ["multi-head", "auto"])
@pytest.mark.parametrize("seed", range(6))
def test_one_combination_of_the_outputs(seed, family):
    oracle, truth = torch_layer(16, 2, seed, scalar=True)
    found = gh.recover(oracle, family=family, seed=seed)
    assert gh.distance(found.model, truth) <= 2e-4


@pytest.mark.parametrize("biases", [0.1, 1.0])
@pytest.mark.parametrize(("dim", "heads"), [(12, 4), (16, 4), (24, 3)])
def test_biases(dim, heads, biases):
    found, error, _ = learned(layer(dim, heads, biases=biases, dtype=np.float32), learn_vector, dtype="float32")
    assert error <= 3e-4
    assert found.rank == (dim // heads,) * heads
    assert error <= found.error


def test_more_effort_where_rounding_is_seen(monkeypatch):
    """Scores are read again, more of them, until fresh ones agree well enough."""
    box, asked = layer(16, 4, biases=1.0, dtype=np.float32, seed=1), []
    read = learn.read_head_scores
    monkeypatch.setattr(
        learn, "read_head_scores", lambda meter, *rest: asked.append(meter.effort) or read(meter, *rest)
    )
    found, error, _ = learned(box, learn_vector, dtype="float32")
    monkeypatch.setattr(learn, "REFUSED_ERROR", found.error / 16)  # fourfold effort does not reach that
    with pytest.raises(gh.AccuracyUnreachable):
        learn_vector(gh.ValueOracle(box, dim=16, dtype="float32"), np.random.default_rng(0))
    assert asked == [1, 1, 2, 4]
    assert error <= found.error


@pytest.mark.parametrize("dim", [1, 3])
def test_a_key_bias_alone(dim):
    """Where W = 0 last tokens grow in search of it, but not until they hide what the key bias does."""
    rng = np.random.default_rng(dim)
    shift, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((dim,), (dim, 2)))
    box = gh.Attention(np.zeros((dim, dim), np.float32), v, key_bias=shift)
    found = gh.recover(gh.ValueOracle(box, dtype="float32"), family="attention")
    assert found.rank == 0
    assert np.linalg.norm(found.model.key_bias - shift) <= 1e-4 * np.linalg.norm(shift)


def test_fewer_outputs_than_tokens_have_entries():
    _, error, _ = learned(layer(24, 3, width=12, biases=0.1, dtype=np.float32), learn_vector, dtype="float32")
    assert error <= 1e-4


def test_the_outputs_that_heads_reach():
    """Long keys show the outputs of every head to three digits, many rows to six."""
    box, rng = layer(24, 3, biases=0.0), np.random.default_rng(0)
    oracle = gh.ValueOracle(lambda X: box(X).astype(np.float32), dim=24, dtype="float32")
    B = sum(head.v for head in box.heads)
    readout = Readout(np.zeros(24), B, np.eye(24))
    circle, reached = cells.read_reached_outputs(oracle, readout, rng)
    seen = cells.seen_by_heads(oracle, readout, reached)
    assert [len(basis) for basis in reached] == [8, 8, 8]
    assert seen is not None
    assert seen.rank == 24
    outputs = [np.linalg.svd(head.v)[2][:8] for head in box.heads]
    assert max(min(np.linalg.norm(own - own @ true.T @ true, 2) for true in outputs) for own in reached) <= 1e-2
    drops = cells.read_exact_spaces(oracle, seen, circle, reached, rng)
    leaks = [sorted(np.linalg.norm(head.v @ seen.outputs @ drop.basis) for head in box.heads)[:2] for drop in drops]
    assert np.max(leaks) <= 1e-5


def test_outputs_that_no_head_explains():
    """A part of B beside those of the heads found is a head that takes the mean, or heads met as one."""
    rng = np.random.default_rng(0)
    oracle = gh.ValueOracle(lambda X: X[:, -1].astype(np.float32), dim=6, dtype="float32")
    parts = np.split(np.linalg.qr(rng.standard_normal((6, 6)))[0], 3)
    readout = Readout(np.zeros(6), rng.standard_normal((6, 6)), np.eye(6))
    assert cells.seen_by_heads(oracle, readout, parts) is not None
    assert cells.seen_by_heads(oracle, readout, parts[:2]) is None
    assert cells.seen_by_heads(oracle, readout, [*parts, parts[0]]) is None
    assert cells.seen_by_heads(oracle, readout, [parts[0], parts[1], parts[1] + 1e-7]) is None


def test_keys_that_do_not_saturate_say_nothing():
    """Weights far from 0 and 1 are no reason to believe in a space."""
    box, rng = layer(12, 2, biases=0.0), np.random.default_rng(0)
    oracle = gh.ValueOracle(box, dim=12)
    B = sum(head.v for head in box.heads)
    readout, weights = Readout(np.zeros(12), B, np.eye(12)), np.ones(12)
    q = np.full(12, 0.1)
    one = SumOfHeads(Combined(oracle, weights, 0.0, 0.0), 0.0, B @ weights)
    circle = KeyCircle(Saturated(one, q, share=2.0**-38), rng)
    reached = [np.linalg.svd(head.v)[2][:6] for head in box.heads]
    assert cells.read_exact_spaces(oracle, readout, circle, reached, rng) == []
