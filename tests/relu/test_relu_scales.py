"""Kinks over decades of distance, few digits, and networks that are deeper somewhere: never silently wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from relu_cases import Net, gaussian

import glasshead as gh

DECADES = 10.0 ** np.arange(-3, 5)


def spread(kind: str, d: int, m: int, decades: float, seed: int) -> Net:
    """Kinks from `10^-decades` to `10^decades` away from 0."""
    rng = np.random.default_rng((seed, d, m))
    A, w, far = rng.standard_normal((d, m)), rng.standard_normal(m), 10 ** rng.uniform(-decades, decades, m)
    return {
        "far biases": lambda: Net(A, w, far * rng.choice([-1.0, 1.0], m), 0.5),
        "own scales": lambda: Net(A / far, w, rng.standard_normal(m), 0.5),
        "off at 0": lambda: Net(A, w, -far, 0.5),
        "growing": lambda: Net(A, w * far ** rng.uniform(-1, 1), -far, 0.01),
    }[kind]()


def worst(f, found, d: int, noise: float = 0.0) -> float:
    """The largest error over the largest value at the same length, for all lengths; noise in answers is no error."""
    u = np.random.default_rng(5).standard_normal((2000, d))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    off = [np.abs(found(s * u) - f(s * u)).max() - 3 * noise for s in DECADES]
    return float(max(e / np.abs(f(s * u)).max() for e, s in zip(off, DECADES, strict=True)))


def learned(box, d: int, seed: int):
    try:
        return gh.recover_relu(box, d, seed=seed)
    except gh.GlassheadError as refused:
        return refused


KINDS = ["far biases", "own scales", "off at 0", "growing"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decades", [1, 2, 3])
@pytest.mark.parametrize(("d", "m"), [(2, 6), (5, 5), (8, 16)])
def test_kinks_over_decades_are_recovered(kind, decades, d, m):
    net = spread(kind, d, m, decades, seed=1)
    cancels = kind == "growing"  # near 0 the answers are what thousands of times larger neurons leave over
    assert worst(net, gh.recover_relu(net, d), d) <= (1e-4 if cancels else 1e-8)


def test_a_kink_millions_of_radii_away_is_found_from_there():
    net = gaussian(6, 8, biases=1e-3)
    net.A[:, 0], net.b[0] = 1e-3 * net.A[:, 0], 3.0
    net.w[0] = 1e3
    assert worst(net, gh.recover_relu(net, 6), 6) <= 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "m", "decades"), [(2, 6, 3), (5, 5, 1), (5, 5, 3)])
@pytest.mark.parametrize("seed", [1, 2])
def test_single_precision_is_never_silently_wrong(kind, d, m, decades, seed):
    net = spread(kind, d, m, decades, seed)
    found = learned(replace(net, dtype=np.float32), d, seed)
    assert isinstance(found, gh.NotConverged | gh.TargetMismatch) or worst(net, found, d) <= 1e-4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_never_silently_wrong(kind, seed):
    net, rng = spread(kind, 5, 6, 2, seed), np.random.default_rng(0)
    found = learned(lambda x: net(x) + 1e-7 * rng.standard_normal(len(x)), 5, seed)
    assert isinstance(found, gh.NotConverged | gh.TargetMismatch) or worst(net, found, 5, noise=1e-7) <= 1e-4


def deeper(name: str, seed: int):
    """Three layers: a random one, or a network of two whose neurons meet in a third layer far out only."""
    rng = np.random.default_rng((seed, 7))
    net, B = gaussian(4, 6, biases=1.0, seed=seed), rng.standard_normal((6, 6))

    def hidden(x):
        return np.maximum(x @ net.A + net.b, 0)

    return {
        "random": lambda x: np.maximum(hidden(x) @ B + net.w, 0) @ net.w,
        "from 10 on": lambda x: hidden(x) @ net.w + np.maximum(hidden(x) @ B - 10, 0) @ net.b,
        "from 300 on": lambda x: hidden(x) @ net.w + np.maximum(hidden(x) @ B - 300, 0) @ net.b,
    }[name]


@pytest.mark.parametrize("name", ["random", "from 10 on", "from 300 on"])
@pytest.mark.parametrize("seed", range(8))
def test_three_layers_are_refused_wherever_they_differ(name, seed):
    with pytest.raises(gh.TargetMismatch):
        gh.recover_relu(deeper(name, seed), 4, seed=seed)


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("seed", range(3))
def test_a_curve_is_refused_before_many_questions(size, seed):
    """To rounding a faint curve is a network of thousands of blurred kinks."""
    net = gaussian(6, 8, biases=1.0, seed=seed)
    with pytest.raises(gh.TargetMismatch):
        gh.recover_relu(lambda x: net(x) + size * np.sin(x[:, 0]), 6, seed=seed)
    assert net.asked <= 8000
