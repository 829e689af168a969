import numpy as np
import pytest

import glasshead as gh
from glasshead import sensing

from .helpers import error, low_rank


def gentle(dim, rank, seed=0):
    """A head of low rank whose scores on Gaussian tokens are of size one, so that none saturates."""
    target = low_rank(dim, rank, seed=seed)
    return gh.Attention(target.W / np.linalg.norm(target.W), target.v)


@pytest.mark.parametrize(("dim", "rank"), [(8, 1), (16, 2), (24, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_recovers(dim, rank, seed):
    target = gentle(dim, rank, seed)
    oracle = gh.ValueOracle(target)
    found = gh.paper.theorem_5_1(oracle, rank, seed=seed)
    assert error(found, target) <= 1e-6
    assert found.rank == rank
    assert found.queries == oracle.queries == dim + sensing.measurements_needed(dim, rank)


def test_ours_needs_fewer_queries_and_is_more_accurate():
    target = gentle(32, 2)
    theirs, ours = gh.paper.theorem_5_1(target, 2), gh.recover(target)
    assert ours.queries < 0.71 * theirs.queries  # checks included, of which the paper has none
    assert error(ours, target) < error(theirs, target)


def test_the_threshold_is_a_curve():
    """Theorem A.2: few measurements never suffice, enough of them always do, and the change is sharp."""
    dim, rank = 16, 1
    dof = rank * (2 * dim - rank)
    rates = []
    for ratio in (1.2, 4.0):
        recovered = 0
        for seed in range(8):
            rng = np.random.default_rng(seed)
            W = np.outer(*rng.standard_normal((2, dim)))
            A, B = rng.standard_normal((2, round(ratio * dof), dim))
            found = sensing.nuclear_norm(A, B, np.sum(A @ W * B, axis=1))
            recovered += bool(np.linalg.norm(found.W - W) <= 1e-5 * np.linalg.norm(W))
        rates.append(recovered / 8)
    assert rates == [0.0, 1.0]


def test_too_few_measurements_are_refused_or_reported():
    with pytest.raises(ValueError, match="expected at least 60 measurements for rank 2 in dimension 16, got 59"):
        gh.paper.theorem_5_1(gentle(16, 2), 2, measurements=59)
    with pytest.raises(gh.NotConverged, match=r"too few measurements .*measurements_needed suggests \d+") as caught:
        gh.paper.theorem_5_1(gentle(16, 2), 2, measurements=70)
    assert caught.value.best.queries == 16 + 70


def test_scores_that_saturate_are_reported():
    target = low_rank(16, 2)
    with pytest.raises(gh.NotConverged):
        gh.paper.theorem_5_1(gh.Attention(1e3 * target.W, target.v), 2)


@pytest.mark.parametrize("rank", [0, 17, 1.5])
def test_the_rank_must_make_sense(rank):
    with pytest.raises(ValueError, match=f"expected .*rank.*, got {rank}"):
        gh.paper.theorem_5_1(gentle(16, 2), rank)
