"""How far a recovered network is from the true one, weight by weight, up to what no query can see."""

from __future__ import annotations

import numpy as np
from bench.network import weight_error

import glasshead as gh


class Counting:
    """A network that counts what it is asked and keeps the lengths of inputs."""

    def __init__(self, model: gh.TwoLayer, single: bool = False):
        self.model, self.dim, self.single = model, model.dim, single
        self.asked, self.lengths = 0, []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.asked += len(x)
        self.lengths.append(np.linalg.norm(x, axis=1))
        answers = self.model(x)
        return answers[:, 0] if self.single else answers


def recovered(model: gh.TwoLayer, tol: float = 1e-10, **settings) -> gh.RecoveredNetwork:
    """What `gh.recover_network` finds, after asserting that every weight is right."""
    box = Counting(model)
    found = gh.recover_network(box, **settings)
    assert found.queries == box.asked
    assert found.width == model.width
    assert found.activation == model.activation
    assert weight_error(model, found.model) <= tol
    return found
