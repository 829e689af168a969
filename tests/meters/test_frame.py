"""Frames: scores come back as the vectors they are of, errors grow by the gain, and v sees every key."""

import numpy as np
import pytest

from glasshead._linalg import GIVEN_UP, cone, inside_frame, key_pairs, newton_step, orthonormal_frame, simplex, squeezed


def unit(d, seed=0):
    v = np.random.default_rng(seed).standard_normal(d)
    return v / np.linalg.norm(v)


def check(found, basis):
    """The way back works on the span of `basis`, and the gain is the norm of the inverse."""
    w = basis @ np.random.default_rng(1).standard_normal(basis.shape[1])
    np.testing.assert_allclose(found.inverse @ (found.vectors @ w), w, atol=1e-10 * found.gain)
    assert np.linalg.norm(found.inverse, 2) == pytest.approx(found.gain)
    assert len(found) == len(found.vectors)


def test_an_orthonormal_basis():
    check(orthonormal_frame(5, np.random.default_rng(0)), np.eye(5))


@pytest.mark.parametrize("d", [2, 3, 8])
def test_the_corners_of_a_simplex(d):
    corners = simplex(unit(d), np.random.default_rng(0))
    np.testing.assert_allclose(corners @ unit(d), 0, atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1)
    np.testing.assert_allclose(corners.sum(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("lean", [0.1, np.sqrt(0.5), 0.9])
def test_every_vector_of_a_cone_leans_alike(d, lean):
    axis = unit(d)
    found = cone(axis, np.random.default_rng(0), lean)
    check(found, np.eye(d))
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1)
    np.testing.assert_allclose(found.vectors @ axis, lean if d > 1 else 1.0)


def test_a_cone_leans_by_45_degrees_and_costs_sqrt_2():
    found = cone(unit(100), np.random.default_rng(0))
    np.testing.assert_allclose(found.vectors @ unit(100), np.sqrt(0.5))
    assert found.gain == pytest.approx(np.sqrt(2), rel=0.01)


@pytest.mark.parametrize("factor", [0.5, 1e-3])
def test_a_squeezed_cone_hardly_sees_a_direction(factor):
    axis, along = unit(6), unit(6, seed=5)
    found = squeezed(axis, along, factor, np.random.default_rng(0))
    np.testing.assert_allclose(found.inverse @ found.vectors, np.eye(6), atol=1e-9 / factor)
    assert np.linalg.norm(found.inverse, 2) <= found.gain * (1 + 1e-9)
    assert found.gain == pytest.approx(cone(axis, np.random.default_rng(0)).gain / factor)
    assert np.ptp(found.vectors @ axis) <= 1e-12
    assert np.linalg.norm(found.vectors @ along) <= factor * np.sqrt(6)


@pytest.mark.parametrize("off", [0.0, 1e-12, 1e-5, 1.0])
def test_pairs_of_keys_that_v_sees_make_any_direction(off):
    """Along v, across it, and nearly along, where what is across has no digits left."""
    rng = np.random.default_rng(99)
    v, across = 3 * unit(7), np.linalg.qr(np.c_[unit(7), unit(7, 3)])[0][:, 1]
    A = np.stack([unit(7), -unit(7), across, unit(7, 4), unit(7) + off * across])
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    keys, mix = key_pairs(v, A, rng)
    np.testing.assert_allclose(np.einsum("nkd,nk->nd", keys, mix), A, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(keys, axis=2), 1)
    np.testing.assert_allclose(keys @ unit(7), np.sqrt(0.5))
    np.testing.assert_allclose(np.linalg.norm(mix, axis=1), 1, atol=1e-9)


def test_what_is_along_v_gets_any_other_direction():
    """A part across v of less than 1e-8 is rounding: its direction would be that of nothing."""
    v = np.eye(4)[0]
    A = np.array([[1.0, 1e-9, 0, 0], [1.0, 1e-7, 0, 0]])
    keys, _ = key_pairs(v, A, np.random.default_rng(0))
    across = (keys[:, 0] - keys[:, 1]) / np.sqrt(2)
    assert abs(across[0, 1]) < 0.99
    assert across[1, 1] == pytest.approx(1.0)


def subspace(d, r, v, share):
    """Orthonormal columns that hold that share of v."""
    rng = np.random.default_rng(0)
    inner = rng.standard_normal((d, r))
    inner -= np.outer(v, v @ inner)
    inner[:, 0] *= np.sqrt(1 - share**2) / np.linalg.norm(inner[:, 0])
    inner[:, 0] += share * v
    inner[:, 1:] -= np.outer(inner[:, 0], inner[:, 0] @ inner[:, 1:])
    return np.linalg.qr(inner)[0]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("r", [1, 3])
def test_keys_of_a_subspace_are_seen(share, exact, r):
    """By what v has outside, where that is most of it and scores there are really 0; else by what it has inside."""
    v = unit(9)
    Q = subspace(9, r, v, share)
    found = inside_frame(v, Q, np.random.default_rng(0), exact)
    check(found, Q)
    seen = found.vectors @ v
    np.testing.assert_allclose(seen, seen[0], atol=1e-12)
    stays = np.linalg.norm(found.vectors - found.vectors @ Q @ Q.T, axis=1)
    inside = np.linalg.norm(Q.T @ v)
    outer = np.linalg.norm(v - Q @ (Q.T @ v))
    if outer >= (1 if exact else GIVEN_UP) * inside:
        np.testing.assert_allclose(stays, np.sqrt(0.5))
        assert seen[0] >= np.sqrt(0.5) * outer
        assert found.gain <= np.sqrt(2) * (1 + 1e-9)
    else:
        np.testing.assert_allclose(stays, 0, atol=1e-12)
        assert seen[0] == pytest.approx((np.sqrt(0.5) if r > 1 else 1.0) * inside)


def test_how_much_signal_is_given_up_to_stay_inside():
    """64 times: v inside by a hundredth is enough to lean on, by a thousandth it is not."""
    v = unit(9)
    for share, inside in ((0.02, True), (0.005, False)):
        found = inside_frame(v, subspace(9, 2, v, share), np.random.default_rng(0), exact=False)
        Q = subspace(9, 2, v, share)
        assert (np.linalg.norm(found.vectors - found.vectors @ Q @ Q.T) < 1e-9) == inside


def test_a_vector_outside_of_the_span_has_keys_inside_all_the_same():
    Q, v = np.eye(4)[:, :2], np.array([0.0, 0.0, 0.0, 2.0])
    found = inside_frame(v, Q, np.random.default_rng(0), exact=True)
    w = Q @ [3.0, -1.0]
    np.testing.assert_allclose(found.inverse @ (found.vectors @ w), w, atol=1e-12)


def test_a_step_leaves_out_what_moves_less_than_its_share():
    """Combinations, not their squares: a hundredth is seen where a thousandth counts, and not where a tenth does."""
    left, z, residual = np.array([[1.0], [1e-2]]), np.eye(2), np.array([[3.0, 0.05]])
    np.testing.assert_allclose(newton_step(left, z, residual, 1e-3), [3.0, 5.0])
    np.testing.assert_allclose(newton_step(left, z, residual, 0.1), [3.0, 0.0], atol=1e-12)
