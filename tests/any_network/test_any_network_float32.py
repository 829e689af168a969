"""A head in front of an unknown network that computes in float32."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import check_front_laws
from glasshead._checks.family_laws import law_sequences

from .blocks import Block, identifiable, learn


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


def narrowed(block):
    """A block with float32 parameters that computes in float32."""
    for name, value in vars(block).items():
        if isinstance(value, np.ndarray):
            setattr(block, name, value.astype(np.float32))
    block.eps = np.float32(block.eps)
    return lambda X: block(X.astype(np.float32)).astype(np.float32)


@pytest.mark.parametrize("act", ["tanh", "relu"])
@pytest.mark.parametrize("outputs", [None, 4])
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("seed", range(2))
def test_a_normalisation_is_found(kind, outputs, act, seed):
    block = Block(8, norm=kind, outputs=outputs, act=act, seed=seed)
    W, _ = identifiable(block)
    found = learn(narrowed(block), 8, options={"dtype": "float32"})
    assert found.learned.model.norm == gh.Norm(kind, 1e-5)
    assert found.bounded(W)
    assert found.error(W) <= 2e-2


def test_an_eps_that_is_no_power_of_ten():
    """It is known to three digits, and what that leaves open is part of the bound."""
    block = Block(8, norm="layer", eps=3.7e-6, outputs=4)
    W, _ = identifiable(block)
    found = learn(narrowed(block), 8, options={"dtype": "float32"})
    assert found.learned.model.norm.eps == pytest.approx(3.7e-6, rel=1e-2)
    assert found.bounded(W)
