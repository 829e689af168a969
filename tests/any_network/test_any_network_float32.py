"""A head in front of an unknown network that computes in float32."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import check_front_laws
from glasshead._checks.family_laws import law_sequences

from .blocks import Block


def cancelled(seed, order=0.0):
    """A float32 box whose answer to the first sequence of laws is 0 but for rounding, which depends on the batch;
    `order` is how much the order of tokens matters."""
    block, calls = Block(6, seed=seed), []
    first = law_sequences(gh.ValueOracle(block, dim=6), np.random.default_rng(seed))

    def box(X):
        calls.append(len(X))
        y = block(X) - block(first) + order * X[:, 0, 0]
        return (y + 2.0**-22 * (-1) ** len(calls)).astype(np.float32)

    return gh.ValueOracle(box, dim=6, dtype="float32")


@pytest.mark.parametrize("seed", range(5))
def test_laws_are_judged_by_typical_answers(seed):
    size = check_front_laws(cancelled(seed), np.random.default_rng(seed))
    assert size > 0.1
    with pytest.raises(gh.TargetMismatch, match="order of the other tokens"):
        check_front_laws(cancelled(seed, order=1e-2), np.random.default_rng(seed))
