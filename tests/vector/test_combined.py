"""Layers that all outputs at once do not show: one combination of them does, and then every output's values follow."""

from __future__ import annotations

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.heads import route
from glasshead._learners.heads.combination import values
from glasshead._learners.heads.combination.values import combined, generic_weights, read_sizes
from glasshead._oracles import boundary as record

from .boxes import layer, product


def in_units(box, units) -> gh.MultiHead:
    """The layer with outputs in other units."""
    heads = [gh.Attention(head.W, head.v * units, key_bias=head.key_bias) for head in box.heads]
    return gh.MultiHead(heads, bias=box.bias * units)


def value_error(found, box) -> float:
    """Of every head and output, relative to that output's values in all heads; the pairs are those with the same W."""
    pairs = [(min(found.heads, key=lambda own: np.linalg.norm(own.W - head.W)), head) for head in box.heads]
    off = np.linalg.norm([own.v - head.v for own, head in pairs], axis=(0, 1))
    size = np.linalg.norm(box.v, axis=(0, 1))
    return float((off / np.where(size > 0, size, 1.0)).max())


def rank_two(dim=12, heads=4, outputs=2) -> gh.MultiHead:
    """Value maps of rank 2 and W of full rank."""
    rng = np.random.default_rng(dim)
    own = [
        gh.Attention(rng.standard_normal((dim, dim)) / 3, product(dim, outputs, 2, rng), key_bias=rng.normal(size=dim))
        for _ in range(heads)
    ]
    return gh.MultiHead(own, bias=rng.standard_normal(outputs))


def twice(box) -> gh.MultiHead:
    """The last output once more, with the other sign."""
    heads = [gh.Attention(head.W, np.c_[head.v, -head.v[:, -1]], key_bias=head.key_bias) for head in box.heads]
    return gh.MultiHead(heads, bias=np.append(box.bias, -box.bias[-1]))


BOXES = {
    "values of rank 1": layer(12, 6, width=6),
    "values of rank 2": layer(16, 8),
    "overlapping": layer(16, 4, width=32),
    "no biases": layer(16, 4, width=32, biases=0.0),
    "too few outputs": layer(24, 3, outputs=12),
    "4 heads, 2 outputs": rank_two(),
    "sizes": in_units(layer(16, 4, outputs=5), [1e-6, 1.0, 1e6, 1e3, 1e-3]),
    "a zero output": in_units(layer(16, 4, outputs=3), [1.0, 0.0, 1.0]),
    "an output twice": twice(layer(16, 4, outputs=2)),
}


@pytest.mark.parametrize("name", BOXES)
def test_recovered(name):
    box = BOXES[name]
    oracle = gh.ValueOracle(box)
    found = gh.recover(oracle, family="multi-head")
    assert "one combination of all" in found.reason
    assert found.heads == len(box.heads)
    assert gh.distance(found.model, box) < 1e-9
    assert value_error(found.model, box) < 1e-11
    assert found.limit < found.queries == oracle.queries


def test_values_cost_nothing():
    """The answers that tell the heads apart hold the values of all outputs."""
    asked = {"reading the values of all outputs": 0}

    def watch(done, _, what):
        asked[what] = done

    found = gh.recover(layer(32, 4, outputs=2), family="multi-head", progress=watch)
    one = gh.recover(gh.MultiHead([gh.Attention(h.W, h.v[:, 0]) for h in layer(32, 4, outputs=2).heads]))
    assert asked["reading the values of all outputs"] == 0
    assert found.queries < 1.1 * one.queries


def test_as_few_more_queries_as_it_takes(monkeypatch):
    """Where nothing was kept, values take a quarter more than one query for each of a head's inputs."""
    monkeypatch.setattr(record, "KEPT_NUMBERS", 0)
    fresh = []
    ask = values.fresh_queries
    monkeypatch.setattr(values, "fresh_queries", lambda *given: fresh.append(ask(*given)) or fresh[-1])
    box = layer(16, 4, outputs=2)
    found = gh.recover(box, family="multi-head")
    assert value_error(found.model, box) < 1e-11
    assert sum(map(len, fresh)) <= 1.5 * 4 * 16


def test_an_output_of_rounding_alone():
    """It has no heads of its own, and nobody is refused for it."""
    box = layer(16, 4, outputs=2)

    def f(X):
        y = np.asarray(box(X))
        return np.c_[y, (y[:, 0] + y[:, 1]) - y[:, 0] - y[:, 1]]

    found = gh.recover(gh.ValueOracle(f, dim=16), family="multi-head").model
    seen = gh.MultiHead([gh.Attention(head.W, head.v[:, :2], key_bias=head.key_bias) for head in found.heads])
    assert len(found.heads) == 4
    assert value_error(seen, box) < 1e-11
    assert np.abs(found.v[:, :, 2]).max() < 1e-13


def test_the_limit_counts_free_parameters():
    found = gh.recover(BOXES["values of rank 2"], family="multi-head")
    each = 2 * 2 * 16 - 4 + 2  # W and, inside its columns, the key bias
    value_maps = 2 * (16 + 16) - 4
    assert found.limit == -(-(8 * (each + value_maps) + 16) // 16)


@pytest.mark.parametrize("family", ["auto", "multi-head"])
@pytest.mark.parametrize("box", [layer(16, 4), layer(16, 4, outputs=3)], ids=["many outputs", "few outputs"])
def test_a_tolerance(box, family):
    tolerance = 1e-7
    f = gh.defences.noisy(box, tolerance, seed=1)
    found = gh.recover(gh.ValueOracle(f, dim=16, tolerance=tolerance), family=family)
    assert found.heads == 4
    assert gh.distance(found.model, box) < 1e-3
    assert value_error(found.model, box) < 1e-9  # read where tokens are long


def test_a_relative_tolerance():
    box, rtol = layer(15, 3, outputs=3), 1e-10
    found = gh.recover(
        gh.ValueOracle(lambda X: box(X) * (1 + rtol * np.sin(1e3 * box(X))), dim=15, rtol=rtol), family="multi-head"
    )
    assert gh.distance(found.model, box) < 1e-5


def test_a_head_below_the_tolerance_is_refused():
    """A check that allows for the tolerance says nothing about it."""
    loud, *others = layer(12, 3, outputs=2).heads
    box = gh.MultiHead([loud, *(gh.Attention(head.W, 1e-4 * head.v, key_bias=head.key_bias) for head in others)])
    f = gh.defences.noisy(box, 1e-5, seed=0)
    with pytest.raises((gh.AccuracyUnreachable, gh.NotConverged, gh.TargetMismatch)):
        gh.recover(gh.ValueOracle(f, dim=12, tolerance=1e-5), family="multi-head")


def test_the_promise_holds_for_the_combination():
    box, tolerance, rtol = in_units(layer(8, 2, width=6, outputs=6), np.array([1, 10, 1, 0.1, 1, 1])), 1e-4, 1e-5
    rng = np.random.default_rng(0)
    oracle = gh.ValueOracle(box, tolerance=tolerance, rtol=rtol)
    sizes = read_sizes(oracle, rng)
    one = combined(oracle, generic_weights(sizes, oracle.tolerance, rng), sizes)
    X = 10 * rng.standard_normal((500, 2, 8))
    truth = box(X)
    worst = (tolerance + rtol * np.abs(truth)) @ np.abs(one.weights)  # all errors of one sign
    size = np.abs(one(X)).max()
    assert worst.max() <= one.tolerance + one.rtol * size
    assert one.tolerance + one.rtol * size <= 10 * worst.max()


def cooler_when_longer(dim=12):
    """Two honest outputs, and one whose scores shrink with every token beyond two."""
    honest, other = layer(dim, 3, outputs=2), layer(dim, 3, outputs=1, seed=1)
    cooler = [
        gh.MultiHead([gh.Attention(head.W / n, head.v, key_bias=head.key_bias / n) for head in other.heads])
        for n in range(1, 64)
    ]
    return lambda X: np.c_[honest(X), cooler[max(0, X.shape[1] - 2)](X)]


def test_an_output_that_is_no_sum_of_heads():
    with pytest.raises(gh.TargetMismatch, match="fresh answers") as caught:
        gh.recover(gh.ValueOracle(cooler_when_longer(), dim=12), family="multi-head")
    assert caught.value.evidence is not None
    assert caught.value.evidence.query.shape[0] > 2


@pytest.mark.parametrize("budget", [150, 300, 600, 900])
def test_budget(budget):
    oracle = gh.ValueOracle(layer(16, 4, outputs=2))
    with pytest.raises(gh.BudgetExceeded) as caught:
        gh.recover(oracle, family="multi-head", budget=budget)
    known = caught.value.known
    assert oracle.queries <= budget
    assert caught.value.needed > 0
    assert known["readout"].shape == (2,)
    if budget == 900:
        true = layer(16, 4, outputs=2).v @ known["readout"]
        assert all(np.linalg.norm(true - v, axis=1).min() < 1e-9 for v in known["v"])


def test_both_routes_fail(monkeypatch):
    def refuse(*_):
        raise gh.NotConverged("heads are too alike")

    monkeypatch.setattr(route, "learn_sum", refuse)
    with pytest.raises(gh.NotConverged, match="too alike") as caught:
        gh.recover(layer(16, 8), family="multi-head")
    assert any("all outputs at once did not show the heads either" in note for note in caught.value.__notes__)


def test_float32():
    """To 1e-3 or refused, and the first often enough."""
    done = 0
    for seed in range(8):
        box = layer(12, 3, outputs=2, dtype=np.float32, seed=seed)
        try:
            found = gh.recover(gh.ValueOracle(box, dtype="float32"), family="multi-head", seed=seed)
        except gh.GlassheadError:
            continue
        assert gh.distance(found.model, box) < 1e-3
        done += 1
    assert done >= 4
