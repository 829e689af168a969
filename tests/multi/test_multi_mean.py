"""A head with W = 0 and no key bias takes the mean of the tokens: alone, and beside heads that choose."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import JUDGE_QUERIES

from .layers import changed, errors, layer, learned

CASES = [(4, 1, 2), (3, 1, 3), (8, 2, 2), (6, 4, 2), (12, 6, 2), (32, 4, 8)]


def with_mean(target: gh.MultiHead, v=None, *, size=1.0) -> gh.MultiHead:
    d = target.dim
    v = np.random.default_rng(d).standard_normal(d) / np.sqrt(d) if v is None else v
    return gh.MultiHead([*target.heads, gh.Attention(np.zeros((d, d)), size * v)], bias=target.bias)


def log_lengths(target, log: list):
    """The box, and how many tokens each of its queries has."""
    return lambda X: log.extend([X.shape[1]] * len(X)) or target(X)


@pytest.mark.parametrize(("dim", "heads", "rank"), CASES)
@pytest.mark.parametrize("biases", [False, True])
def test_it_is_found_beside_others(dim, heads, rank, biases):
    """Where heads and mean leave only one direction free, rounding counts for more: 1e-12 to 3e-10 by processor."""
    crowded = heads + 1 >= dim - 1
    target = with_mean(layer(dim, heads, rank, seed=1, biases=biases))
    found, _ = learned(target)
    assert found.rank == (rank,) * heads + (0,)
    assert max(errors(found.model, target).values()) <= (1e-9 if crowded else 1e-10)
    assert not np.any(found.model.heads[-1].W)
    assert "takes the mean" in found.words
    assert gh.equivalent(found.model, target, tol=1e-8)


@pytest.mark.parametrize(("size", "W", "v"), [(1e3, 1e-9, 1e-10), (1e-3, 1e-11, 1e-10), (1e-8, 1e-11, 1e-5)])
def test_it_may_be_loud_or_faint(size, W, v):
    target = with_mean(layer(16, 3, 4), size=size)
    found = errors(learned(target)[0].model, target)
    assert found["W"] <= W
    assert found["v"] <= v


def turned_over(target: gh.MultiHead) -> dict[str, np.ndarray]:
    """Values with which the mean hides from two tokens: as if heads were others with -W."""
    v = target.v
    return {"one": -2 * v[0], "two": -2 * (v[0] + v[1]), "all": -v.sum(axis=0), "parallel": v[2], "opposite": -v[2]}


@pytest.mark.parametrize("which", ["one", "two", "all", "parallel", "opposite"])
@pytest.mark.parametrize("biases", [False, True])
def test_values_that_look_like_heads_turned_over(which, biases):
    target = layer(12, 3, 3, biases=biases)
    target = with_mean(target, turned_over(target)[which])
    found, _ = learned(target)
    assert max(errors(found.model, target).values()) <= 1e-10


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("family", ["attention", "multi-head", "auto"])
def test_nothing_but_the_mean(dim, family):
    v = np.random.default_rng(dim).standard_normal(dim)
    found = gh.recover(gh.ValueOracle(lambda X: X.mean(axis=1) @ v + 0.2, dim=dim), family=family)
    assert (found.heads, found.rank) == (1, 0)
    assert gh.distance(found.model, gh.Attention(np.zeros((dim, dim)), v, bias=0.2)) <= 1e-13


@pytest.mark.parametrize(("mean", "long"), [(False, 1), (True, 1 + 2 * 16 + 1)])
def test_one_long_query_tells_whether_there_is_one(mean, long):
    target, log = layer(16, 3, 4), []
    box = with_mean(target) if mean else target
    gh.recover(gh.ValueOracle(log_lengths(box, log), dim=16), family="multi-head")
    assert sum(tokens == 8 for tokens in log[: -JUDGE_QUERIES["value"]]) == long  # less those of the last check


@pytest.mark.parametrize("W", [1e-8, 1e-24, 1e-27, 1e-30, 1e-33])
@pytest.mark.parametrize("heads", [0, 2])
@pytest.mark.parametrize("max_norm", [None, 1e4])
def test_a_W_too_small_to_show_is_not_taken_for_0(W, heads, max_norm):
    rng = np.random.default_rng(0)
    quiet = gh.Attention(W * rng.standard_normal((8, 8)), rng.standard_normal(8))
    target = gh.MultiHead([quiet, *layer(8, 2, 2, biases=False).heads[:heads]])
    try:
        found = gh.recover(gh.ValueOracle(target, max_norm=max_norm), family="multi-head")
    except gh.GlassheadError:
        return
    for length in (1.0, W**-0.5, 2.0**40):
        X = rng.standard_normal((64, 4, 8))
        X *= min(length, max_norm or 2.0**40) / np.linalg.norm(X, axis=2).max()
        answers = target(X)
        off = np.abs(found.model(X) - answers) / np.abs(answers).max()
        assert np.median(off) <= 1e-8  # very long tokens nearly tie now and then, and then rounding decides


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("promise", [{"dtype": "float32"}, {"tolerance": 0.5e-8}, {"max_norm": 3e4}], ids=str)
def test_it_is_found_or_refused_whatever_the_promise(promise, seed):
    target = with_mean(layer(16, 3, 4, seed=seed, dtype=promise.get("dtype", "float64")))
    box = gh.defences.rounded(target, 8) if "tolerance" in promise else target
    try:
        found, _ = learned(box, seed=seed, dim=16, **promise)
    except gh.NotConverged:
        return
    assert max(errors(found.model, target).values()) <= (1e-9 if "max_norm" in promise else 1e-3)


def test_two_of_them_are_one():
    target = with_mean(with_mean(layer(8, 2, 2)), v=np.ones(8))
    found, _ = learned(target)
    assert len(found.rank) == 3
    assert max(errors(found.model, gh.canonical(target)).values()) <= 1e-10


def test_heads_of_very_different_scales_are_all_checked():
    target = changed(layer(12, 3, 3, biases=False), 1, W=1e-4 * layer(12, 3, 3).heads[1].W)
    found, _ = learned(target)
    assert max(errors(found.model, target).values()) <= 1e-9


@pytest.mark.parametrize("W", [1e-12, 1e-3, 1.0])
@pytest.mark.parametrize("family", ["attention", "multi-head", "auto"])
def test_a_head_and_its_mirror_image_are_no_mean(W, family):
    rng = np.random.default_rng(0)
    scores, v = W * rng.standard_normal((6, 6)), rng.standard_normal(6)
    target = gh.MultiHead([gh.Attention(scores, v), gh.Attention(-scores, v)])  # on two tokens it is one
    with pytest.raises((gh.TargetMismatch, gh.NotConverged)):
        gh.recover(gh.ValueOracle(target), family=family)
