"""Tokens longer than `max_norm` are never sent, however few digits the answers have."""

from contextlib import suppress

import numpy as np
import pytest
import torch

import glasshead as gh
from glasshead._oracles import near_token

LAYERS = {
    "heads": lambda d: torch.nn.MultiheadAttention(d, 4, batch_first=True),
    "encoder": lambda d: torch.nn.TransformerEncoderLayer(d, 2, 64, batch_first=True),
}
ASKED = [  # the layer, its format, dim, max_norm, and the family
    ("heads", torch.float32, 4, 1.0, "auto"),
    ("heads", torch.float32, 16, 0.3, "multi-head"),
    ("heads", torch.bfloat16, 16, 3.0, "block"),
    ("encoder", torch.bfloat16, 16, 1.0, "block"),
    ("heads", torch.float16, 16, 3.0, "block"),
]


@pytest.mark.parametrize(("name", "dtype", "dim", "max_norm", "family"), ASKED)
def test_no_layer_is_asked_with_longer_tokens(name, dtype, dim, max_norm, family):
    torch.manual_seed(0)
    oracle = gh.from_torch(LAYERS[name](dim).to(dtype).eval(), dim, max_norm=max_norm)
    with suppress(gh.TargetMismatch, gh.NotConverged, gh.NotIdentifiable):  # not OracleError, which says it was
        gh.recover(oracle, family=family)


@pytest.mark.parametrize(("dim", "dtype"), [(1, "float64"), (2, "float32"), (8, "float16")])
def test_a_token_near_the_longest_is_no_longer_and_another(dim, dtype):
    oracle = gh.ValueOracle(lambda X: X[:, -1, 0], dim=dim, max_norm=0.5, dtype=dtype)
    for seed in range(20):
        token, other = oracle.reach * unit(dim, seed), oracle.reach * unit(dim, seed + 20)
        near = near_token(oracle, token, other)
        assert np.linalg.norm(near) <= 0.5
        apart = np.linalg.norm(near - token) / np.linalg.norm(other)
        assert 0.9 < apart / np.sqrt(oracle.roundoff) < 1.1
    short = 0.25 * unit(dim, 0)
    assert np.array_equal(near_token(oracle, short, short), short + np.sqrt(oracle.roundoff) * short)


def unit(dim, seed):
    x = np.random.default_rng(seed).standard_normal(dim)
    return x / np.linalg.norm(x)
