"""The nuclear-norm program: recovery above the phase transition, optimality below it, and the proof in both cases."""

from __future__ import annotations

import numpy as np
import pytest
from sensing_cases import Case, dof, gaussian, residual, with_values

from glasshead import sensing

RECOVERED = [(16, 16, 1, 4.0), (32, 32, 2, 3.0), (24, 24, 4, 2.5), (12, 30, 2, 3.5), (30, 12, 2, 3.5), (1, 10, 1, 2.0)]


def proved(found: sensing.Sensed, case: Case) -> None:
    """Check the certificate from nothing but the measurements."""
    proof = found.certificate
    assert proof is not None
    D = case.A.T @ (proof.y[:, None] * case.B)
    assert np.linalg.norm(D, 2) <= 1 + 1e-9
    assert proof.dual_norm == pytest.approx(1.0)
    assert proof.y @ case.t == pytest.approx(proof.bound, rel=1e-9)
    value = np.linalg.norm(found.W, "nuc")
    assert abs(value - proof.bound) <= 1.01 * proof.gap * value + 1e-12 * value


@pytest.mark.parametrize(("d1", "d2", "rank", "ratio"), RECOVERED)
def test_recovers_and_proves_it(d1, d2, rank, ratio):
    case = gaussian(d1, d2, rank, round(ratio * dof(d1, d2, rank)))
    found = sensing.nuclear_norm(*case.data)
    assert found.converged
    assert found.rank == rank
    assert case.error(found.W) < 1e-7
    assert residual(found.W, case) <= 1e-8
    assert found.certificate.gap <= 1e-8
    assert found.certificate.outside < 1
    proved(found, case)


@pytest.mark.parametrize(("rank", "m"), [(2, 80), (2, 150), (4, 200), (16, 100)])
def test_below_the_transition_the_minimum_is_still_the_minimum(rank, m):
    case = gaussian(16, 16, rank, m)
    found = sensing.nuclear_norm(*case.data)
    assert found.converged
    assert np.linalg.norm(found.W, "nuc") <= np.linalg.norm(case.W, "nuc") * (1 + 1e-8)
    assert residual(found.W, case) <= 1e-8
    proved(found, case)


def test_one_measurement_has_a_closed_form():
    a, b = np.array([3.0, 4.0]), np.array([0.0, 2.0, 0.0])
    found = sensing.nuclear_norm(a[None], b[None], [5.0])
    assert pytest.approx(5.0 * np.outer(a, b) / 100) == found.W


@pytest.mark.parametrize("m", [64, 90])
def test_a_W_that_the_measurements_determine(m):
    case = gaussian(8, 8, 8, m)
    found = sensing.nuclear_norm(*case.data)
    assert found.converged
    assert case.error(found.W) < 1e-9
    proved(found, case)


@pytest.mark.parametrize("values", [[1.0, 1e-2], [1.0, 1e-4], [1.0, 0.5, 0.25, 0.125]])
def test_ill_conditioned_W(values):
    case = with_values(16, values, 200)
    found = sensing.nuclear_norm(*case.data)
    assert found.converged
    assert found.rank == len(values)
    assert case.error(found.W) < 1e-7
    proved(found, case)


def test_dimension_one():
    found = sensing.nuclear_norm([[2.0]], [[3.0]], [12.0])
    assert found.converged
    assert pytest.approx(np.array([[2.0]])) == found.W


def test_all_zero_measurements_mean_zero():
    found = sensing.nuclear_norm(np.ones((5, 3)), np.ones((5, 4)), np.zeros(5))
    assert found.converged
    assert found.rank == 0
    assert not found.W.any()


def test_units_and_lengths_do_not_matter():
    case = gaussian(16, 12, 2, 160)
    lengths = np.geomspace(1e-4, 1e4, 160)
    scaled = Case(case.W * 1e-9, case.A * lengths[:, None], case.B * 1e5, case.t * lengths * 1e-4)
    found = sensing.nuclear_norm(*scaled.data)
    assert found.converged
    assert scaled.error(found.W) < 1e-7
    proved(found, scaled)


def test_a_row_that_is_never_measured_stays_zero():
    W = gaussian(10, 10, 1, 1).W
    i, j = np.divmod(np.arange(10, 100), 10)
    seen = Case(W, np.eye(10)[i], np.eye(10)[j], W[i, j])
    found = sensing.nuclear_norm(*seen.data)
    assert found.converged
    assert np.allclose(found.W, np.vstack([np.zeros(10), W[1:]]), atol=1e-7)
    proved(found, seen)


def test_repeated_measurements_that_agree():
    case = gaussian(12, 12, 1, 90)
    twice = Case(case.W, *(np.concatenate([x, x[:20]]) for x in case.data))
    found = sensing.nuclear_norm(*twice.data)
    assert found.converged
    assert case.error(found.W) < 1e-7
    proved(found, twice)


@pytest.mark.parametrize("off", [1e-4, 1.0])
def test_repeated_measurements_that_disagree(off):
    case = gaussian(12, 12, 1, 90)
    twice = Case(case.W, *(np.concatenate([x, x[:20]]) for x in case.data))
    twice.t[-1] += off
    found = sensing.nuclear_norm(*twice.data)
    assert not found.converged
    assert found.residual > 1e-8
    assert found.residual == pytest.approx(residual(found.W, twice), rel=0.5)
    assert "contradict each other" in found.reason
    assert found.certificate is None


def test_noise_on_more_measurements_than_entries():
    case = gaussian(6, 6, 1, 60)
    case.t[:] += 1e-3
    found = sensing.nuclear_norm(*case.data)
    assert not found.converged
    assert "contradict each other" in found.reason


def test_a_zero_row_with_a_nonzero_answer():
    case = gaussian(8, 8, 1, 50)
    case.A[3] = 0.0
    found = sensing.nuclear_norm(*case.data)
    assert not found.converged
    assert "contradict each other" in found.reason


def test_measurements_of_nothing_that_are_not_zero():
    found = sensing.nuclear_norm(np.zeros((5, 3)), np.ones((5, 3)), np.ones(5))
    assert not found.converged
    assert found.residual == pytest.approx(1.0)


@pytest.mark.parametrize("iterations", [1, 7, 25])
def test_out_of_iterations_is_not_success(iterations):
    case = gaussian(16, 16, 4, 150)
    found = sensing.nuclear_norm(*case.data, max_iterations=iterations)
    assert not found.converged
    assert found.iterations == iterations
    assert f"stopped after {iterations} iterations, short of tol" in found.reason
    assert found.certificate.gap > 1e-8
    proved(found, case)


def test_progress_reports_the_gap():
    case, seen = gaussian(16, 16, 4, 150), []
    found = sensing.nuclear_norm(*case.data, progress=lambda *told: seen.append(told))
    assert seen[-1][0] == found.iterations
    assert all("duality gap" in what for _, _, what in seen)
