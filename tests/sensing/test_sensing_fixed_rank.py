"""Recovery with the rank known, and what is said where there is nothing to recover."""

from __future__ import annotations

import numpy as np
import pytest
from sensing_cases import dof, gaussian, residual, with_values

from glasshead import sensing

SIZES = [(8, 8, 1), (16, 16, 2), (32, 32, 4), (10, 40, 3), (40, 10, 3), (1, 1, 1), (1, 12, 1), (12, 1, 1)]
FULL = [(4, 4, 4), (12, 12, 12), (3, 9, 3), (9, 3, 3), (1, 1, 1)]


@pytest.mark.parametrize(("d1", "d2", "rank"), SIZES)
@pytest.mark.parametrize("ratio", [2, 4])
def test_recovers_at_twice_the_degrees_of_freedom(d1, d2, rank, ratio):
    case = gaussian(d1, d2, rank, ratio * dof(d1, d2, rank) + 2)
    found = sensing.fixed_rank(*case.data, rank)
    assert found.converged
    assert found.rank == rank
    assert case.error(found.W) < 1e-10
    assert residual(found.W, case) <= 1e-11
    assert found.W.shape == (d1, d2)


@pytest.mark.parametrize(("d1", "d2", "rank"), FULL)
def test_recovers_full_rank_from_as_many_measurements_as_entries(d1, d2, rank):
    case = gaussian(d1, d2, rank, d1 * d2)
    found = sensing.fixed_rank(*case.data, rank)
    assert found.converged
    assert case.error(found.W) < 1e-8
    assert "another matrix" not in found.reason


@pytest.mark.parametrize("smallest", [1e-2, 1e-4, 1e-6])
def test_recovers_ill_conditioned_W(smallest):
    case = with_values(24, [1.0, smallest**0.5, smallest], 2 * dof(24, 24, 3))
    found = sensing.fixed_rank(*case.data, 3)
    assert found.converged
    assert found.rank == 3
    assert case.error(found.W) < 1e-11


@pytest.mark.parametrize("asked", [2, 4, 6])
def test_a_rank_asked_for_too_high_comes_back_right(asked):
    case = gaussian(20, 20, 2, 2 * dof(20, 20, asked))
    found = sensing.fixed_rank(*case.data, asked)
    assert found.converged
    assert found.rank == 2
    assert case.error(found.W) < 1e-10


@pytest.mark.parametrize("scale", [(1e12, 1e-7, 1e-30), (1e-9, 1e-9, 1e9), (1e-180, 1e-100, 1e200)])
def test_units_do_not_matter(scale):
    case = gaussian(16, 12, 2, 2 * dof(16, 12, 2))
    a, b, w = scale
    found = sensing.fixed_rank(case.A * a, case.B * b, case.t * (a * b * w), 2)
    assert found.converged
    assert case.error(found.W / w) < 1e-10


def test_rows_of_very_different_length():
    case = gaussian(16, 16, 2, 2 * dof(16, 16, 2))
    lengths = np.geomspace(1e-4, 1e4, len(case.t))
    found = sensing.fixed_rank(case.A * lengths[:, None], case.B, case.t * lengths, 2)
    assert found.converged
    assert case.error(found.W) < 1e-10


def test_entries_of_W_are_measurements_too():
    case = gaussian(16, 16, 1, 1)
    i, j = np.divmod(np.random.default_rng(1).permutation(256)[:180], 16)
    found = sensing.fixed_rank(np.eye(16)[i], np.eye(16)[j], case.W[i, j], 1)
    assert found.converged
    assert case.error(found.W) < 1e-10


def test_all_zero_measurements_mean_zero():
    A, B, t = np.ones((9, 4)), np.ones((9, 3)), np.zeros(9)
    found = sensing.fixed_rank(A, B, t, 1)
    assert found.converged
    assert found.rank == 0
    assert found.W.shape == (4, 3)
    assert not found.W.any()


def test_lists_and_integers_are_fine():
    found = sensing.fixed_rank([[1], [2]], [[3], [1]], [6, 4], np.int64(1))
    assert found.converged
    assert pytest.approx(np.array([[2.0]])) == found.W


def test_the_same_seed_gives_the_same_answer():
    case = gaussian(16, 16, 2, 70)
    first, second = (sensing.fixed_rank(*case.data, 2, seed=3) for _ in range(2))
    assert np.array_equal(first.W, second.W)
    assert first.iterations == second.iterations


def test_at_the_information_limit_it_warns():
    case = gaussian(8, 8, 1, dof(8, 8, 1), seed=1)
    found = sensing.fixed_rank(*case.data, 1)
    assert not found.converged or "another matrix may fit as well" in found.reason


@pytest.mark.parametrize("noise", [1e-9, 1e-4, 1e-1])
def test_noise_is_reported_and_not_called_success(noise):
    case = gaussian(16, 16, 2, 4 * dof(16, 16, 2))
    noisy = case._replace(t=case.t + noise * np.std(case.t) * np.random.default_rng(1).standard_normal(len(case.t)))
    found = sensing.fixed_rank(*noisy.data, 2)
    assert not found.converged
    assert "inconsistent with rank 2" in found.reason
    assert 0.3 * noise < found.residual < 2 * noise
    assert case.error(found.W) < noise
    assert sensing.fixed_rank(*noisy.data, 2, tol=2 * noise).converged


def test_too_low_a_rank_is_reported_and_not_called_success():
    case = gaussian(16, 16, 4, 400)
    found = sensing.fixed_rank(*case.data, 2)
    assert not found.converged
    assert found.residual > 0.1
    assert "no matrix of rank 2 found that fits" in found.reason


def test_one_contradiction_among_many_is_reported():
    case = gaussian(12, 12, 1, 80)
    case.t[7] += 1e-6
    found = sensing.fixed_rank(*case.data, 1)
    assert not found.converged
    assert found.residual < 1e-6


def test_measurements_of_nothing_that_are_not_zero():
    found = sensing.fixed_rank(np.zeros((20, 4)), np.ones((20, 4)), np.ones(20), 1)
    assert not found.converged
    assert found.residual == pytest.approx(1.0)


def test_out_of_iterations_is_not_success():
    case = gaussian(16, 16, 2, 200)
    found = sensing.fixed_rank(*case.data, 2, max_iterations=2)
    assert not found.converged
    assert found.iterations == 2
    assert "after 2 steps" in found.reason


def test_progress_counts_to_the_end():
    case, seen = gaussian(16, 16, 2, 200), []
    found = sensing.fixed_rank(*case.data, 2, progress=lambda *told: seen.append(told))
    assert [done for done, _, _ in seen] == list(range(1, found.iterations + 1))
    assert all("residual" in what for _, _, what in seen)
