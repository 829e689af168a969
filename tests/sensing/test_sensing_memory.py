"""No m x d^2 array is ever made: peak memory against what one would take."""

from __future__ import annotations

import tracemalloc

import pytest
from sensing_cases import gaussian

from glasshead import sensing

FLOAT = 8


def peak(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("d", "rank"), [(48, 1), (64, 2)])
def test_nuclear_norm_stays_at_the_gram_matrix(d, rank):
    m = 4 * rank * (2 * d - rank)
    case = gaussian(d, d, rank, m)
    used = peak(lambda: sensing.nuclear_norm(*case.data))
    vectors = 12 * m * d + 60 * d * d
    assert used < FLOAT * (1.3 * m * m + vectors)
    assert used < FLOAT * m * d * d / 2


@pytest.mark.parametrize(("d", "rank"), [(48, 1), (96, 2)])
def test_fixed_rank_stays_at_its_factors(d, rank):
    m = 2 * rank * (2 * d - rank)
    case = gaussian(d, d, rank, m)
    used = peak(lambda: sensing.fixed_rank(*case.data, rank))
    assert used < FLOAT * (5 * m * d + 30 * m * (rank + 8))
    assert used < FLOAT * m * d * d / 5
