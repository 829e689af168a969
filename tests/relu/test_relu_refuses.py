"""What is refused, and with which words: wrong boxes, wrong arguments, spent budgets."""

from __future__ import annotations

import numpy as np
import pytest
from relu_cases import gaussian

import glasshead as gh

rng = np.random.default_rng(1)
A, B, v = rng.standard_normal((6, 8)), rng.standard_normal((8, 5)), rng.standard_normal(8)

NOT_TWO_LAYERS = {
    "tanh": lambda x: np.tanh(x @ A) @ v,
    "tanh with biases": lambda x: np.tanh(x @ A + 1) @ v,
    "quadratic": lambda x: (x**2).sum(axis=1),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "softplus": lambda x: np.logaddexp(0, x @ A) @ v,
    "sine": lambda x: np.sin(x[:, 0]),
    "three layers": lambda x: np.maximum(np.maximum(x @ A, 0) @ B, 0) @ v[:5],
    "three layers with biases": lambda x: np.maximum(np.maximum(x @ A + v, 0) @ B - 1, 0) @ v[:5],
    "largest of several": lambda x: (x @ A).max(axis=1),
    "a step": lambda x: (x[:, 0] > 0.3).astype(float),
}


@pytest.mark.parametrize("name", NOT_TWO_LAYERS)
def test_another_function_is_refused_with_evidence(name):
    f = NOT_TWO_LAYERS[name]
    with pytest.raises(gh.TargetMismatch, match="not a two-layer ReLU network") as refused:
        gh.recover_relu(f, 6)
    evidence, best = refused.value.evidence, refused.value.best
    assert evidence is not None
    assert evidence.query.shape == (1, 6)
    assert np.isfinite(evidence.query).all()
    assert best is None or best(evidence.query)[0] != pytest.approx(f(evidence.query)[0], rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_biases_false_refuses_a_network_with_biases(d):
    with pytest.raises(gh.TargetMismatch, match="not a two-layer ReLU network"):
        gh.recover_relu(gaussian(d, 3, biases=1.0), d, biases=False)


def f(x):
    return np.maximum(x, 0).sum(axis=1)


class Dim3:
    dim = 3

    def __call__(self, x):
        return f(x)


BAD_ARGUMENTS = [
    ({"f": 3, "dim": 2}, TypeError, "expected a callable box, got int; wrap it as lambda"),
    ({"f": f}, ValueError, r"expected dim=.*call recover_relu\(f, dim\)"),
    ({"f": f, "dim": 0}, ValueError, "expected dim to be an integer >= 1, got 0"),
    ({"f": f, "dim": 2.0}, ValueError, "expected dim to be an integer >= 1, got 2.0"),
    ({"f": Dim3(), "dim": 2}, ValueError, "expected dim=3, which the box itself says, got dim=2"),
    ({"f": f, "dim": 2, "biases": "maybe"}, ValueError, "expected biases to be 'auto', True or False, got 'maybe'"),
    ({"f": f, "dim": 2, "biases": 1}, ValueError, "expected biases to be 'auto', True or False, got 1"),
    ({"f": f, "dim": 2, "budget": 0}, ValueError, "expected budget to be an integer >= 1, got 0"),
    ({"f": f, "dim": 2, "seed": -1}, ValueError, "expected seed to be an integer >= 0, got -1"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), BAD_ARGUMENTS)
def test_arguments(arguments, kind, message):
    with pytest.raises(kind, match=message):
        gh.recover_relu(**arguments)


BAD_ANSWERS = [
    (lambda x: x, r"expected answers of shape \(\d+,\), one for each input, got \(\d+, 2\)"),
    (lambda x: 1.0, r"got \(\)"),
    (lambda x: np.full(len(x), np.nan), "expected finite answers, got nan"),
    (lambda x: np.full(len(x), 1j), "expected real answers, got dtype complex128"),
    (lambda x: 1 / 0, "the box raised ZeroDivisionError: division by zero .asked: .* inputs of dimension 2"),
]


@pytest.mark.parametrize(("box", "message"), BAD_ANSWERS)
def test_answers(box, message):
    with pytest.raises(gh.OracleError, match=message) as failed:
        gh.recover_relu(box, 2)
    assert failed.value.query is not None
    assert failed.value.query.shape == (1, 2)


@pytest.mark.parametrize(("spent", "known"), [(0.01, set()), (0.5, {"kinks"}), (0.999, {"kinks", "unchecked"})])
def test_a_budget_spent_midway_says_what_is_known(spent, known):
    net = gaussian(16, 64)
    full = gh.recover_relu(net, 16).queries
    net.asked = 0
    with pytest.raises(gh.BudgetExceeded, match="queries is spent") as refused:
        gh.recover_relu(net, 16, budget=round(spent * full))
    assert net.asked <= spent * full + 1
    assert refused.value.known.keys() == known
    assert refused.value.needed > 0
    assert refused.value.known.get("kinks", 64) == 64
    assert "unchecked" not in known or net.error(refused.value.known["unchecked"]) <= 1e-9


def test_a_budget_that_suffices_changes_nothing():
    net = gaussian(8, 6)
    free = gh.recover_relu(net, 8)
    bound = gh.recover_relu(net, 8, budget=free.queries)
    assert np.array_equal(free.A, bound.A)
    with pytest.raises(gh.BudgetExceeded):
        gh.recover_relu(net, 8, budget=free.queries - 1)
