"""What logits give away without a chosen vector: the width of the hidden state, and the space of the projection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.special import log_softmax

import glasshead as gh
from glasshead._audit import find_leak

DIM, WIDTH, OUTPUTS = 10, 24, 120


def endpoint(seed: int = 0, probabilities: bool = False, outputs: int = OUTPUTS):
    """A small language model: two layers of anything, a hidden state of `WIDTH` numbers, and an unembedding."""
    rng = np.random.default_rng(seed)
    first, E = rng.standard_normal((DIM, WIDTH)), rng.standard_normal((outputs, WIDTH))

    def answer(X: np.ndarray) -> np.ndarray:
        hidden = np.tanh(X.mean(axis=1) @ first) + np.tanh(X[:, -1] @ first) ** 2
        return log_softmax(hidden @ E.T, axis=1) if probabilities else hidden @ E.T

    return answer, E


@pytest.mark.parametrize("seed", range(3))
def test_the_width_and_the_space_of_the_projection(seed):
    box, E = endpoint(seed)
    leak = find_leak(box, DIM, np.sqrt(DIM), seed)
    assert leak is not None
    assert leak.rows[0].width == WIDTH
    assert WIDTH < leak.queries <= 2 * (WIDTH + 8)
    assert leak.space is not None
    assert subspace_angles(leak.space, E).max() < 1e-10


def test_rounding_to_two_decimals_does_not_hide_it_and_coarse_noise_does():
    box, _ = endpoint()
    rows = {row.answers: row.width for row in find_leak(box, DIM, np.sqrt(DIM)).rows}
    assert rows["rounded to 4 decimals"] == rows["rounded to 2 decimals"] == rows["in float16"] == WIDTH
    assert rows["with noise of 0.1 of their spread"] is None


def with_a_bias(X, size):
    return endpoint()[0](X) + size * np.random.default_rng(9).standard_normal(OUTPUTS)


def with_a_large_unit(X):
    rng = np.random.default_rng(0)
    first, E = rng.standard_normal((DIM, WIDTH)), rng.standard_normal((OUTPUTS, WIDTH))
    hidden = np.tanh(X.mean(axis=1) @ first)
    return (hidden * np.where(np.arange(WIDTH) == 3, 2000.0, 1.0)) @ E.T


@pytest.mark.parametrize(
    "box",
    [
        endpoint(probabilities=True)[0],
        lambda X: with_a_bias(X, 1.0),
        lambda X: with_a_bias(X, 100.0),
        with_a_large_unit,
        lambda X: endpoint()[0](X).astype(np.float32),
    ],
    ids=["log-probabilities", "bias", "large bias", "large unit", "float32"],
)
def test_neither_normalisation_nor_biases_nor_a_large_unit_change_the_width(box):
    assert find_leak(box, DIM, np.sqrt(DIM)).rows[0].width == WIDTH


def test_probabilities_are_no_linear_map_and_show_no_width():
    box, _ = endpoint(probabilities=True)
    assert all(row.width is None for row in find_leak(lambda X: np.exp(box(X)), DIM, np.sqrt(DIM)).rows)


def test_few_outputs_more_than_the_width():
    rng = np.random.default_rng(1)
    head = gh.Attention(rng.standard_normal((6, 6)), rng.standard_normal((6, 12)))
    assert find_leak(head, 6, np.sqrt(6)).rows[0].width == 6


def test_nothing_shows_where_answers_are_no_longer_than_the_state():
    box, _ = endpoint(outputs=WIDTH)
    assert all(row.width is None for row in find_leak(box, DIM, np.sqrt(DIM)).rows)
    assert find_leak(gh.Attention.random(4, seed=0), 4, 2.0) is None


def test_it_stands_in_the_audit():
    box, _ = endpoint()
    found = gh.audit(gh.ValueOracle(box, DIM), defences={}, budget=300)
    assert found.leak is not None
    assert found.to_dict()["leak"]["rows"][0]["width"] == WIDTH
    assert found.to_dict()["leak"]["queries"] == found.leak.queries
