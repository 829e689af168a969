"""The pieces, each on its own."""

from __future__ import annotations

import numpy as np
import pytest

from glasshead._learners.heads.vector.columns import span
from glasshead._learners.heads.vector.spaces import clusterings, null_space, spare_rows
from glasshead._meters.vector import token_blocks


def spectrum(values, strays, noise=1e-6, seed=0):
    rng = np.random.default_rng(seed)
    bunches = [value + noise * rng.standard_normal(size) for value, size in values]
    return np.concatenate([*bunches, strays]).astype(complex)


def test_bunches_add_up():
    seen = spectrum([(0.2, 3), (0.5, 5), (0.7, 2)], [0.1, 0.45, 0.9])
    assert [size for _, size in clusterings(seen, 1e-7)[0]] == [3, 5, 2]


def test_merged_bunches_do_not_add_up():
    seen = spectrum([(0.2, 3), (0.5, 7), (0.5, 5)], [0.1, 0.9, 1.2])
    assert (3, 7, 5) not in [tuple(size for _, size in way) for way in clusterings(seen, 1e-7)]


def test_a_stray_beside_a_bunch():
    seen = spectrum([(0.2, 7), (0.5, 7), (0.52, 7)], [0.1, 0.5001, 0.9])
    assert any([size for _, size in way] == [7, 7, 7] for way in clusterings(seen, 1e-7))


def test_nothing_to_bunch():
    assert clusterings(np.linspace(0, 1, 14).astype(complex), 1e-7) == []


@pytest.mark.parametrize(("dim", "rank"), [(12, 3), (24, 8)])
def test_rank_drop(dim, rank):
    """From a guess of all but one direction, four digits right, to the last ones."""
    rng = np.random.default_rng(0)
    n = dim + min(dim, spare_rows(dim, rank))
    mixing = rng.standard_normal((dim, dim))
    inverse = np.linalg.inv(mixing)
    blocks = np.split(np.arange(dim), range(rank, dim, rank))
    Z, weights = rng.standard_normal((n, dim)), rng.uniform(0.1, 0.9, (len(blocks), n))
    Y = sum(w[:, None] * (Z @ mixing[:, b] @ inverse[b]) for w, b in zip(weights, blocks, strict=True))
    space = np.linalg.qr(mixing[:, blocks[0]])[0]
    drop = null_space(Y, Z, space[:, :-1] + 1e-5 * rng.standard_normal((dim, rank - 1)), rank)
    assert np.linalg.norm(space - drop.basis @ (drop.basis.T @ space)) <= 1e-10
    assert drop.ratio <= 1e-12


def test_a_rank_by_the_widest_gap():
    """Where rounding was overestimated, a faint direction counts that stands clearly above all fainter ones."""
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]

    def rank(*s, noise=1e-3, by_gap=True):
        return span(np.diag(s) @ frame, noise / np.sqrt(6), by_gap).shape[1]

    assert rank(1, 0.5, 5e-4, 1e-7, 1e-7, 1e-8) == 3
    assert rank(1, 0.5, 5e-4, 1e-7, 1e-7, 1e-8, by_gap=False) == 2
    assert rank(1, 0.5, 5e-4, 1e-4, 5e-5, 1e-5) == 2
    assert rank(1, 0.5, 1e-5, 1e-7, 1e-8, 1e-9) == 2
    assert rank(1, 0.5, 0.4, 0.2, 0.1, 0.05) == 6
    assert rank(0, 0, 0, 0, 0, 0) == 0


def test_tokens_are_told_apart():
    rng = np.random.default_rng(0)
    mixing = np.eye(24) + 0.2 * rng.standard_normal((24, 24))
    bases = [np.linalg.qr(mixing[:, cut])[0] for cut in np.split(np.arange(24), 4)]
    blocks = token_blocks(bases, 5, 24, rng)
    assert blocks.shape == (5, 5, 24)
    conditions = [np.linalg.cond(block @ C) for block in blocks for C in bases]
    assert max(conditions) <= 8
    assert np.linalg.cond(blocks.reshape(-1, 24)) <= 8
