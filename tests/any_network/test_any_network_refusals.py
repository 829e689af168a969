"""Boxes that hide W, and boxes that are something else."""

import numpy as np
import pytest

import glasshead as gh
from glasshead._learners.any_network.learn import learn_any_network
from glasshead._oracles.boundary import Budgeted

from .blocks import Block, evidence_against, learn, normalized


class Impostors:
    def __init__(self, dim=8):
        self.one, self.two = Block(dim, seed=1), Block(dim, seed=2)
        self.positions = np.random.default_rng(0).standard_normal((64, dim))
        self.rng = np.random.default_rng(1)

    def mixed(self, X, share=1.0, residual=1.0):
        h = self.one.attend(X) @ self.one.B + share * self.two.attend(X) @ self.two.B + residual * X[:, -1]
        return np.tanh(normalized(h) @ self.one.W1 + self.one.b1) @ self.one.W2[:, 0]

    def two_heads(self, X):
        return self.mixed(X)

    def two_heads_without_residual(self, X):
        return self.mixed(X, residual=0.0)

    def nearly_one_head(self, X):
        return self.mixed(X, share=1e-4)

    def positions_added(self, X):
        return self.one(X + self.positions[: X.shape[1]])

    def random_answers(self, X):
        return self.rng.standard_normal(len(X))

    def linear_attention(self, X):
        scores = np.einsum("bnd,de,be->bn", X, self.one.W, X[:, -1])
        return np.tanh(np.einsum("bn,bnd->bd", scores, X) @ self.one.B + X[:, -1]).sum(axis=-1)

    def labels(self, X):
        return (self.one(X) > 0).astype(float)


IMPOSTORS = [name for name in vars(Impostors) if name not in ("__init__", "mixed") and not name.startswith("_")]
CHEAP = ("two_heads", "two_heads_without_residual", "positions_added", "random_answers", "linear_attention")


@pytest.mark.parametrize("kind", IMPOSTORS)
def test_impostors_are_refused_with_evidence(kind):
    asked = 0

    def box(X):
        nonlocal asked
        asked += len(X)
        return getattr(impostors, kind)(X)

    impostors = Impostors()
    evidence = evidence_against(box, 8)
    assert evidence is not None
    assert evidence.query.shape[1] == 8
    assert kind not in CHEAP or asked <= 300


@pytest.mark.parametrize(
    "box",
    [
        lambda X: np.full(len(X), 0.7),
        lambda X: np.zeros((len(X), 3)),
        lambda X: np.tanh(X[:, -1]).sum(axis=-1),
        lambda X: 1 - 1e-300 * X.sum(axis=(1, 2)),
    ],
    ids=["constant", "zero", "last token", "saturated"],
)
def test_boxes_that_do_not_depend_on_the_weights(box):
    with pytest.raises(gh.NotIdentifiable, match=r"does not depend on the attention weights.*no learner could read W"):
        learn(box, 5)


def test_unpromised_rounding_is_noticed():
    block = Block(8)
    with pytest.raises(
        gh.TargetMismatch, match=r"less accurate than promised \(then say so with tolerance= or rtol=\)"
    ):
        learn(lambda X: np.round(block(X), 8), 8)


def test_a_budget_that_ends_early_gives_what_is_known():
    oracle = Budgeted(gh.ValueOracle(Block(16), dim=16), 1000)
    with pytest.raises(gh.BudgetExceeded) as caught:
        learn_any_network(oracle, np.random.default_rng(0))
    assert oracle.queries <= 1000
    assert set(caught.value.known) >= {"pull", "b", "W_b"}
    assert caught.value.needed > 0


def test_failures_of_the_box_are_named():
    with pytest.raises(gh.OracleError, match="finite"):
        learn(lambda X: np.full(len(X), np.nan), 4)
