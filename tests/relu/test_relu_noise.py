"""Answers with few digits: recovered as well as they allow, or refused; never silently wrong."""

from __future__ import annotations

import numpy as np
import pytest
from relu_cases import gaussian

import glasshead as gh


@pytest.mark.parametrize(
    ("m", "seed"), [(24, 0), (24, 1), (24, 2), (24, 3), (24, 4), (24, 5), *[(64, s) for s in range(6)]]
)
def test_single_precision(m, seed):
    """The benchmark has fifty of the wide ones."""
    net = gaussian(16, m, seed=seed, dtype=np.float32)
    found = gh.recover_relu(net, 16, seed=seed)
    assert net.error(found) <= 1e-4
    assert net.error(found) <= 10 * found.residual
    assert "not proved fewest" in found.reason


@pytest.mark.parametrize(("d", "m"), [(2, 5), (4, 4), (8, 16)])
@pytest.mark.parametrize("biases", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_small_networks_in_single_precision_are_recovered(d, m, biases, seed):
    net = gaussian(d, m, biases=biases, seed=seed, dtype=np.float32)
    assert net.error(gh.recover_relu(net, d, seed=seed)) <= 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_rounding_is_harmless_without_biases(seed):
    """At 2^30 times the input, six decimals are fifteen digits."""
    net = gaussian(8, 16, seed=seed)
    found = gh.recover_relu(lambda x: np.round(net(x), 6), 8, biases=False, seed=seed)
    assert net.error(found) <= 1e-11


def test_pure_noise_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(gh.NotConverged, match="too noisy"):
        gh.recover_relu(lambda x: rng.standard_normal(len(x)), 3)
