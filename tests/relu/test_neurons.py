"""From gradients on arcs to neurons."""

import numpy as np
import pytest

from glasshead._relu.gradients import Pieces
from glasshead._relu.neurons import to_neurons


@pytest.mark.parametrize(("faint", "neurons"), [(0.0, 5), (1e-7, 5), (1e-5, 4)])
def test_neurons_that_noise_made_up_are_left_out(faint, neurons):
    jumps = np.array([[1.0, 0.0, 0.0], [0.0, 1e-6, 0.0], [0.0, 0.0, 2.0]])
    bends = np.array([1.0, -1.0, 1.0])
    pieces = Pieces(np.vstack([np.zeros(3), np.cumsum(jumps, axis=0)]) - jumps.sum(axis=0) / 2, bends)
    found = to_neurons(pieces, False, 0.0, choose=False, exact=False, faint=faint)
    assert len(found.w) == neurons
    assert f"{neurons} neurons for 3 kinks" in found.words
    X = np.random.default_rng(0).standard_normal((50, 3))
    whole = to_neurons(pieces, False, 0.0, choose=False, exact=False)
    np.testing.assert_allclose(found(X), whole(X), atol=1e-5)
