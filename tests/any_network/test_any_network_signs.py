"""A classifier's decision is enough."""

import numpy as np
import pytest

import glasshead as gh

from .blocks import Block, evidence_against, identifiable, learn


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("residual", [False, True])
def test_a_decision_to_24_bits(residual, seed):
    block = Block(8, residual=residual, seed=seed)
    found = learn(block, 8, seed=seed, oracle=gh.SignOracle, bits=24)
    assert found.error(block.W) <= 1e-4
    assert found.bounded(block.W)
    assert found.learned.check.evidence is None
    assert found.learned.limit == (64 + 8) * 24


def test_more_bits_say_more():
    block = Block(8, seed=1)
    found = learn(block, 8, oracle=gh.SignOracle)
    assert found.error(block.W) <= 1e-8
    assert found.learned.bits == 40


def test_low_rank_from_decisions():
    block = Block(12, rank=2, seed=1)
    found = learn(block, 12, oracle=gh.SignOracle)
    assert found.learned.rank == 2
    assert found.error(block.W) <= 1e-6
    assert found.bounded(block.W)


def test_an_accuracy_asks_for_as_many_bits():
    block = Block(5, seed=2)
    found = learn(block, 5, oracle=gh.SignOracle, accuracy=1e-10)
    assert found.learned.bound <= 1e-10
    assert found.bounded(block.W)


def test_decisions_behind_a_given_normalisation():
    block = Block(6, norm="layer", seed=1)
    found = learn(block, 6, oracle=gh.SignOracle, norm=gh.Norm("layer", 1e-5))
    assert found.error(identifiable(block)[0]) <= 1e-6


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        (lambda X: np.ones(len(X)), "the answer never changes"),
        (lambda X: X[:, -1].sum(axis=-1) - 0.3, "depends on the last token alone"),
    ],
)
def test_decisions_that_hide_W(box, reason):
    with pytest.raises(gh.NotIdentifiable, match=reason):
        learn(box, 4, oracle=gh.SignOracle)


def test_positions_show_in_decisions():
    block, positions = Block(6), np.random.default_rng(0).standard_normal((16, 6))
    with pytest.raises(gh.TargetMismatch, match=r"the order of the other tokens|every token twice"):
        learn(lambda X: block(X + positions[: X.shape[1]]), 6, oracle=gh.SignOracle)


def test_two_heads_show_in_decisions():
    one, two = Block(6, seed=1), Block(6, seed=2)

    def box(X):
        return np.tanh(one.attend(X) @ one.B + two.attend(X) @ two.B + X[:, -1]) @ one.readout[:, 0]

    assert evidence_against(box, 6, oracle=gh.SignOracle) is not None
