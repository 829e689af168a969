"""A head in front of an unknown network that computes in float32."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._checks import check_front_laws
from glasshead._checks.family_laws import law_sequences
from glasshead._learners.any_network.normalisation import read_eps_again
from glasshead._learners.any_network.values import learn_from_values
from glasshead._limits import Goal
from glasshead._oracles import Normalised

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


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("seed", range(4))
def test_what_eps_leaves_open_is_small_once_W_is_known(kind, seed):
    """The norm alone shows eps to a few percent here, of which W would be off by as much."""
    block = Block(6, norm=kind, outputs=6, seed=seed)
    W, _ = identifiable(block)
    found = learn(narrowed(block), 6, options={"dtype": "float32"})
    assert found.bounded(W)
    assert found.learned.bound <= 0.1 * np.linalg.norm(W)


@pytest.mark.parametrize(("times", "least", "most"), [(1.0, 0.0, 1e-8), (1.003, 0.003, 0.02), (1.03, 0.03, 0.2)])
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("residual", [False, True])
def test_an_eps_that_is_off_shows_in_short_and_long_tokens(residual, kind, times, least, most):
    block = Block(7, norm=kind, residual=residual, outputs=3)
    seen = Normalised(gh.ValueOracle(block, dim=7), gh.Norm(kind, times * 1e-5))
    learned = learn_from_values(seen, np.random.default_rng(0), Goal(), {})
    error = read_eps_again(seen, learned, np.random.default_rng(1))
    assert least * 0.97 <= error <= most
