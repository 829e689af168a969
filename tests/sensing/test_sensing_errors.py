"""What bad input gets: expected X, got Y, and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sensing_cases import gaussian

from glasshead import sensing
from glasshead.sensing._measurements import require_matrix_rank

A, B, t = gaussian(8, 6, 1, 40).data
NAN, INFINITE = np.full(40, np.nan), np.full((40, 8), np.inf)

BAD = [
    (A[:, 0], B, t, r"expected A of shape \(m, d\), got \(40,\); pass one row per measurement"),
    (A, B[None], t, r"expected B of shape \(m, d\), got \(1, 40, 6\)"),
    (A, B, t[:, None], r"expected t of shape \(m,\), got \(40, 1\)"),
    (A[:39], B, t, r"expected one row of A and one of B per measurement in t, got 39, 40 and 40; pass A \(m, d1\)"),
    (A, B, t[:7], "got 40, 40 and 7"),
    (A[:0], B[:0], t[:0], r"expected at least one measurement, got A \(0, 8\)"),
    (A[:, :0], B, t, "expected at least one measurement"),
    (A, B, NAN, "expected finite numbers in t, got NaN or infinity; drop those measurements"),
    (INFINITE, B, t, "expected finite numbers in A"),
    (A, B + 1j, t, "expected real numbers in B, got complex128; measure real and imaginary parts"),
    (A, B, t.astype(str), "expected real numbers in t, got <U32; convert to a float array"),
]


@pytest.mark.parametrize(("A", "B", "t", "message"), BAD)
def test_bad_measurements(A, B, t, message):
    with pytest.raises(ValueError, match=message):
        sensing.nuclear_norm(A, B, t)
    with pytest.raises(ValueError, match=message):
        sensing.fixed_rank(A, B, t, 1)


@pytest.mark.parametrize("rank", [0, -1, 7, 1.5, None, "2"])
def test_bad_rank(rank):
    # Not through fixed_rank: the type checker of these tests would be faster than the sentence a user gets.
    with pytest.raises(
        ValueError, match=f"expected a whole rank from 1 to 6 for a 8 x 6 matrix, got {rank!r}; call nuc"
    ):
        require_matrix_rank(rank, 8, 6, 40)


@pytest.mark.parametrize("rank", [0, 7])
def test_bad_rank_is_refused_before_any_work(rank):
    with pytest.raises(ValueError, match=r"expected a whole rank from 1 to 6 .*call nuclear_norm"):
        sensing.fixed_rank(A, B, t, rank)


@pytest.mark.parametrize(("rank", "needed", "missing"), [(4, 40, 1), (5, 45, 6), (6, 48, 9)])
def test_too_few_measurements_are_refused_with_the_number_needed(rank, needed, missing):
    with pytest.raises(ValueError, match=f"expected at least {needed} measurements.*got 39; measure {missing} more"):
        sensing.fixed_rank(A[:39], B[:39], t[:39], rank)


@pytest.mark.parametrize("solve", [sensing.nuclear_norm, lambda *data, **kw: sensing.fixed_rank(*data, 1, **kw)])
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"tol": 0.0}, "expected a relative tolerance 0 < tol < 1, got 0.0"),
        ({"tol": 2.0}, "expected a relative tolerance 0 < tol < 1, got 2.0"),
        ({"tol": np.nan}, "expected a relative tolerance 0 < tol < 1, got nan"),
        ({"max_iterations": 0}, "expected max_iterations >= 1, got 0"),
    ],
)
def test_bad_settings(solve, setting, message):
    with pytest.raises(ValueError, match=message):
        solve(A, B, t, **setting)
