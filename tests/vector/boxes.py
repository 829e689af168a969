"""Heads and layers that answer vectors, and how far a recovery is from them."""

from __future__ import annotations

import numpy as np

import glasshead as gh
from glasshead._checks.held_out import check_held_out_vector


def head(dim, outputs, *, rank=None, value_rank=None, key_bias=0.0, bias=0.0, dtype=np.float64, seed=0) -> gh.Attention:
    """A Gaussian head; `key_bias` and `bias` are the sizes of their entries."""
    rng = np.random.default_rng((seed, dim, outputs))
    W, v = product(dim, dim, rank or dim, rng), product(dim, outputs, value_rank or min(dim, outputs), rng)
    shift = (key_bias * rng.standard_normal(dim)).astype(dtype) if key_bias else None
    return gh.Attention(W.astype(dtype), v.astype(dtype), key_bias=shift, bias=bias * rng.standard_normal(outputs))


def product(rows, columns, rank, rng) -> np.ndarray:
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns)) / np.sqrt(rank)


def layer(dim, heads, *, width=None, outputs=None, biases=1.0, dtype=np.float64, seed=0) -> gh.MultiHead:
    """The usual layer with Gaussian projections of `width` rows in all, d unless said otherwise."""
    rng = np.random.default_rng((seed, dim, heads))
    width, outputs = width or dim, outputs or dim
    Q, K, V = (rng.standard_normal((width, dim)) / np.sqrt(dim) for _ in range(3))
    W_o = rng.standard_normal((outputs, width)) / np.sqrt(width)
    shifts = [(biases * rng.standard_normal(size)).astype(dtype) for size in (width, width, outputs)]
    names = dict(zip(("q_bias", "v_bias", "o_bias"), shifts, strict=True))
    matrices = [M.astype(dtype) for M in (2 * Q, 2 * K, V, W_o)]
    return gh.MultiHead.from_projections(*matrices, heads, **names)


def learned(box, learn, seed=0, **keywords):
    """What was learned, after the held-out check, how far off it is, and what it took."""
    oracle, rng = gh.ValueOracle(box, **keywords), np.random.default_rng(seed)
    found = learn(oracle, rng)
    check = check_held_out_vector(oracle, found, rng)
    assert check.evidence is None, check.evidence
    return found, gh.distance(found.model, box), oracle.queries
