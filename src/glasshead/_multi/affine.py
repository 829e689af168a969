"""The key bias as one more column of W.

A query is a vector `(x, beta)` of d + 1 numbers: the token `kappa x / beta`, its key is `W kappa x / beta + key_bias`.
Times beta that is `M (x, beta)` with `M = [kappa W, key_bias]`, linear in the query: a scheme for a matrix learns both,
and where the key bias lies in the column space of W it costs r scores, not d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._meter.frame import Frame, cone, random_rotation
from .._types import Float


@dataclass(frozen=True)
class Queries:
    """Directions of queries: `lift` takes the m coordinates that a square scheme works with to d + 1, `rest` are the
    others. All vectors of `frame` have the same beta, `1/sqrt(m)`."""

    lift: Float[np.ndarray, "e m"]
    rest: Float[np.ndarray, "n e"]
    frame: Frame


def make_queries(dim: int, m: int, rng: np.random.Generator) -> Queries:
    """As many directions as there are keys, `m <= dim`, and the `dim + 1 - m` others."""
    tokens, bias = np.c_[random_rotation(dim, rng), np.zeros(dim)], np.eye(dim + 1)[dim]
    axis = np.eye(m)[0]
    beta = 1 / np.sqrt(m)
    rest = (tokens[m - 1 :] + beta * bias) / np.sqrt(1 + beta**2)
    return Queries(np.vstack([bias, tokens[: m - 1]]).T, rest, cone(axis, rng, lean=float(beta)))


def tokens(x: Float[np.ndarray, "n e"], kappa: float) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"]]:
    """The tokens of queries, and their beta."""
    beta = x[:, -1]
    return kappa * x[:, :-1] / beta[:, None], beta
