import numpy as np
import pytest

import glasshead as gh

from .helpers import error, head


@pytest.mark.parametrize("probes", ["basis", "gaussian"])
@pytest.mark.parametrize("dim", [1, 2, 7, 24])
@pytest.mark.parametrize("sparse", [False, True])
def test_recovers(dim, probes, sparse):
    target = head(dim, W=1 / np.sqrt(dim), sparse=sparse)
    oracle = gh.ValueOracle(target)
    found = gh.paper.theorem_4_1(oracle, probes=probes)
    assert error(found, target) <= (1e-10 if probes == "basis" else 1e-5)
    assert np.array_equal(found.model.v, target.v)
    assert found.queries == oracle.queries == dim**2 + dim == found.limit
    assert found.residual is found.bound is None


def test_v_zero():
    with pytest.raises(gh.NotIdentifiable, match="v = 0"):
        gh.paper.theorem_4_1(gh.Attention(np.eye(2), np.zeros(2)))


def test_one_number_per_answer():
    with pytest.raises(ValueError, match="expected a box with one number per answer, as in the paper, got 3"):
        gh.paper.theorem_4_1(gh.Attention(np.eye(2), np.ones((2, 3))))


def test_unit_probes_saturate_where_ours_do_not():
    target = head(16, W=30)
    ours, theirs = error(gh.recover(target), target), error(gh.paper.theorem_4_1(target), target)
    assert ours <= 1e-12
    assert theirs > 1e6 * ours
