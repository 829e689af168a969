"""Theorem B.1: the count, the estimate of v, the bisection at its worst, and the whole of it where that is feasible."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import glasshead as gh
from glasshead.paper.theorem_b_1 import Needed, read_mean_direction, read_W_by_signs, sphere_mean


class Signs(gh.Oracle):
    """Says whether a head is positive."""

    def __init__(self, head: gh.Attention):
        self.dim, self.head, self.queries = head.dim, head, 0

    def __call__(self, X):
        self.queries += len(X)
        return np.asarray(self.head(X)) > 0


class Stubborn(Signs):
    """Always says yes."""

    def __call__(self, X):
        return super().__call__(X) | True


def edge(dim: int, W_bound: float, seed: int) -> np.ndarray:
    """Random, or all of `W_bound` in one entry or in one row."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((dim, dim))
    if seed % 3 == 1:
        W = np.zeros((dim, dim))
        W[tuple(rng.integers(dim, size=2))] = rng.choice([-1, 1])
    if seed % 3 == 2:
        W = np.outer(np.eye(dim)[seed % dim], rng.choice([-1.0, 1.0], dim))
    return W_bound * W / np.linalg.norm(W)


def unit_values(dim: int, margin: float, seed: int) -> np.ndarray:
    """A vector of norm 1 with all entries but one just at the margin."""
    rng = np.random.default_rng((seed, dim))
    v = np.full(dim, margin)
    v[rng.integers(dim)] = math.sqrt(1 - (dim - 1) * margin**2)
    return v * rng.choice([-1.0, 1.0], dim)


@pytest.mark.parametrize(
    ("dim", "W_bound", "margin", "eps_W", "seed"),
    [(1, 2, 1, 0.3, 1), (1, 5, 1, 0.8, 2), (2, 2, 0.7, 0.9, 0), (2, 2, 0.7, 0.95, 1), (2, 2.5, 0.7, 0.99, 2)],
)
def test_recovers(dim, W_bound, margin, eps_W, seed):
    known = {"W_bound": W_bound, "margin": margin, "eps_W": eps_W, "delta": 0.1}
    W, v = edge(dim, W_bound, seed), unit_values(dim, margin, seed)
    oracle = Signs(gh.Attention(W, 7 * v))  # the length of v is out of sight
    found = gh.paper.theorem_b_1(oracle, **known, seed=seed)
    assert np.linalg.norm(found.model.W - W) <= found.bound == eps_W
    assert np.linalg.norm(found.model.v - v) <= found.bound_v
    assert np.abs(found.model.v - v).max() <= eps_W * margin**3 / (40 * W_bound * dim)
    assert found.queries == oracle.queries == gh.paper.theorem_b_1_queries(dim=dim, **known)
    assert found.confidence == pytest.approx(0.9)


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 100])
def test_the_mean_over_the_sphere(dim):
    x = np.random.default_rng(dim).standard_normal((100_000, dim))
    mean = float(np.abs(x[:, 0] / np.linalg.norm(x, axis=1)).mean())
    assert sphere_mean(dim) == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize(
    ("dim", "W_bound", "margin", "eps_W"), [(2, 2, 0.7, 0.9), (3, 2, 0.1, 0.9), (4, 50, 0.3, 1e-3)]
)
def test_the_bisection_survives_the_worst_estimate_of_v(dim, W_bound, margin, eps_W):
    """Every sign of an error of `eps_v` in each entry of v: the constant leaves room for all of them."""
    need = Needed.of(dim, W_bound, margin, eps_W, 0.1)
    for seed, signs in itertools.product(range(6), itertools.product([-1.0, 1.0], repeat=dim)):
        W, v = edge(dim, W_bound, seed), unit_values(dim, margin, seed)
        oracle = Signs(gh.Attention(W, v))
        estimate, excess = read_W_by_signs(oracle, v + need.eps_v * np.array(signs), need)
        assert excess <= eps_W / (10 * W_bound * dim)
        assert np.abs(estimate - W).max() <= eps_W / dim
        assert oracle.queries == dim**2 * need.steps


@pytest.mark.parametrize("margin", [0.02, 0.1, 0.7])
def test_bisection_ends_within_its_tolerance(margin):
    need = Needed.of(2, 2, margin, 0.5, 0.1)
    tau = 0.5 * (0.5 / 2) * margin**3 / (8 * 5 * 2**2)
    width = (need.highest - need.lowest) / 2**need.steps
    assert tau / 2 < width / 2 <= tau
    for score, ratio in itertools.product([-0.5, 0.5], [margin, 1 / margin]):  # the flip is inside the interval
        flip = math.sqrt(1 / (1 + math.exp(-score)) / (2 * 2 * ratio))
        assert need.lowest <= flip <= need.highest


@pytest.mark.parametrize("dim", [2, 5])
def test_the_estimate_of_v_is_as_good_as_hoeffding_says(dim):
    """At most a tenth of the runs may be off by more; in fact none is, and none is ten times better."""
    samples, delta = 20_000, 0.1
    allowed = math.sqrt(2 * math.log(2 * dim / delta) / samples) / sphere_mean(dim)
    for seed in range(20):
        v = unit_values(dim, 0.3, seed)
        oracle = Signs(gh.Attention(np.eye(dim), v))
        off = np.abs(read_mean_direction(oracle, samples, np.random.default_rng(seed)) - v).max()
        assert 1e-3 * allowed < off <= allowed
        assert oracle.queries == samples


def test_no_bound_where_W_is_larger_than_said():
    oracle = Signs(gh.Attention([[4.0]], [1.0]))
    found = gh.paper.theorem_b_1(oracle, W_bound=2, margin=1, eps_W=0.9, delta=0.1)
    assert found.bound is None
    assert "outside what ||W||_F <= W_bound allows" in found.reason
    assert "v is within the bound with probability 1 - delta" in found.reason  # which is what the confidence is of


def test_the_same_seed_asks_the_same_queries():
    head = gh.Attention(np.eye(1), np.ones(1))
    known = {"W_bound": 2, "margin": 0.9, "eps_W": 0.9, "delta": 0.5}
    one, two = (gh.paper.theorem_b_1(Signs(head), **known, seed=3) for _ in range(2))
    assert one.model.W == two.model.W
    assert one.model.v == two.model.v


def test_the_count_is_known_beforehand_and_refused():
    oracle = Signs(gh.Attention.random(16))
    known = {"W_bound": 4, "margin": 0.1, "eps_W": 0.1, "delta": 0.01}
    count = gh.paper.theorem_b_1_queries(dim=16, **known)
    eps_v = 0.1 * 0.1**3 / (40 * 4 * 16)
    samples = 2 * math.log(2 * 16 / 0.01) / (eps_v * sphere_mean(16)) ** 2
    assert count == pytest.approx(samples, rel=1e-6)
    with pytest.raises(ValueError, match=f"expected max_queries >= {count:,} for dimension 16, got 100,000,000"):
        gh.paper.theorem_b_1(oracle, **known)
    assert oracle.queries == 0


def test_max_queries_is_sharp():
    known = {"W_bound": 2, "margin": 1, "eps_W": 0.9, "delta": 0.1}
    count = gh.paper.theorem_b_1_queries(dim=1, **known)
    oracle = Signs(gh.Attention(np.eye(1), np.ones(1)))
    assert gh.paper.theorem_b_1(oracle, **known, max_queries=count).queries == count
    with pytest.raises(ValueError, match="expected max_queries"):
        gh.paper.theorem_b_1(oracle, **known, max_queries=count - 1)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"W_bound": 1}, "expected W_bound to be a number >= 2"),
        ({"margin": 0}, "expected margin to be a positive number, got 0"),
        ({"margin": 0.8}, r"expected margin to be at most 1/sqrt\(dim\) = 0.7071, v having norm 1, got 0.8"),
        ({"eps_W": 1}, "expected eps_W to be a number strictly between 0 and 1, got 1"),
        ({"delta": 0}, "expected delta to be a number strictly between 0 and 1, got 0"),
        ({"max_queries": 0}, "expected max_queries to be an integer >= 1, got 0"),
        ({"max_queries": 1e9}, "expected max_queries to be an integer >= 1, got 1000000000.0"),
    ],
)
def test_refused_arguments(wrong, match):
    oracle = Signs(gh.Attention(np.eye(2), np.ones(2)))
    with pytest.raises(ValueError, match=match):
        gh.paper.theorem_b_1(oracle, **{"W_bound": 2, "margin": 0.7, "eps_W": 0.9, "delta": 0.1} | wrong)


def test_boxes_that_do_not_say_yes_or_no():
    head = gh.Attention(np.eye(1), np.ones(1))
    known = {"W_bound": 2, "margin": 1, "eps_W": 0.9, "delta": 0.5}
    with pytest.raises(TypeError, match=r"expected a gh.SignOracle, got Attention; wrap it as gh.SignOracle\(f\)"):
        gh.paper.theorem_b_1(head, **known)
    with pytest.raises(ValueError, match=r"expected .* yes/no answers, got dtype float64 .*use gh.SignOracle"):
        gh.paper.theorem_b_1(gh.ValueOracle(head), **known)


@pytest.mark.parametrize("oracle", [Stubborn(gh.Attention(np.eye(1), np.ones(1))), Signs(gh.Attention([[1.0]], [0.0]))])
def test_a_box_that_always_says_the_same(oracle):
    with pytest.raises(gh.TargetMismatch, match=r"expected every \|v_i\| >= margin = 0.9 .* always says the same"):
        gh.paper.theorem_b_1(oracle, W_bound=2, margin=0.9, eps_W=0.9, delta=0.5)
