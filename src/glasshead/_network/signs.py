"""On which side of its hyperplane a neuron is: what second derivatives cannot see and the linear part can.

`act(-z) = act(z) - z` for every activation here, so a neuron and its mirror image bend alike. The box is the sum of
`W2_j act(z_j)` and of something linear, `L x + l`, where L is half the sum of `(s_j - 1) W2_j w_j^T` for some signs
s_j: as many equations as L has entries, and as many unknowns as there are neurons. Where answers have many numbers the
signs follow from a linear system. Where they have few, there may be more neurons than equations; then all signs are
tried, or a linear program is asked, as for ReLU networks, and if nothing comes of it further neurons carry the rest,
`act(r.x) - act(-r.x) = r.x`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._models import TwoLayer
from .._relu import choose_signs
from .._types import Float

LINEAR_INPUTS = 1.5  # inputs for each unknown of the linear part
NO_LINEAR_PART = 1e-9  # of the largest answer: a linear part no larger than that is none


@dataclass(frozen=True)
class Sided:
    """A network, and a linear part that it does not account for: `model(x) + linear x`."""

    model: TwoLayer
    linear: Float[np.ndarray, "k d"] | None
    words: str

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.model(X) if self.linear is None else self.model(X) + X @ self.linear.T


def inputs_needed(dim: int) -> int:
    return int(LINEAR_INPUTS * (dim + 1)) + 8


def with_signs(model: TwoLayer, X: np.ndarray, Y: np.ndarray, slack: float) -> Sided:
    """The network whose linear part is that of the answers Y to X; `slack` is the error of a weight."""
    X1 = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    fit = np.linalg.lstsq(X1, Y - model.hidden(X) @ model.W2.T, rcond=None)[0]
    products = np.einsum("km,md->mkd", model.W2, model.W1).reshape(model.width, -1)
    # sum_j s_j P_j = 2 L + sum_j P_j, with P_j = W2_j w_j^T
    target = 2 * fit[:-1].T.ravel() + products.sum(axis=0)
    signs = choose_signs(products, target, np.ones(model.width), slack * float(np.linalg.norm(products)) + slack)
    side = np.where(signs.multiples < 0, -1.0, 1.0)
    turned = TwoLayer(side[:, None] * model.W1, side * model.b1, model.W2, None, activation=model.activation)
    rest = np.linalg.lstsq(X1, Y - turned.hidden(X) @ turned.W2.T, rcond=None)[0]
    left = float(np.abs(X @ rest[:-1]).max(initial=0.0))
    turned = TwoLayer(turned.W1, turned.b1, turned.W2, rest[-1], activation=model.activation)
    known = left <= max(NO_LINEAR_PART, 10 * slack) * float(np.abs(Y).max(initial=0.0))
    return Sided(turned, None if known else rest[:-1].T, signs.words)


def with_linear_neurons(sided: Sided, scale: float) -> TwoLayer:
    """The network with two more neurons for each dimension of the linear part, of order 1 at inputs of that length."""
    if sided.linear is None:
        return sided.model
    left, s, right = np.linalg.svd(sided.linear, full_matrices=False)
    seen = s > NO_LINEAR_PART * max(float(s[0]), float(np.abs(sided.model.W2).max() * np.abs(sided.model.W1).max()))
    rows, columns = right[seen] / scale, (left[:, seen] * s[seen]) * scale
    model, none = sided.model, np.zeros(2 * len(rows))
    return TwoLayer(
        np.concatenate([model.W1, rows, -rows]),
        np.concatenate([model.b1, none]),
        np.concatenate([model.W2, columns, -columns], axis=1),
        model.b2,
        activation=model.activation,
    )
