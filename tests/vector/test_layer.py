"""A whole layer: number of heads, ranks, value maps, W and biases from vector answers."""

from __future__ import annotations

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.heads.vector import spaces
from glasshead._learners.heads.vector.learn import learn_vector
from glasshead._learners.heads.vector.spaces import clusterings

from .boxes import head, layer, learned


@pytest.mark.parametrize("biases", [0.0, 1.0])
@pytest.mark.parametrize(("dim", "heads"), [(12, 4), (15, 3), (32, 4), (64, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_synthetic(dim, heads, biases, seed):
    found, error, _ = learned(layer(dim, heads, biases=biases, seed=seed), learn_vector)
    assert error <= 1e-9
    assert found.rank == (dim // heads,) * heads
    assert found.value_rank == (dim // heads,) * heads


def test_queries():
    """(64, 8) with biases: three times d for values and heads, the rest for scores; about twice the limit."""
    found, _, queries = learned(layer(64, 8), learn_vector)
    assert queries <= 2.1 * found.limit


def test_the_limit_counts_free_parameters():
    found, _, _ = learned(layer(32, 4), learn_vector)
    each = 2 * 8 * 32 - 64 + 8  # W and, inside its columns, the key bias
    values = 8 * (32 + 32) - 64
    assert found.limit == -(-(4 * (each + values) + 32) // 32)


def test_narrower_than_the_tokens():
    """Heads that fill half of the outputs: what counts is that the ranks add up to that of the sum."""
    found, error, _ = learned(layer(32, 4, width=16), learn_vector)
    assert error <= 1e-9
    assert found.value_rank == (4,) * 4


def test_more_outputs_than_inputs():
    _, error, _ = learned(layer(16, 2, outputs=24), learn_vector)
    assert error <= 1e-9


def test_short_tokens_only():
    _, error, _ = learned(layer(32, 4), learn_vector, max_norm=3.0)
    assert error <= 1e-9


def test_mixed_ranks_and_full_W():
    rng, dim = np.random.default_rng(3), 24
    cuts = np.split(np.arange(dim), [4, 12])
    V, out = rng.standard_normal((2, dim, dim)) / np.sqrt(dim)
    heads = [gh.Attention(head(dim, 2, seed=h).W, V[:, cut] @ out[cut]) for h, cut in enumerate(cuts)]
    found, error, _ = learned(gh.MultiHead(heads), learn_vector)
    assert error <= 1e-9
    assert sorted(found.value_rank) == [4, 8, 12]
    assert found.rank == (dim,) * 3


def test_heads_with_one_W_are_one_head():
    box = layer(24, 4, biases=0.0)
    heads = list(box.heads)
    heads[1] = gh.Attention(heads[0].W, heads[1].v)
    found, error, _ = learned(gh.MultiHead(heads), learn_vector)
    assert error <= 1e-9
    assert len(found.rank) == 3


def test_a_second_input(monkeypatch):
    """Where bunches do not add up at one input, another one is tried."""
    seen = []

    def merged_at_first(eigenvalues, floor):
        seen.append(len(eigenvalues))
        return [] if len(seen) == 1 else clusterings(eigenvalues, floor)

    monkeypatch.setattr(spaces, "clusterings", merged_at_first)
    _, error, _ = learned(layer(24, 3), learn_vector)
    assert error <= 1e-9
    assert len(seen) == 2


def test_torch_as_a_black_box():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(32, 4, batch_first=True, dtype=torch.float64).eval()
    with torch.no_grad():
        for bias in (module.in_proj_bias, module.out_proj.bias):
            bias.normal_()

    def box(X):
        with torch.no_grad():
            x = torch.from_numpy(X)
            return module(x, x, x, need_weights=False)[0][:, -1].numpy()

    oracle = gh.ValueOracle(box, dim=32)
    found = learn_vector(oracle, np.random.default_rng(0))
    assert gh.distance(found.model, gh.MultiHead.from_torch(module)) <= 1e-9
