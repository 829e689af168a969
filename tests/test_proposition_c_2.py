"""Heads in orthogonal subspaces: with known bases, and with bases found from Hessians."""

import numpy as np
import pytest
from bench.blocks_cases import box, head_errors

import glasshead as gh


def bases_of(target: gh.MultiHead) -> list[np.ndarray]:
    """Of heads of full rank in their subspaces."""
    return [np.linalg.svd(head.W)[0][:, : target.dim // len(target.heads)] for head in target.heads]


@pytest.mark.parametrize(("dim", "heads"), [(1, 1), (6, 2), (6, 6), (12, 3), (24, 2)])
def test_recovers(dim, heads):
    target = box(dim, heads)
    oracle, inner = gh.ValueOracle(target), dim // heads
    found = gh.paper.proposition_c_2(oracle, bases_of(target))
    assert head_errors(found.model, target)[-1] <= 1e-9
    assert found.queries == oracle.queries == heads * (inner + inner**2) == found.limit
    assert (found.heads, found.rank, found.family) == (heads, (inner,) * heads, "multi-head")
    assert found.residual is found.bound is None


def test_subspaces_of_different_sizes_and_unused_directions():
    rng = np.random.default_rng(0)
    E = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    bases = [E[:, :1], E[:, 1:4], E[:, 4:6]]
    heads = [gh.Attention(B @ rng.standard_normal((B.shape[1],) * 2) @ B.T, B.sum(axis=1)) for B in bases]
    found = gh.paper.proposition_c_2(gh.MultiHead(heads), bases)
    assert found.queries == 2 + 12 + 6
    assert np.allclose(found.model.W, [head.W for head in heads], atol=1e-11)


E3 = np.eye(3)
REFUSED = {
    "none": ([], "expected at least one basis"),
    "wrong shape": ([np.eye(2)], r"expected bases of shape \(3, d_h\), got shape \(2, 2\)"),
    "not normal": ([2 * E3], "expected orthonormal bases of orthogonal subspaces, got products off by 3"),
    "not orthogonal": ([E3[:, :2], E3[:, 1:]], "hessian_subspaces finds the subspaces"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bases_are_checked(case):
    bases, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        gh.paper.proposition_c_2(gh.Attention(np.eye(3), np.ones(3)), bases)


def test_an_empty_subspace_is_named():
    target = gh.Attention(np.diag([1.0, 0.0]), [1.0, 0.0])
    with pytest.raises(gh.NotIdentifiable, match=r"v = 0 in subspace 1.*leave that basis out"):
        gh.paper.proposition_c_2(target, [np.eye(2)[:, :1], np.eye(2)[:, 1:]])


@pytest.mark.parametrize(("dim", "heads"), [(4, 2), (6, 6), (12, 3), (16, 4), (8, 1)])
@pytest.mark.parametrize("points", [0, 2])
def test_hessians_find_the_subspaces(dim, heads, points):
    target = box(dim, heads, seed=1)
    oracle = gh.ValueOracle(target)
    bases = gh.paper.hessian_subspaces(oracle, points=points)
    d = dim
    assert oracle.queries == d + (d + 1) * d * (d + 1) // 2 + 2 * points * (d * (d + 1) + 1)
    assert [basis.shape[1] for basis in bases] == [dim // heads] * heads
    assert head_errors(gh.paper.proposition_c_2(target, bases).model, target)[-1] <= 1e-4


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_heads_that_do_not_fill_their_subspace(rank):
    target = box(15, 3, rank=rank, seed=2)
    bases = gh.paper.hessian_subspaces(target)
    assert len(bases) == 3
    assert head_errors(gh.paper.proposition_c_2(target, bases).model, target)[-1] <= 1e-4


def test_rank_one_needs_other_points_than_zero():
    target = box(12, 3, rank=1, seed=0)
    with pytest.raises(gh.TargetMismatch, match="split a head whose W has rank one, which points=2 mends"):
        gh.paper.hessian_subspaces(target, points=0)
    assert len(gh.paper.hessian_subspaces(target, points=2)) == 3


def test_a_head_that_averages_is_found_by_its_v():
    heads = list(box(9, 3, seed=0).heads)
    heads[1] = gh.Attention(np.zeros((9, 9)), heads[1].v)
    bases = gh.paper.hessian_subspaces(gh.MultiHead(heads))
    assert [basis.shape[1] for basis in bases] == [3, 3, 1]
    assert np.allclose(np.abs(bases[-1][:, 0] @ heads[1].v), np.linalg.norm(heads[1].v), rtol=1e-6)


def test_the_square_of_the_step():
    target = box(12, 3, seed=4)
    errors = [
        head_errors(gh.paper.proposition_c_2(target, gh.paper.hessian_subspaces(target, step=step)).model, target)[-1]
        for step in (1e-1, 1e-2, 1e-3)
    ]
    assert 30 <= errors[0] / errors[1] <= 300
    assert 3e3 <= errors[0] / errors[2] <= 3e4


def test_nothing_to_find():
    with pytest.raises(gh.NotIdentifiable, match="no Hessian stands above its error"):
        gh.paper.hessian_subspaces(gh.Attention(np.zeros((3, 3)), np.ones(3)))
    with pytest.raises(ValueError, match="expected step to be a positive number, got 0"):
        gh.paper.hessian_subspaces(box(4, 2), step=0.0)
