"""The parts of the way to a block, alone."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._learned import UNLUCKY
from glasshead._learners.block.decoder.fresh_odds import FRESH_ANGLE
from glasshead._learners.block.fresh import norm_bounds, norm_bounds_on_sphere
from glasshead._learners.block.geometry import Rows, Total, View, read_reference, read_total, seen_rank
from glasshead._learners.block.spaces import Bunches, bunches
from glasshead._learners.block.values import split_heads, value_maps
from glasshead._linalg import random_rotation
from glasshead._oracles import find_alike, read_slope

from .boxes import Box

ROUNDING = 2.0**-53


def test_slopes_are_exact_to_the_sixth_order():
    A = np.random.default_rng(0).standard_normal((4, 3))
    found = read_slope(lambda Z: np.sin(Z @ A + 1), 4, 5e-3, ROUNDING)
    np.testing.assert_allclose(found, A * np.cos(1.0), rtol=1e-11)


def test_kinks_nearby_do_not_spoil_a_slope():
    rng = np.random.default_rng(1)
    A, b, C = rng.standard_normal((6, 400)), rng.standard_normal(400), rng.standard_normal((400, 5)) / 20
    found = read_slope(lambda Z: np.maximum(Z @ A + b, 0) @ C, 6, 5e-3, ROUNDING)
    np.testing.assert_allclose(found, A @ ((b > 0)[:, None] * C), rtol=1e-8, atol=1e-8)


def test_tokens_that_are_answered_alike_are_found():
    rng = np.random.default_rng(2)
    A, x = rng.standard_normal((5, 5)) / 2, 0.3 * rng.standard_normal((7, 5))

    def answer(tokens):
        return tokens + np.tanh(tokens @ A)

    inverse = np.linalg.inv(np.eye(5) + A)
    found, left = find_alike(lambda c, which: (answer(x)[which] - answer(c)) @ inverse, np.zeros((7, 5)), 1e-15, 1e-12)
    np.testing.assert_allclose(found, x, atol=1e-12)
    assert left.max() < 1e-12


def test_the_sum_of_all_maps_is_known_up_to_what_no_answer_sees():
    box = Box(24, (8, 8, 8), 2)
    rng = np.random.default_rng(3)
    references = [read_reference(box.oracle, token, 1.0) for token in rng.standard_normal((2, 24))]
    total = read_total(box.oracle, references, 1.0)
    S = np.eye(24) + sum(box.P)
    unseen = np.ones(24) @ np.linalg.inv(S)
    unseen /= np.linalg.norm(unseen)
    assert total.unseen.shape == (24, 1)
    assert abs(abs(total.unseen[:, 0] @ unseen) - 1) < 1e-14
    B = sum(box.P) @ np.linalg.inv(S)
    keep = np.eye(24) - np.outer(unseen, unseen)
    assert np.linalg.norm(total.B - B @ keep) < 1e-10 * np.linalg.norm(B)
    assert [len(at.within(total.outputs).blind) for at in references] == [1, 1]


def test_ranks_end_at_a_gap():
    assert seen_rank(np.array([1.0, 0.1, 1e-2, 1e-9, 1e-10])) == 3
    assert seen_rank(np.array([1.0, 0.1, 1e-2])) == 3


def test_bunches_that_add_up_are_heads():
    rng = np.random.default_rng(0)
    values = np.concatenate([np.repeat([0.3, -0.8, 1.1], [4, 5, 6]), rng.uniform(2, 9, 3)])
    ways = bunches(values + 1e-9 * rng.standard_normal(18), 0, 0)
    assert (ways[0].ranks, ways[0].lost) == ((6, 5, 7), 0)
    assert bunches(np.arange(1.0, 19.0), 0, 0) == []  # no two of them are equal


def test_one_token_reaches_every_sequence():
    block = gh.Block.random(12, heads=2, seed=3)
    X = np.random.default_rng(0).standard_normal((4, 6, 12))
    token = block.single_token(X)
    np.testing.assert_allclose(block(token[:, None]), block(X), atol=1e-12)


ERRORS = {
    "of rank one": lambda rng: np.outer(rng.standard_normal(12), rng.standard_normal(12)),
    "of rank two": lambda rng: rng.standard_normal((12, 2)) @ rng.standard_normal((2, 12)),
    "of any rank": lambda rng: rng.standard_normal((12, 12)),
    "in one entry": lambda rng: np.eye(12)[[0]].T @ np.eye(12)[[3]],
    "along the identity": lambda rng: np.eye(12),
    "nearly along it": lambda rng: np.eye(12) + 0.1 * rng.standard_normal((12, 12)),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_of_W_are_within_their_bounds(kind):
    rng, broken, ratios = np.random.default_rng(4), 0, []
    for _ in range(1000):
        E, stretched = ERRORS[kind](rng), np.diag(np.linspace(1.0, 2.0, 12))
        moves, D = random_rotation(12, rng) @ stretched, 3 * random_rotation(12, rng)[:5]
        off = np.einsum("td,de,je->jt", D, E, moves[:6])[:, None]
        ratios.append(norm_bounds(off, D, moves)[0] / np.linalg.norm(E))
    broken = np.mean(np.array(ratios) < 1)
    assert broken <= UNLUCKY
    assert np.median(ratios) < 30  # a bound that says something


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_on_a_sphere_are_within_their_bounds(kind):
    rng, ratios = np.random.default_rng(5), []
    for _ in range(500):
        E, c, radius = ERRORS[kind](rng), rng.standard_normal(12), np.sqrt(12)
        c *= 0.0 if "along" in kind else 1.0
        last, angle, off = radius * random_rotation(12, rng)[:6], FRESH_ANGLE, []
        for q in last:
            tangents = random_rotation(11, rng)[:8] @ np.linalg.svd(q[None])[2][1:]
            D = (np.cos(angle) - 1) * q + np.sin(angle) * radius * tangents
            off.append(D @ (E @ q + c))
        off = np.array(off)[:, None]
        found = norm_bounds_on_sphere(off, rng.uniform(0.3, 1.0, off.shape), radius, angle, 12)[0]
        ratios.append(found / np.linalg.norm(E))
    assert np.mean(np.array(ratios) < 1) <= UNLUCKY
    assert np.median(ratios) < 60


@pytest.mark.parametrize("heads", [1, 2])
def test_no_number_that_is_not_finite_goes_into_least_squares(heads):
    """Keys that would move nothing alone have no share of it, and weights that are none explain nothing."""
    rng = np.random.default_rng(0)
    view, total = View(np.eye(6), np.ones(6), np.eye(6), np.zeros((0, 6))), Total(np.eye(6), np.zeros((6, 0)))
    z = rng.standard_normal((20, 6))
    rows = Rows(np.where(np.arange(20)[:, None] == 3, 0.0, z), z, z / 2, copies=1)
    way = Bunches((1.0,) * heads, (6 // heads - 1,) * heads, lost=0)
    with pytest.raises(gh.NotConverged, match="no weights of heads explain that"):
        split_heads(view, total, rows, way, [np.eye(6)[:, :2]] * heads)
    with pytest.raises(gh.NotConverged, match="no weights of heads explain that"):
        value_maps(view, total, Rows(z, z, z / 2, copies=1), [np.eye(6)], np.full((20, 1), np.nan))
