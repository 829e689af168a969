"""The network of a language model of one block, behind a last norm and an unembedding.

The unembedding E is known by then, so a logit shows the ray of `a + y`, y what the network adds at a, and not how long
it is. The norm in front of the network forgets lengths too, so y is the same all along a ray of a, but for an eps: `y +
c / t^2` at the length t. With n the direction of a, what rays at several t are off n by,

    `r(t) = (y' + c' / t^2) / (t + y_n + c_n / t^2)`

(y' across n, y_n along it), is linear in these four numbers once it is multiplied out, and four lengths give all of y.
An offset that is wrong makes them contradict each other: two sets of lengths are then answered like different y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._errors import NotConverged
from ..._linalg import norms, unit
from ..._models import Block, Norm, Unembedding
from ..._oracles import Oracle, are_log_probabilities, extrapolation, read_single
from ..._types import Float
from .stream import Stream

LOGIT_LENGTHS = 2.0 ** np.arange(3, 7)  # of a, over normalised tokens: eps is little there, and y is seen well
NEARER = 2.0 ** np.arange(1, 5)
LONG = 2.0 ** np.arange(9, 13)
OPPOSITE_PAIRS = 4  # of opposite tokens, whose answers add up to twice the bias of the unembedding
USUAL_EPS = 1e-5  # of a norm, to begin with, where that in front has none
OFFSET_RAYS, RAY_ROUNDS = 4, 6
KINKED_ROUNDS, REWEIGHTED = 12, 15
LEAST_MISFIT = 1e-9  # of a ray: less is none
OFFSET_STEP = 1e-4  # of numeric derivatives
SETTLED_OFFSET = 1e-7  # of a normalised token: the rest is left to the fit of all weights
SEEN = 1e-9  # of the largest singular value
UNEMBEDDED = 1e-6  # of the largest singular value of an unembedding that was read: a norm hides what is fainter


@dataclass(frozen=True)
class Logits(Stream):
    """The box behind its heads, `last` undone."""

    last: Unembedding
    back: Float[np.ndarray, "k d"]

    def read_rays(self, x: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
        """What is in front of the unembedding, up to its length if a norm stands there."""
        answers = np.asarray(read_single(self.oracle, x))
        if self.last.probabilities:
            answers = answers - answers.mean(axis=1, keepdims=True)
        return (answers - self.last.bias) @ self.back

    def read(self, a: Float[np.ndarray, "B d"], offset: np.ndarray) -> Float[np.ndarray, "B d"]:
        """What the network adds along the ray of a, as far as a norm shows it."""
        if self.last.norm is None:
            x = self.found_tokens(a, offset)
            return self.read_rays(x) - x - self.front(x) @ self.total - offset
        return self.read_along(a, offset, LOGIT_LENGTHS)

    def found_tokens(self, a: np.ndarray, offset: np.ndarray) -> Float[np.ndarray, "B d"]:
        x = self.tokens(a, offset)
        if len(x) < len(a):
            raise NotConverged("no token was found for a point behind the heads, where the network reads it")
        return x

    def read_along(self, a: np.ndarray, offset: np.ndarray, lengths: np.ndarray) -> Float[np.ndarray, "B d"]:
        along, size = unit(a), float(np.sqrt(self.oracle.dim))
        there = (size * lengths[:, None, None] * along).reshape(-1, a.shape[1])
        rays = self.read_rays(self.found_tokens(there, offset)).reshape(len(lengths), *a.shape)
        across = rays / np.einsum("tbd,bd->tb", rays, along)[:, :, None] - along
        r = np.einsum("tbd,bd->bt", across, unit(across[0]))
        t, s = size * lengths, np.broadcast_to(1 / lengths**2, r.shape)
        found = np.linalg.solve(np.stack([r, r * s, -np.ones_like(r), -s], axis=2), (-r * t)[:, :, None])[:, :, 0]
        whole = across * (t + found[:, :1] + found[:, 1:2] * s).T[:, :, None]
        weights = np.linalg.pinv(np.stack([np.ones(len(lengths)), 1 / lengths**2], axis=1))[0]
        return np.einsum("t,tbd->bd", weights, whole) + found[:, :1] * along

    def read_offset(self, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
        """The constant that heads add, with which two sets of lengths say the same of the network. Where it does not
        settle, kinks of a ReLU network lie between some rays: then others are asked in each round, and those that
        do not fit count less."""
        n, offset = self.sphere(OFFSET_RAYS, rng), np.zeros(self.oracle.dim)
        for _ in range(RAY_ROUNDS):
            change = self.read_change(n, offset)
            offset = offset + change
            if np.linalg.norm(change) <= SETTLED_OFFSET:
                return offset
        for _ in range(KINKED_ROUNDS):
            change = self.read_change(self.sphere(2 * OFFSET_RAYS, rng), offset, REWEIGHTED)
            offset = offset + change
            if np.linalg.norm(change) <= SETTLED_OFFSET:
                break
        return offset

    def read_change(self, n: np.ndarray, offset: np.ndarray, reweighted: int = 0) -> Float[np.ndarray, " d"]:
        """By how much an offset is wrong, to first order: least squares, or nearly a sum of lengths if `reweighted`."""

        def read_apart(offset: np.ndarray) -> np.ndarray:
            near, far = (self.read_along(n, offset, lengths) for lengths in (NEARER, LOGIT_LENGTHS))
            return near - far

        left, basis, weights = read_apart(offset), self.basis, np.ones(len(n))
        J = np.stack([(read_apart(offset + OFFSET_STEP * e) - left) / OFFSET_STEP for e in basis], axis=2)
        found = np.zeros(len(basis))
        for _ in range(1 + reweighted):
            rows, wanted = weights[:, None, None] * J, weights[:, None] * left
            found = -np.linalg.lstsq(rows.reshape(-1, len(basis)), wanted.ravel(), rcond=SEEN)[0]
            weights = 1 / np.sqrt(np.maximum(norms(left + J @ found), LEAST_MISFIT))
        return found @ basis


def find_logits(oracle: Oracle, block: Block, rng: np.random.Generator) -> Logits:
    """The box behind its heads and in front of its unembedding, whose bias is read here."""
    E, d, front = block.unembedding, oracle.dim, block.front
    assert E is not None
    assert front is not None
    hidden = 1 if front.kind == "layer" else 0
    eps = front.eps or USUAL_EPS
    behind = next((Norm(norm.kind, eps, "behind") for norm in block.norms if norm.place == "behind"), None)
    if len(block.free) != hidden or (behind is None and hidden):
        raise NotConverged(
            "the network in front of an unembedding is read where answers show all of the residual connection but "
            f"what norms forget: they leave {len(block.free)} of {d} dimensions open"
        )
    stream = Stream(oracle, block, front)
    n = stream.sphere(OPPOSITE_PAIRS, rng)
    tokens = np.concatenate([n, -n])
    asked = np.asarray(read_single(oracle, (LONG[:, None, None] * tokens).reshape(-1, d))).reshape(
        len(LONG), len(tokens), -1
    )
    probabilities = are_log_probabilities(asked)
    if probabilities:
        asked = asked - asked.mean(axis=2, keepdims=True)
    bias = np.einsum("t,tbk->bk", extrapolation(LONG), asked).mean(axis=0)
    back = np.linalg.pinv(E, rcond=UNEMBEDDED)
    last = Unembedding(behind, E, bias, probabilities)
    return Logits(oracle, block, front, last, back)
