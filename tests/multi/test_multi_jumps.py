"""Counting heads on a half circle, and what happens when two jumps fall together there."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.heads.saturated import circle as circles
from glasshead._learners.heads.saturated.circle import KeyCircle, Saturated
from glasshead._meters.head_sum import read_head_sum

from .layers import errors, layer, learned


@pytest.mark.parametrize(("dim", "heads"), [(8, 1), (8, 2), (32, 8), (48, 24)])
def test_every_head_jumps_once(dim, heads):
    target, rng = layer(dim, heads, 2), np.random.default_rng(0)
    oracle = gh.ValueOracle(target)
    circle = KeyCircle(Saturated(read_head_sum(oracle, rng), rng.standard_normal(dim)), rng)
    before = oracle.queries
    found = circles.find_jumps(circle, rng)
    keys = target.keys_against(circle.saturated.q[None])[:, 0]
    true = np.sort(np.arctan2(-keys @ circle.frame[0], keys @ circle.frame[1]) % np.pi)
    assert len(found) == heads
    assert all(jump.lo <= angle <= jump.hi for jump, angle in zip(found, true, strict=True))
    assert oracle.queries - before <= 22 * heads


@pytest.mark.parametrize("seed", range(6))
def test_jumps_taken_for_one_are_found_on_another_circle(seed, monkeypatch):
    monkeypatch.setattr(circles, "JUMP_SEPARATION", 1.0)  # so coarse that this happens to one circle in eight
    target = layer(16, 4, 3, seed=seed)
    found, _ = learned(target, seed=seed)
    assert max(errors(found.model, target).values()) <= 1e-9
