"""The last norm of a block, and what its answers say about what it normalised, once the neurons are known.

Answers of a LayerNorm lie in a plane, whose normal gives its gains up to one factor, and on a sphere in that plane, but
for its eps; the centre and the radius give that factor and the shifts. Behind it the length and the mean of what it
normalised are lost, `y = gains * n + network(n)`. With the neurons known up to mirror images, the gains of the first
norm and each neuron's side follow from a linear system, since `act(-z) = act(z) - z`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._errors import NotConverged
from ..._linalg import mean_zero, unit
from ..._models import Norm, PostNorm, TwoLayer
from ..._types import Float
from .whole_fit import FIRST_EPS

FLAT = 1e-9  # of the other directions: how far answers may leave their plane
ROUND = 1e-3  # of the radius: how much it may vary, which it does with the eps of the last norm
SIDE_EQUATIONS = 3.0  # for each unknown
SURE_SIDE = 0.2  # from 0 or 1: a side that is no nearer to either is none
NO_GAINS = 1e-6  # of typical output weights: no residual connection goes around the network


@dataclass(frozen=True)
class LastNorm:
    """Gains and shifts of the last norm, and by how much the radius of what it leaves varies."""

    gains: Float[np.ndarray, " d"]
    shifts: Float[np.ndarray, " d"]
    spread: float

    def rays(self, Y: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        """The directions of what it normalised, in coordinates of what has mean 0."""
        return unit(((Y - self.shifts) / self.gains) @ mean_zero(len(self.gains)))


def last_norm(Y: Float[np.ndarray, "n d"], lengths: Float[np.ndarray, " n"] | None = None) -> LastNorm:
    """The norm that left these answers: they lie on an ellipsoid in a plane, but for its eps, over the squares of the
    lengths that it normalised."""
    centred = Y - Y.mean(axis=0)
    s, right = np.linalg.svd(centred, full_matrices=False)[1:]
    normal = right[-1]
    if not s[-1] <= FLAT * s[-2] or not np.abs(normal).min() > 0:
        raise NotConverged("the answers do not lie in one plane, as those of a LayerNorm behind the network do")
    normal = np.sign(np.median(normal)) * normal * np.sqrt(len(normal))
    Z, z = mean_zero(len(normal)), Y * normal
    flat = (z - z.mean(axis=1, keepdims=True)) @ Z
    eps = np.zeros((len(z), 0)) if lengths is None else -1 / lengths[:, None] ** 2
    system = np.concatenate([2 * flat, np.ones((len(z), 1)), eps], axis=1)
    found = np.linalg.lstsq(system, np.einsum("np,np->n", flat, flat), rcond=None)[0]
    centre = found[: flat.shape[1]]
    radius = np.sqrt(np.einsum("np,np->n", flat - centre, flat - centre) - eps @ found[flat.shape[1] + 1 :])
    mean = float(radius.mean())
    spread = float(radius.std()) / mean
    if not spread <= ROUND:
        raise NotConverged(f"the answers do not lie on one sphere, as those of a LayerNorm do: off by {spread:.1e}")
    factor = mean / np.sqrt(len(normal))
    return LastNorm(factor / normal, (Z @ centre + z.mean()) / normal, spread)


@dataclass(frozen=True)
class Sides:
    """Gains of the first norm, 1 for each neuron that is its mirror image and 0 for others, a constant, and how long
    the answers were before they were normalised."""

    gains: Float[np.ndarray, " d"]
    mirrored: Float[np.ndarray, " m"]
    b2: Float[np.ndarray, " p"]
    lengths: Float[np.ndarray, " n"]


def solve_sides(network: TwoLayer, last: LastNorm, n: Float[np.ndarray, "n d"], Y: np.ndarray) -> Sides:
    """Solves for both sides by a linear system on as many of these answers as it takes: y is known up to its length."""
    d, m, Z = n.shape[1], network.width, mean_zero(n.shape[1])
    few = min(len(n), int(SIDE_EQUATIONS * (2 * d + m) / (d - 2)) + 8)
    rays, inputs = last.rays(Y[:few]), n @ Z
    columns = [
        n[:few, None, :] * Z.T[None],
        -np.einsum("nm,pm->npm", inputs[:few] @ network.W1.T, network.W2),
        np.broadcast_to(np.eye(d - 1), (few, d - 1, d - 1)),
    ]
    system, bent = np.concatenate(columns, axis=2), network.hidden(inputs) @ network.W2.T
    system = system - rays[:, :, None] * np.einsum("np,npx->nx", rays, system)[:, None]
    across = bent[:few] - rays * np.einsum("np,np->n", rays, bent[:few])[:, None]
    found = np.linalg.lstsq(system.reshape(few * (d - 1), -1), -across.ravel(), rcond=None)[0]
    gains, mirrored, b2 = found[:d], found[d : d + m], found[d + m :]
    y = (gains * n) @ Z - (inputs @ network.W1.T * mirrored) @ network.W2.T + b2 + bent
    return Sides(gains, mirrored, b2, np.linalg.norm(y, axis=1))


def with_sides(
    network: TwoLayer, last: LastNorm, n: np.ndarray, Y: np.ndarray, total: Float[np.ndarray, "d d"]
) -> PostNorm | None:
    """All that stands behind the heads, with every neuron on its side and the gains of the first norm, but for its eps
    and the constant that heads add; None where neurons are on no side."""
    found, Z = solve_sides(network, last, n, Y), mean_zero(n.shape[1]).T
    mirrored = found.mirrored > 0.5
    if not np.abs(found.mirrored - mirrored).max(initial=0.0) <= SURE_SIDE:
        return None
    side = np.where(mirrored, -1.0, 1.0)
    b2 = found.b2 + network.W2[:, mirrored] @ network.b1[mirrored]
    whole = TwoLayer(
        side[:, None] * network.W1 @ Z, side * network.b1, Z.T @ network.W2, b2 @ Z, activation=network.activation
    )
    eps = FIRST_EPS * float(found.gains.mean()) ** 2
    norm, behind = Norm("layer", FIRST_EPS, "behind"), Norm("layer", eps or None, "behind")
    return scaled(PostNorm(whole, norm, found.gains, behind, last.gains, last.shifts, total, np.zeros(n.shape[1])))


def scaled(model: PostNorm) -> PostNorm:
    """The model with gains of mean 1, or output weights of that size where there are no gains: none sees that size."""
    old = model.network
    size, typical = float(model.gains.mean()), float(np.sqrt(np.mean(old.W2**2)))
    size = size if abs(size) > NO_GAINS * typical else typical
    network = TwoLayer(old.W1, old.b1, old.W2 / size, old.b2 / size, activation=old.activation)
    last = Norm("layer", (model.last.eps or 0.0) / size**2 or None, "behind")
    gains, last_gains = model.gains / size, np.sign(size) * model.last_gains
    return replace(model, network=network, gains=gains, last=last, last_gains=last_gains)
