"""The parts of solving for all heads together."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks.family_laws import check_sum_laws
from glasshead._learners.heads.together.columns import OFF_SCORE, hyperplane_point
from glasshead._learners.heads.together.even import EvenPart, find_even_part
from glasshead._learners.heads.together.orientation import find_orientation
from glasshead._learners.heads.together.pairs import Pairs, levenberg
from glasshead._learners.heads.together.plane import POINTS_PER_HEAD, POINTS_SPARE, Plane, find_heads_in
from glasshead._meters.head_sum import read_head_sum
from tests.helpers import IMPOSTORS, Impostors
from tests.multi.layers import layer

SUMS = "two_heads", "nearly_one_head"
LATER = "hard_attention", "constant_after_a_while"  # obey every law that a few queries could test, or do so at first


class Answers(EvenPart):
    """G of pairs that are known, as if asked."""

    def __init__(self, pairs: Pairs):
        object.__setattr__(self, "pairs", pairs)

    def __call__(self, Z):
        return Z, self.pairs(Z)  # type: ignore[attr-defined]


def pairs_at(target: gh.MultiHead, q: np.ndarray) -> Pairs:
    return Pairs(np.array([head.W @ q + head.key_bias for head in target.heads]), np.asarray(target.v))


@pytest.mark.parametrize("heads", [1, 4, 8, 12])
def test_a_plane_shows_all_heads(heads):
    rng = np.random.default_rng(heads)
    true = Pairs(6 * rng.standard_normal((heads, 2)), rng.standard_normal((heads, 2)))
    found = find_heads_in(Plane(Answers(true), np.eye(2), 1.0, rng), 1e-9, 14)
    assert found is not None
    assert len(found) == heads
    for K, V in zip(found.K, found.V, strict=True):
        far = np.minimum(np.linalg.norm(true.K - K, axis=1), np.linalg.norm(true.K + K, axis=1))
        h = int(far.argmin())
        assert far[h] <= 1e-8 * np.linalg.norm(K)
        assert np.linalg.norm(true.V[h] - np.sign(true.K[h] @ K) * V) <= 1e-8 * np.linalg.norm(V)


def test_no_head_of_a_plane_is_guessed_in_vain():
    """Of several guesses for a new head one is right: as many rounds of questions as there are heads."""
    for seed in range(10):
        rng = np.random.default_rng((3, seed))
        plane = Plane(Answers(Pairs(6 * rng.standard_normal((3, 2)), rng.standard_normal((3, 2)))), np.eye(2), 1.0, rng)
        assert find_heads_in(plane, 1e-9, 14) is not None
        assert len(plane.Z) == POINTS_SPARE + 3 * POINTS_PER_HEAD


def test_a_plane_of_something_else_shows_none():
    class Smooth(Answers):
        def __call__(self, Z):
            return Z, np.exp(-((Z[:, 0] - Z[:, 1] ** 2) ** 2)) * np.linalg.norm(Z, axis=1)

    nothing = Pairs(np.zeros((0, 2)), np.zeros((0, 2)))
    assert find_heads_in(Plane(Smooth(nothing), np.eye(2), 1.0, np.random.default_rng(0)), 1e-9, 7) is None


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_tokens_get_lengths_that_suit_the_scores(scale):
    target = layer(8, 3, 4)
    target = gh.MultiHead([gh.Attention(scale * h.W, h.v, key_bias=scale * h.key_bias) for h in target.heads])
    rng = np.random.default_rng(0)
    found = find_even_part(read_head_sum(gh.ValueOracle(target), rng), rng)
    assert found is not None
    even, length = found
    scores = length * np.linalg.norm(pairs_at(target, even.q).K, axis=1) / np.sqrt(8)
    assert 1 <= np.median(scores) <= 60


def test_a_stand_is_on_the_own_hyperplane_with_the_others_off():
    rng = np.random.default_rng(0)
    pairs = Pairs(*rng.standard_normal((2, 5, 8)))
    z = hyperplane_point(pairs, 2, 1e6, rng)
    scores = pairs.K @ z
    assert abs(scores[2]) <= 1e-9
    assert np.delete(np.abs(scores), 2).min() >= OFF_SCORE * (1 - 1e-9)


def test_heads_are_turned_the_right_way():
    rng = np.random.default_rng(0)
    target = layer(6, 4, 3)
    box = read_head_sum(gh.ValueOracle(target), rng)
    q = rng.standard_normal(6)
    true, over = pairs_at(target, q), np.array([1.0, -1.0, -1.0, 1.0])[:, None]
    given = Pairs(over * true.K, over * true.V)
    found = find_orientation(EvenPart(box, q, 1.0), given, 2.0, rng)
    assert np.abs(found.positive - np.where(over > 0, true.V, 0)).max() <= 1e-12
    assert np.abs(found.negative - np.where(over < 0, true.V, 0)).max() <= 1e-12
    assert not found.mean.any()


@pytest.mark.parametrize("name", [name for name in IMPOSTORS if name not in SUMS])
def test_laws_that_impostors_break(name):
    oracle = gh.ValueOracle(getattr(Impostors(8), name), dim=8)
    assert check_sum_laws(oracle, np.random.default_rng(0)) == (name in LATER)


@pytest.mark.parametrize("name", SUMS)
def test_laws_that_sums_of_heads_keep(name):
    oracle = gh.ValueOracle(getattr(Impostors(8), name), dim=8)
    assert check_sum_laws(oracle, np.random.default_rng(0))


def test_levenberg_ends_at_rounding():
    t = np.linspace(0, 1, 20)
    true = np.array([2.0, -3.0, 0.5])

    def model(x):
        return x[0] * np.exp(x[1] * t) + x[2]

    def jacobian(x):
        e = np.exp(x[1] * t)
        return np.stack([e, x[0] * t * e, np.ones_like(t)], axis=1)

    x, left = levenberg(lambda x: model(true) - model(x), jacobian, np.array([1.0, -1.0, 0.0]), 1e-12)
    assert left <= 1e-14
    assert np.abs(x - true).max() <= 1e-11
